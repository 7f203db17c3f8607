package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPresets(t *testing.T) {
	read := func(text string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(text), nil }
	}
	for _, want := range Presets {
		require.NoError(t, want.Check())
		got, err := ReadPreset(want.Name, nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	p, err := ReadPreset("contest-prefill", nil)
	require.NoError(t, err)
	require.Equal(t, []int{1, 5, 3}, []int{p.Warmup, p.Iterations, p.Trials})
	require.Equal(t, 300*time.Second, p.Limit)

	p, err = ReadPreset("mine.json", read(`{"trials": 7, "measure": "2s", "limit": "1m", "statistic": "median", "cold": false}`))
	require.NoError(t, err)
	require.Equal(t, Protocol{Warmup: 10, Iterations: 50, Trials: 7, Measure: 2 * time.Second, InPlace: true, Statistic: median}, p.Protocol)
	require.Equal(t, time.Minute, p.Limit)
	for text, fault := range map[string]string{`{"trails": 1}`: `unknown field "trails"`, `{"trials": 0}`: "at least 1", `{"measure": 3}`: "mine.json", `{"measure": "3"}`: `want a duration such as "90s"`,
		`{"statistic": "best"}`: "want mean or median"} {
		_, err := ReadPreset("mine.json", read(text))
		require.ErrorContains(t, err, fault)
	}
	_, err = ReadPreset("quick", nil)
	require.ErrorContains(t, err, "known: default run-local contest-decode contest-prefill")
	_, err = ReadPreset("mine.json", func(string) ([]byte, error) { return nil, errors.New("gone") })
	require.ErrorContains(t, err, "gone")
}
