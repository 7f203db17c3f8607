package ladder

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/tests/crash"
)

// Every flip of a bit is seen, in the journal of a climb and in standings.
func TestFlips(t *testing.T) {
	dir := t.TempDir()
	c := &Config{Kernel: "tiny", Base: "naive", Variant: "default", Target: "v6e"}
	b, err := openBook(dir, c)
	require.NoError(t, err)
	for _, name := range []string{"kernel", "layer", "step"} {
		require.NoError(t, b.add(Record{Rung: name, Reason: "because"}))
	}
	crash.Flips(t, b.path, func() error {
		_, err := Load(dir)
		_, bad := openBook(dir, c)
		if (err == nil) != (bad == nil) {
			return nil
		}
		return err
	})
	for i := range 4 {
		require.NoError(t, store.AppendLine(filepath.Join(dir, report.StandingsName), report.Standing{Candidate: i, Variant: "naive", Target: "v6e", Model: "m", Score: 77}))
	}
	crash.Flips(t, filepath.Join(dir, report.StandingsName), func() error { _, err := report.ReadStandings(dir); return err })
}
