package aot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Folders of processes that are gone are removed, those in use and those just made are not.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := NewScratch()
	require.NoError(t, err)
	left := filepath.Join(os.TempDir(), scratchPrefix+"left")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "dump"), 0o755))
	require.Empty(t, sweep(os.TempDir(), time.Now().Add(-time.Hour)), "all are young")
	require.Equal(t, []string{left}, sweep(os.TempDir(), time.Now().Add(time.Hour)))
	require.DirExists(t, used.Dir)
	require.NoError(t, used.Close())
	require.NoDirExists(t, used.Dir)
}
