package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines are read as they were appended; one that a kill cut is left out, and dropped by the next; a damaged one is an error with its cure.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	l, err := ReadLines[int](path, "")
	require.NoError(t, err)
	require.Empty(t, l)
	require.NoError(t, AppendLine(path, 1))
	require.NoError(t, os.WriteFile(path, []byte("1\n2"), 0o644))
	l, err = ReadLines[int](path, "")
	require.NoError(t, err)
	require.Equal(t, []int{1}, l)
	require.NoError(t, AppendLine(path, 3))
	l, err = ReadLines[int](path, "")
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, l)
	require.NoError(t, os.WriteFile(path, []byte("1\nx\n"), 0o644))
	_, err = ReadLines[int](path, "mend it")
	require.ErrorContains(t, err, "x.jsonl is damaged at line 2: ")
	require.ErrorContains(t, err, "; mend it")
}
