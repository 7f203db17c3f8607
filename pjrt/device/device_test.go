package device_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

func TestMain(m *testing.M) {
	device.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// double adds its argument to itself; inPlace has the result take the memory of the argument.
const (
	double  = "module { func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> { %0 = stablehlo.add %a, %a : tensor<3xf32> return %0 : tensor<3xf32> } }"
	inPlace = "module {\n  func.func public @main(%a: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3xf32>) {\n    %0 = stablehlo.negate %a : tensor<3xf32>\n    return %0 : tensor<3xf32>\n  }\n}\n"
)

func numbers(x ...float64) *array.Array { return array.FromFloat64s(ir.F32, []int{len(x)}, x) }

func open(t *testing.T, o device.Options) *device.Device {
	d, err := device.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func compile(t *testing.T, d *device.Device, text string) *device.Program {
	p, err := d.Compile(t.Context(), text)
	require.NoError(t, err)
	return p
}

// A CPU through another process: programs run, refusals and failures have their types, and the device goes on after them.
func TestCPU(t *testing.T) {
	d := open(t, device.Options{Plugin: pjrttest.CPUPlugin(t), Emit: route.Text})
	require.Equal(t, "cpu", d.Info().Kind)
	require.Equal(t, "cpu", d.Info().String())
	require.False(t, d.Info().TPU())
	require.NotEmpty(t, d.Info().Devices)
	p, q := compile(t, d, double), compile(t, d, inPlace)
	got, err := p.Run(t.Context(), numbers(1, 2, -4))
	require.NoError(t, err)
	require.Equal(t, []*array.Array{numbers(2, 4, -8)}, got)

	_, err = d.Compile(t.Context(), "module { nonsense }")
	var refused *pjrt.CompileError
	require.ErrorAs(t, err, &refused)
	_, err = p.Run(t.Context())
	var fails *device.RunError
	require.ErrorAs(t, err, &fails)

	for _, both := range [][2]*device.Program{{p, p}, {p, q}, {q, q}} {
		pairs, err := d.Pairs(t.Context(), pjrt.TimeOptions{Warmup: 1, Trials: 4}, both[0], both[1], numbers(1, 2, 3))
		require.NoError(t, err)
		require.Len(t, pairs, 4)
		for _, x := range pairs {
			require.Positive(t, min(x[0], x[1]))
		}
	}
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
	_, err = p.Run(t.Context(), numbers(1, 2, 3))
	require.ErrorContains(t, err, "closed")
}

// What has no device is told at once.
// A runner computes texts and modules in turn, each compiled when it is another than the last. PTX inside of StableHLO is nothing for a CPU.
func TestRunText(t *testing.T) {
	r, err := device.NewRunner(t.Context(), device.Options{Plugin: pjrttest.CPUPlugin(t), Emit: route.Text})
	require.NoError(t, err)
	defer r.Close()
	m, b := ir.NewModule("twice")
	x := b.Param("x", ir.T(ir.F32, 3))
	require.NoError(t, b.Finish(m, []string{"y"}, []*ir.Value{b.Add(x, x)}))
	for range 2 {
		y, err := r.RunText(t.Context(), inPlace, numbers(1, 2, 3))
		require.NoError(t, err)
		require.Equal(t, []float32{-1, -2, -3}, y[0].Float32s())
		out, err := r.Run(t.Context(), m, map[string]*array.Array{"x": numbers(1, 2, 3)})
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4, 6}, out["y"].Float32s())
	}
	_, err = r.RunText(t.Context(), ptx.ProbeModule(), array.New(ir.F32, 128))
	var refused *pjrt.CompileError
	require.ErrorAs(t, err, &refused)
}

func TestNoDevice(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o644))
	for path, why := range map[string]string{text: "not a shared library", "/does/not/exist.so": "no such file"} {
		_, err := device.Open(t.Context(), device.Options{Plugin: path})
		var none *device.OpenError
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, why)
	}
}

// A plugin that crashes or hangs ends its own process alone, and the error says what it was doing.
func TestFaults(t *testing.T) {
	plugin := devicetest.Stub(t)
	for _, row := range []struct {
		fault, says string
		doing       func(*testing.T, device.Options) error
	}{
		{"crash", "died while it opened " + plugin + " (signal: aborted): the stub crashes", opening},
		{"hang", "not done while it opened " + plugin + " within 2s", opening},
		{"dies:2", "died in a run (signal: killed)", running},
		{"stops:2", "not done in a run within 2s", running},
		{"dies:7", "died while it was timed (signal: killed)", timing},
	} {
		t.Run(row.fault, func(t *testing.T) {
			t.Setenv(devicetest.Fault, row.fault)
			o := device.Options{Plugin: plugin, Limit: 2 * time.Second}
			if row.fault == "hang" {
				o.Start = 2 * time.Second
			}
			require.ErrorContains(t, row.doing(t, o), row.says)
		})
	}
}

func opening(t *testing.T, o device.Options) error {
	_, err := device.Open(t.Context(), o)
	return err
}

func running(t *testing.T, o device.Options) error {
	d := open(t, o)
	p := compile(t, d, double)
	_, err := p.Run(t.Context(), numbers(1, 2, 3))
	require.NoError(t, err)
	_, err = p.Run(t.Context(), numbers(1, 2, 3))
	require.Error(t, err)
	_, again := d.Compile(t.Context(), double)
	require.Equal(t, err, again, "the device is gone")
	return err
}

func timing(t *testing.T, o device.Options) error {
	d := open(t, o)
	p := compile(t, d, double)
	_, err := d.Pairs(t.Context(), pjrt.TimeOptions{Warmup: 1, Trials: 10}, p, p, numbers(1, 2, 3))
	return err
}

// A libtpu that asks a metadata server which is not there opens all the same; one whose device another process has says so, and never to remove a
// lock that is held; what takes long is told of.
func TestLibtpu(t *testing.T) {
	stub, err := os.ReadFile(devicetest.Stub(t))
	require.NoError(t, err)
	plugin := filepath.Join(t.TempDir(), "libtpu.so")
	require.NoError(t, os.WriteFile(plugin, stub, 0o755))
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1")
	t.Setenv(devicetest.Fault, "metadata")
	require.Equal(t, "cpu", open(t, device.Options{Plugin: plugin, Start: time.Minute}).Info().Kind)

	t.Setenv(devicetest.Fault, "locked")
	err = opening(t, device.Options{Plugin: plugin})
	require.ErrorAs(t, err, new(*device.OpenError))
	require.ErrorContains(t, err, "another process has the device: ")
	require.NotContains(t, err.Error(), "rm")

	t.Setenv(devicetest.Fault, "hang")
	var notes []string
	require.ErrorContains(t, opening(t, device.Options{Plugin: plugin, Start: 4 * time.Second, Note: func(s string) { notes = append(notes, s) }}), "not done while it opened")
	require.Equal(t, []string{"opening " + plugin + ", for 4s at most"}, notes)
}

// An error of one execution is the runtime's, and the device goes on; arrays come back by rows from a device with a layout of its own; memory that a
// result takes is given up for each run; and of several devices the first is used.
func TestRuns(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Fault, "fails:2")
	d := open(t, device.Options{Plugin: plugin})
	p := compile(t, d, double)
	for i := range 3 {
		got, err := p.Run(t.Context(), numbers(1, 2, 3))
		if i == 1 {
			require.ErrorAs(t, err, new(*device.RunError))
			require.ErrorContains(t, err, "the chip has lost a core")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4, 6}, got[0].Float32s())
	}

	t.Setenv(devicetest.Fault, "columns")
	t.Setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
	d = open(t, device.Options{Plugin: plugin})
	require.Len(t, d.Info().Devices, 4)
	q := compile(t, d, strings.NewReplacer("3xf32", "2x3xf32").Replace(inPlace))
	for range 2 {
		got, err := q.Run(t.Context(), array.FromFloat64s(ir.F32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}))
		require.NoError(t, err)
		require.Equal(t, []float32{-1, -2, -3, -4, -5, -6}, got[0].Float32s())
	}
}

// A done context kills the process.
func TestCancel(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Fault, "stops:1")
	d := open(t, device.Options{Plugin: plugin})
	p := compile(t, d, double)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := p.Run(ctx, numbers(1, 2, 3))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 5*time.Second)
}

// A stub can claim to be what it is not, and give numbers that are none.
func TestStub(t *testing.T) {
	plugin := devicetest.Stub(t)
	t.Setenv(devicetest.Kind, "TPU v6 lite")
	t.Setenv(devicetest.Capability, "9.0")
	t.Setenv(devicetest.Platform, "tpu")
	d := open(t, device.Options{Plugin: plugin})
	require.True(t, d.Info().TPU())
	require.Equal(t, "TPU v6 lite (tpu)", d.Info().String())
	require.Equal(t, map[string]string{"compute_capability": "9.0", "core_count": "114"}, d.Info().Attributes)
	target, err := target.OfKind(d.Info().Kind)
	require.NoError(t, err)
	require.Equal(t, "v6e", target.Name)

	t.Setenv(devicetest.Fault, "garbage")
	d = open(t, device.Options{Plugin: plugin})
	got, err := compile(t, d, double).Run(t.Context(), numbers(1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, byte(0x3f), got[0].Data[0])
}

// Steps are profiled by the plugin's own profiler; one that has none still runs and times them.
func TestProfile(t *testing.T) {
	space := filepath.Join(t.TempDir(), "space")
	require.NoError(t, os.WriteFile(space, []byte("what it saw"), 0o644))
	plugin := devicetest.Stub(t)
	steps := pjrt.ProfileOptions{Steps: 5, Start: 1, Count: 2, Batch: 3}
	profile := func(o pjrt.ProfileOptions) (*pjrt.Profile, error) {
		d := open(t, device.Options{Plugin: plugin})
		defer d.Close()
		p := device.Piece{Program: compile(t, d, double), Times: 1, Args: []*array.Array{numbers(1, 2, 3)}}
		twice := device.Piece{Program: compile(t, d, inPlace), Times: 2, Args: p.Args}
		return d.Profile(t.Context(), o, p, twice)
	}
	_, err := profile(pjrt.ProfileOptions{Steps: 5, Start: 4, Count: 2, Batch: 1})
	require.ErrorContains(t, err, "those profiled among those that run")
	for what, want := range map[string]string{"": "this plugin has no profiler", "older": "older form"} {
		if what != "" {
			t.Setenv(devicetest.Profiler, what)
		}
		x, err := profile(steps)
		require.ErrorAs(t, err, new(*pjrt.NoProfilerError))
		require.ErrorContains(t, err, want)
		require.Len(t, x.Steps, 5)
		os.Unsetenv(devicetest.Profiler)
	}
	t.Setenv(devicetest.Profiler, "refuses")
	_, err = profile(steps)
	require.ErrorContains(t, err, "the profiler failed as it started: another session is open")
	t.Setenv(devicetest.Profiler, space)
	x, err := profile(steps)
	require.NoError(t, err)
	require.Equal(t, "what it saw", string(x.Space))
	require.Len(t, x.Steps, 5)
	for _, step := range x.Steps {
		require.Len(t, step, 2)
		require.Positive(t, min(step[0], step[1]))
	}
}
