//go:build linux && (amd64 || arm64)

package aot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The link is moved whatever is in its place: nothing, another link, one that leads nowhere, a folder.
func TestPointLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "dump")
	for _, before := range []func() error{
		func() error { return nil },
		func() error { return nil },
		func() error { return os.Remove(filepath.Join(dir, "a")) },
		func() error { return os.RemoveAll(link) },
		func() error {
			os.Remove(link)
			if err := os.Mkdir(link, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(link, "x"), nil, 0o644)
		},
	} {
		target := filepath.Join(dir, "a")
		require.NoError(t, os.MkdirAll(target, 0o755))
		require.NoError(t, before())
		require.NoError(t, pointLink(link, target))
		to, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, target, to)
	}
}
