package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/stretchr/testify/require"
)

// Who measures is named by doctor and by commands that do not want to wait, which leave nothing behind.
func TestMachineBusy(t *testing.T) {
	cache, run := t.TempDir(), filepath.Join(t.TempDir(), "run")
	t.Setenv(plugins.CacheEnv, cache)
	t.Setenv(plugins.LockEnv, "")
	lock := machine.New(filepath.Join(cache, "machine"), nil)
	_, free, err := lock.Measure(t.Context())
	require.NoError(t, err)
	defer free()
	holder := lock.Holders()[0].String()
	gdngen := func(args ...string) (status int, said string) {
		var out bytes.Buffer
		status = execute(args, nil, &out, &out)
		return status, out.String()
	}
	_, said := gdngen("doctor", "--offline")
	require.Contains(t, said, holder)
	for _, args := range [][]string{{"search", "run"}, {"search", "run", "--plugin", "cpu"}, {"bench"}} {
		status, said := gdngen(append(args, "--offline", "--no-wait", "--run", run)...)
		require.Equal(t, app.ExitInfra, status, said)
		require.Contains(t, said, "the machine is in use: "+holder)
		_, err := os.Stat(run)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}
