package objective

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Objective{"": {}, "cost": {}, "cost@error=fla": {Class: gdn.AccuracyFLA}, "cost@error=f32-like": {Class: gdn.AccuracyF32}, "error@cost=2.4": {Most: 2.4}} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		if text != "cost" {
			require.Equal(t, text, got.String())
		}
	}
	for text, why := range map[string]string{
		"cost=3": "cost has no value", "cost@error": `the class "" is unknown`, "cost@error=best": `the class "best" is unknown`, "speed": "it is unknown",
		"error@cost": `"" is no number of cycles`, "error@cost=-1": "is no number of cycles", "error@cost=inf": "is no number of cycles", "error@cost=NaN": "is no number of cycles",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, why, text)
		require.ErrorContains(t, err, "an objective is cost, cost@error=CLASS")
	}
	for _, text := range Examples() {
		_, err := Parse(text)
		require.NoError(t, err, text)
	}
}

func TestSupports(t *testing.T) {
	train, err := gdn.LookupPreset("train")
	require.NoError(t, err)
	require.NoError(t, Objective{}.Supports(train))
	require.ErrorContains(t, Objective{Most: 3}.Supports(train), "the errors of gradients have no table")
	require.ErrorContains(t, Objective{Class: gdn.AccuracyFLA}.Supports(train), "the errors of gradients have no table")
}

func TestMeets(t *testing.T) {
	o := Objective{Most: 2}
	require.True(t, o.Meets(&journal.Cost{PerToken: 2}))
	require.False(t, o.Meets(&journal.Cost{PerToken: 2.01}))
	require.False(t, o.Meets(&journal.Cost{PerToken: 1, Verdict: journal.VMEM}))
	require.False(t, Objective{}.Meets(&journal.Cost{PerToken: 1}))
}
