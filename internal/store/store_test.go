package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObjects(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "objects")}
	text := []byte(strings.Repeat("module ", 1000))
	key, err := s.Put(text)
	require.NoError(t, err)
	again, err := s.Put(text)
	require.NoError(t, err)
	require.Equal(t, key, again)
	got, err := s.Get(key)
	require.NoError(t, err)
	require.Equal(t, text, got)
	info, err := os.Stat(s.path(key))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200))
	require.Equal(t, fs.FileMode(0o644), info.Mode(), "as the journal beside it: colleagues verify it too")
	empty, err := s.Put(nil)
	require.NoError(t, err)
	got, err = s.Get(empty)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestDamage(t *testing.T) {
	s := Store{t.TempDir()}
	a, err := s.Put([]byte("one"))
	require.NoError(t, err)
	b, err := s.Put([]byte("two"))
	require.NoError(t, err)
	data, err := os.ReadFile(s.path(a))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path(b), data, 0o644))
	_, err = s.Get(b)
	require.ErrorContains(t, err, "its content is another")
	require.NoError(t, os.WriteFile(s.path(b), data[:len(data)-3], 0o644))
	_, err = s.Get(b)
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, os.Remove(s.path(b)))
	_, err = s.Get(b)
	require.ErrorContains(t, err, "missing")
	for _, bad := range []string{"", "xyz", "../../etc/passwd", strings.Repeat("g", 64)} {
		_, err = s.Get(bad)
		require.ErrorContains(t, err, "not a key")
	}
}

func TestClean(t *testing.T) {
	s := Store{t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, ".new-123"), nil, 0o644))
	require.NoError(t, s.Clean())
	left, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
