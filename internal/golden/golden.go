// Package golden compares the output of tests with stored files.
package golden

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/stretchr/testify/require"
)

// Check fails with the difference if the file's text is not got; with update it writes the file instead. command, shown on failure, updates it.
func Check(t testing.TB, file string, got []byte, update bool, command string) {
	t.Helper()
	if update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if d := diff.Diff(file, want, "now", got); d != nil {
		t.Errorf("the text is another; if that is meant, %s\n%s", command, d)
	}
}
