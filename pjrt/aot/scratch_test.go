package aot

import (
	"fmt"
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

// A folder into which the dying worker of a killed process still writes is removed all the same.
func TestSweepWhileDying(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for i := range 20 {
		dir := filepath.Join(os.TempDir(), fmt.Sprint(scratchPrefix, "dying", i), "dump")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		first, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for n := range 400 {
				if os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o644) != nil {
					return // its folder is gone
				}
				if n == 50 {
					close(first)
				}
			}
		}()
		<-first
		require.Equal(t, []string{filepath.Dir(dir)}, sweep(os.TempDir()))
		<-done
		require.NoDirExists(t, filepath.Dir(dir))
	}
}
