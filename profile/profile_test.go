package profile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/profile"
	"github.com/gdngen/gdngen/trace"
)

func TestMain(m *testing.M) {
	device.RunWorkerIfAsked()
	os.Exit(m.Run())
}

func run(t *testing.T, plugin, dir string) *profile.Record {
	t.Helper()
	d, err := device.Open(t.Context(), device.Options{Plugin: plugin})
	require.NoError(t, err)
	defer d.Close()
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	f, err := lower.Suit(s, "naive", d.Target())
	require.NoError(t, err)
	r, err := profile.Run(t.Context(), d, nil, s, f.Variant, pjrt.ProfileOptions{Steps: 4, Start: 1, Count: 3, Batch: 2}, dir)
	require.NoError(t, err)
	return r
}

// What the plugin's profiler saw lies where trace, XProf and TensorBoard look for it, and the record says what ran.
func TestRun(t *testing.T) {
	saw, err := filepath.Abs("../trace/testdata/tpu-before.xplane.pb")
	require.NoError(t, err)
	plugin := devicetest.Stub(t)
	dir := t.TempDir()
	r := run(t, plugin, dir)
	require.Contains(t, r.NoTrace, "no profiler")
	require.Empty(t, r.Trace)
	_, err = trace.Open(dir)
	require.ErrorContains(t, err, "no trace in this folder")

	t.Setenv(devicetest.Profiler, saw)
	r = run(t, plugin, dir)
	require.Empty(t, r.NoTrace)
	require.Len(t, r.Steps, 4)
	require.Positive(t, r.Median())
	x, err := trace.Open(dir)
	require.NoError(t, err)
	require.Equal(t, []string{r.Trace}, x.Files)
	s, err := x.Sum(trace.Query{Warmup: -1})
	require.NoError(t, err)
	require.Equal(t, 8, s.Steps.Count)

	var record profile.Record
	data, err := os.ReadFile(filepath.Join(dir, profile.StepsFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &record))
	require.Equal(t, *r, record)
	require.Equal(t, 2*32, record.Tokens)
}

func TestAddArgs(t *testing.T) {
	require.Equal(t, "--a=1 --b=2", profile.AddArgs("--a=1", []string{"--b=2"}))
	require.Equal(t, "--b=2", profile.AddArgs("", []string{"--b=2"}))
}
