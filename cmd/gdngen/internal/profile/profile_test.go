package profile_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/profile"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/device/devicetest"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/trace"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	device.RunWorkerIfAsked()
	os.Exit(m.Run())
}

func run(t *testing.T, plugin, dir string) *profile.Record {
	t.Helper()
	d, err := device.Open(t.Context(), device.Options{Plugin: plugin, Emit: route.Text})
	require.NoError(t, err)
	defer d.Close()
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	f, err := route.Resolve(s, "naive", d.Target(), nil)
	require.NoError(t, err)
	w, err := profile.Kernel(s, f.Variant)
	require.NoError(t, err)
	r, err := profile.Run(t.Context(), d, nil, w, pjrt.ProfileOptions{Steps: 4, Start: 1, Count: 3, Batch: 2}, dir)
	require.NoError(t, err)
	return r
}

// What the plugin's profiler saw lies where trace, XProf and TensorBoard look for it, and the record says what ran.
func TestRun(t *testing.T) {
	saw, err := filepath.Abs("../../../../pjrt/trace/testdata/tpu-before.xplane.pb")
	require.NoError(t, err)
	plugin := devicetest.Stub(t)
	dir := t.TempDir()
	r := run(t, plugin, dir)
	require.Contains(t, r.NoTrace, "no profiler")
	require.Empty(t, r.Trace)
	_, err = trace.Open(t.Context(), dir)
	require.ErrorContains(t, err, "no trace in this folder")

	t.Setenv(devicetest.Profiler, saw)
	r = run(t, plugin, dir)
	require.Empty(t, r.NoTrace)
	require.Len(t, r.Steps, 4)
	require.Positive(t, r.Median())
	x, err := trace.Open(t.Context(), dir)
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

// small is a model of three layers, one of them attention.
var small = model.Config{Name: "small", Hidden: 16, Layers: 3, AttentionEvery: 3, MLP: 8, Vocab: 32, Batch: 2, Tokens: 32,
	Rule: model.Rule{HeadsK: 1, HeadsV: 2, K: 8, V: 8, Conv: 4}, Attention: model.Attention{Heads: 2, HeadsKV: 2, Dim: 8}}

// A step of a model runs each piece as often as the model has it, in both directions, and its times add up.
func TestStep(t *testing.T) {
	d, err := device.Open(t.Context(), device.Options{Plugin: pjrttest.CPUPlugin(t), Emit: route.Text})
	require.NoError(t, err)
	defer d.Close()
	v, err := mfu.Variant(small, gdn.Auto, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	r, err := profile.Run(t.Context(), d, nil, profile.Step(small, v, false), pjrt.ProfileOptions{Steps: 3, Start: 1, Count: 2, Batch: 1}, dir)
	require.NoError(t, err)
	require.Equal(t, 64, r.Tokens)
	times, flops := map[string]int{}, 0.0
	for _, p := range r.Pieces {
		times[p.Name] = p.Times
		flops += float64(p.Times) * p.ModelFlops
		require.Len(t, p.Steps, 3)
	}
	require.Equal(t, r.ModelFlops, flops)
	require.InEpsilon(t, small.StepFlops(false), flops, 1e-9)
	require.Equal(t, 1, times["attention, core forward"])
	require.Equal(t, 1, times["attention, core backward"])
	require.Equal(t, 2, times["rule, layer forward"])
	require.Equal(t, 2, times["rule, layer backward"])
	require.Equal(t, 1, times["attention, norm, project in backward"])
	require.Equal(t, 2, times["rule, AdamW"])
	require.Equal(t, 1, times["attention, AdamW"])
	var last []string // a step ends with its updates
	for _, p := range r.Pieces[len(r.Pieces)-len(model.Optimiser(small)):] {
		last = append(last, p.Name)
	}
	require.Contains(t, last, "rule, AdamW")
	for _, p := range profile.Step(small, v, true).Modules {
		require.NotContains(t, p.Name, "AdamW")
	}
	for i, whole := range r.Steps {
		for _, p := range r.Pieces {
			whole -= p.Steps[i]
		}
		require.Zero(t, whole)
	}
	var out bytes.Buffer
	r.Write(&out, dir)
	require.Contains(t, out.String(), "model small (3 layers of width 16, 2 x 32 tokens)")
	require.Contains(t, out.String(), " tokens a second")
	require.Regexp(t, `(?m)^rule, layer backward +2 `, out.String())
}

// A model trains on the device, its record has the losses, and the profiled steps have the arguments of the last step of training.
func TestTrain(t *testing.T) {
	d, err := device.Open(t.Context(), device.Options{Plugin: pjrttest.CPUPlugin(t), Emit: route.Text})
	require.NoError(t, err)
	defer d.Close()
	c := small
	c.Layers, c.AttentionEvery, c.MLP = 2, 2, 0
	v, err := mfu.Variant(c, gdn.Auto, nil)
	require.NoError(t, err)
	w := profile.Step(c, v, false)
	var told []float64
	require.NoError(t, w.Train(t.Context(), d, 3, func(step int, loss float64) {
		require.Equal(t, step, len(told))
		told = append(told, loss)
	}))
	r, err := profile.Run(t.Context(), d, nil, w, pjrt.ProfileOptions{Steps: 1, Start: 0, Count: 1, Batch: 1}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, told, r.Losses)
	require.InDelta(t, math.Log(float64(small.Vocab)), told[0], .1)
}

// The static cycles stored with a profile are the ones by which trace splits a kernel.
func TestStages(t *testing.T) {
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	f, err := route.Resolve(s, "naive", target, nil)
	require.NoError(t, err)
	w, err := profile.Kernel(s, f.Variant)
	require.NoError(t, err)
	dir := t.TempDir()
	x := &measure.Instrument{Compiler: pjrttest.TPU(t), Scratch: t.TempDir()}
	require.NoError(t, profile.Stages(t.Context(), x, target, w, dir))
	data, err := os.ReadFile(filepath.Join(dir, profile.StagesFile))
	require.NoError(t, err)
	_, err = trace.ReadStages(data, "v6e")
	require.NoError(t, err)
	require.Contains(t, string(data), `"file": "state`)
}
