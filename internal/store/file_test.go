package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	require.NoError(t, Writable(path))
	require.NoFileExists(t, path)
	require.NoError(t, WriteFile(path, []byte("one")))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Symlink("a", link))
	require.NoError(t, WriteFile(link, []byte("two")))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	require.NoError(t, Writable(os.DevNull))
	require.NoError(t, WriteFile(os.DevNull, []byte("three")))
	info, err = os.Stat(os.DevNull)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular())
}

// What can not be written names the file that was asked for, and leaves the folder unchanged.
func TestWriteFileFaults(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none", "a"), dir} {
		for _, err := range []error{WriteFile(path, nil), Writable(path)} {
			at := new(fs.PathError)
			require.ErrorAs(t, err, &at)
			require.Equal(t, path, at.Path)
		}
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		require.ErrorContains(t, WriteFile("/dev/full", []byte("x")), "write /dev/full: no space left")
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
