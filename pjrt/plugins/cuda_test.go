package plugins

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two releases may share a folder of the cache, each with a place of its own in it.
func TestSharedFolder(t *testing.T) {
	r, links := probe(t)
	withPip(t, links, "")
	r.folder, r.place = "gdngen-toolkit", "bin/tool"
	var progress bytes.Buffer
	p, err := r.obtain(t.Context(), Options{Progress: &progress})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(os.Getenv(CacheEnv), "plugins", "gdngen-toolkit", "bin", "tool"), p.Path)
	other := r
	other.place = "lib/tool"
	q, err := other.obtain(t.Context(), Options{})
	require.NoError(t, err)
	require.FileExists(t, q.Path)
	_, entries, _, err := Cache()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	freed, err := Clean(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2*r.size, freed)
}

// What GPUs need is no fault where it is absent, but a name of the user's that leads nowhere is.
func TestCUDAAbsent(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	for _, c := range checkGPUTools(t.Context()) {
		require.True(t, c.OK, "%+v", c)
		require.Contains(t, c.Detail, setupGPU)
	}
	_, err := CUDA(t.Context(), Options{Offline: true})
	require.ErrorContains(t, err, setupGPU)
	library := filepath.Join(t.TempDir(), "plugin.so")
	require.NoError(t, os.WriteFile(library, []byte("x"), 0o644))
	t.Setenv(CUDAPluginEnv, library)
	t.Setenv(CUDAToolkitEnv, t.TempDir())
	_, err = CUDA(t.Context(), Options{Offline: true})
	requireMissing(t, err, NoFile, "bin/ptxas")
	require.False(t, checkGPUTools(t.Context())[1].OK)
}
