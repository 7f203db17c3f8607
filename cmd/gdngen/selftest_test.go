package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/stretchr/testify/require"
)

// trySelftest tests one work by a few variants on a device.
func trySelftest(t *testing.T, spec string, variants []string, args ...string) (int, *selftest.Test, string) {
	t.Setenv(plugins.LockEnv, t.TempDir())
	works := selftest.Works
	defer func() { selftest.Works = works }()
	selftest.Works = []selftest.Work{{Name: "a work of a test", Spec: spec, Quick: variants}}
	var out, said bytes.Buffer
	status := execute(append([]string{"selftest", "--quick", "--tests", "kernels", "-o", "json"}, args...), nil, &out, &said)
	r := new(selftest.Test)
	if out.Len() > 0 {
		require.NoError(t, json.Unmarshal(out.Bytes(), r), said.String())
	}
	return status, r, said.String()
}

const selftestSpec = "b=1,t=40,hk=1,hv=2,k=16,v=16,dtype=f32"

// On a CPU all pass; on a device that gives wrong numbers, or whose process dies, cases fail, and the test goes on.
func TestSelftest(t *testing.T) {
	plugin := devicetest.Stub(t)
	status, r, said := trySelftest(t, selftestSpec, []string{"naive", "ladder16"}, "--plugin", "cpu")
	require.Zero(t, status, said)
	require.Equal(t, 6, r.Passed)
	require.Equal(t, "cpu", r.Device.Kind)

	t.Setenv(devicetest.Fault, "garbage")
	status, r, said = trySelftest(t, selftestSpec, []string{"naive"}, "--plugin", plugin)
	require.Equal(t, app.ExitNumerics, status, said)
	require.Equal(t, []int{0, 3}, []int{r.Passed, r.Failed})

	t.Setenv(devicetest.Fault, "dies:2")
	status, r, said = trySelftest(t, selftestSpec, []string{"naive"}, "--plugin", plugin)
	require.Equal(t, app.ExitNumerics, status, said)
	require.Equal(t, []int{2, 1}, []int{r.Passed, r.Failed}, "the second run of each process")
	require.Contains(t, r.Rows[1].Reason, "the process of the device died in a run (signal: killed)")
}

// A layer passes in both passes as what it consists of, and fails on a device that gives wrong numbers.
func TestSelftestLayer(t *testing.T) {
	layers := selftest.Layers
	defer func() { selftest.Layers = layers }()
	selftest.Layers = []model.Config{{Name: "small", Hidden: 8, Layers: 1, Batch: 1, Tokens: 16, Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 8, V: 8, Conv: 4}}}
	status, r, said := trySelftest(t, selftestSpec, nil, "--plugin", "cpu", "--tests", "layer")
	require.Zero(t, status, said)
	require.Equal(t, 2, r.Passed)
	require.Equal(t, "small, rule, backward", r.Rows[1].Spec)

	t.Setenv(devicetest.Fault, "garbage")
	status, r, said = trySelftest(t, selftestSpec, nil, "--plugin", devicetest.Stub(t), "--tests", "layer")
	require.Equal(t, app.ExitNumerics, status, said)
	require.Equal(t, 2, r.Failed)

	status, _, said = trySelftest(t, selftestSpec, nil, "--tests", "models")
	require.Equal(t, app.ExitUsage, status)
	require.Contains(t, said, "want kernels, layer, both")
}

// On a TPU the programs are kernels. A stub of one, of its generation, runs in place of the kernel what plain ops make of the same variant.
func TestSelftestOnTPU(t *testing.T) {
	plugin := devicetest.Stub(t)
	s, err := gdn.Parse("b=1,t=40,hk=1,hv=2,k=128,v=128,dtype=bf16")
	require.NoError(t, err)
	v, err := gdn.LookupVariant("merge-packed")
	require.NoError(t, err)
	a, err := route.Program(s, v, "stablehlo", nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "program.mlir")
	require.NoError(t, os.WriteFile(file, []byte(a.Text), 0o644))
	t.Setenv(devicetest.Platform, "tpu")
	t.Setenv(devicetest.Kind, "TPU v5 lite")

	status, _, said := trySelftest(t, s.String(), []string{"merge-packed"}, "--plugin", plugin, "--target", "v6e")
	require.Equal(t, app.ExitNoEngine, status)
	require.Contains(t, said, "is a v5e (TPU v5 lite), and programs are wanted for v6e (TPU v6 lite)")

	status, r, said := trySelftest(t, s.String(), []string{"merge-packed"}, "--plugin", plugin, "--target", "v5e")
	require.Equal(t, app.ExitNumerics, status, said)
	require.Contains(t, r.Rows[0].Reason, "tpu_custom_call", "the CPU behind the stub takes no kernel")

	t.Setenv(devicetest.Program, file)
	status, r, said = trySelftest(t, s.String(), []string{"merge-packed"}, "--plugin", plugin, "--target", "v5e")
	require.Zero(t, status, said)
	require.Equal(t, "v5e", r.Target)
	require.Equal(t, 3, r.Passed)
}

// An interrupt ends a test.
func TestSelftestInterrupted(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Fault, "stops:1")
	t.Setenv(plugins.LockEnv, t.TempDir())
	var out, said bytes.Buffer
	a := &app.App{Stdout: &out, Stderr: &said}
	defer a.Close()
	root := CLI{a}.root()
	root.SetArgs([]string{"selftest", "--quick", "--plugin", plugin, "--timeout", "8s"})
	err := root.ExecuteContext(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
