package aot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Folders of processes that are gone are removed, those in use are not.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := NewScratch()
	require.NoError(t, err)
	left, other := filepath.Join(os.TempDir(), scratchPrefix+"left"), filepath.Join(os.TempDir(), scratchPrefix+"other")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "dump"), 0o755))
	require.NoError(t, os.WriteFile(left+lockSuffix, nil, 0o644))
	require.NoError(t, os.Mkdir(other, 0o755), "one without a lock")
	require.Equal(t, []string{left, other}, sweep(os.TempDir()))
	require.DirExists(t, used.Dir)
	require.NoError(t, used.Close())
	rest, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, rest)
}
