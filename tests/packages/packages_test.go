package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
)

// Each draw of the table is that of its seed and none has failed; of ten at most one is refused.
func TestResults(t *testing.T) {
	rows, err := readRows("results.tsv")
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	count := map[string]int{}
	for seed, r := range rows {
		require.Equal(t, drawn(seed), r.draw, "the draws have changed: go run ./tests/packages makes the table anew")
		require.Regexp(t, `^\d{4}-\d\d-\d\d$`, r.date)
		require.Contains(t, []string{lowers, refused}, r.verdict, r.String())
		count[r.verdict]++
	}
	require.LessOrEqual(t, count[refused], max(1, len(rows)/10), "%d of %d draws are refused", count[refused], len(rows))
}

// A draw is a spec and the same each time; seeds differ.
func TestDrawn(t *testing.T) {
	all := map[string]bool{}
	for seed := uint64(1); seed <= 200; seed++ {
		d := drawn(seed)
		require.Equal(t, d, drawn(seed))
		_, err := gdn.Parse(d.spec)
		require.NoError(t, err, d.spec)
		all[d.spec] = true
	}
	require.Greater(t, len(all), 190)
}

// A phase whose rounds would not end within their chunk gives way at their ends alone: it is written, where it was refused.
func TestRoundsEnd(t *testing.T) {
	require.NoError(t, write(drawn(65), t.TempDir()))
}

// Two of the draws that take least, which rotate by commit, lower or are refused as the table says of them, or by a sentence.
func TestPackages(t *testing.T) {
	python := os.Getenv("GDNGEN_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", ".venv", "bin", "python")
	}
	if _, err := exec.LookPath(python); err != nil {
		const how = "no Python with JAX: set GDNGEN_PYTHON to an interpreter with the packages of tests/oracle/requirements.txt"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	var draws []draw
	for seed := uint64(1); seed <= 200; seed++ {
		draws = append(draws, drawn(seed))
	}
	slices.SortStableFunc(draws, func(a, b draw) int { return a.size() - b.size() })
	for _, d := range rotate.Sample(60, draws[:100], 2) {
		verdict, what := try(t.Context(), d, python)
		t.Logf("seed %d, %s by %s for %s: %s, %s", d.seed, d.spec, d.auto, d.target, verdict, what)
		require.Contains(t, []string{lowers, refused}, verdict, what)
	}
}
