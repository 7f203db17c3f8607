package remote

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A place that answers without end, prints before it answers, lists files outside or more than it lists, or hides characters in names.
func TestHostileSSH(t *testing.T) {
	ssh := filepath.Join(t.TempDir(), "ssh")
	require.NoError(t, os.WriteFile(ssh, []byte(`#!/bin/sh
for script; do :; done
case "$MODE:$script" in
flood:*) exec yes AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA;;
motd:*) printf 'Welcome to host!\nthere\nended 0\n';;
outside:*'find . -type f'*) printf 'there\n5 ./../../escaped\n';;
hidden:*'find . -type f'*) printf 'there\n5 ./a\033[31mb\n';;
more:*'find . -type f'*) printf 'there\n5 ./a\n';;
more:*/out/*) head -c 300000000 /dev/zero;;
*) printf 'there\nended 0\n';;
esac
`), 0o755))
	t.Setenv(SSHEnv, ssh)
	p, err := openSSH("host")
	require.NoError(t, err)
	for mode, says := range map[string]string{"flood": "it answers with more than 64 MiB", "motd": `its shell prints "Welcome to host!"`, "outside": "outside of the results", "hidden": "outside of the results", "more": ""} {
		t.Setenv("MODE", mode)
		dir := t.TempDir()
		l, err := fetchSome(t.Context(), p, "j1", dir, func(File) bool { return true })
		if says != "" {
			require.ErrorContains(t, err, says, mode)
			continue
		}
		require.NoError(t, err)
		require.Len(t, l, 1)
		require.EqualValues(t, 5, l[0].Size)
	}
}
