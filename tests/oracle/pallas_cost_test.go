package oracle

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	code := m.Run()
	endProcesses()
	os.Exit(code)
}

// What JAX makes of a generated file costs on each target what the Mosaic text of the same variant does, within 2 %: in the
// largest kernels, whose phases overlap, and in two that follow one another, heads interleaved; two rows by commit.
func TestPallasCost(t *testing.T) {
	py := python(t)
	compiler := pjrttest.TPU(t)
	cycles := func(p *measure.Program, target *target.Target) float64 {
		x := &measure.Instrument{Compiler: compiler, Scratch: t.TempDir()}
		made, err := x.Static(t.Context(), p, target, measure.Options{})
		require.NoError(t, err)
		return float64(made.Report.Cycles)
	}
	for _, row := range rotate.Sample(9, []struct {
		spec, variant, target string
	}{
		{"bench,t=1024", "tpu", "v6e"},
		{"bench,t=1024", "tpu", "tpu7x"},
		{"bench,t=1024", "tpu-128", "v5e"},
		{"bench,t=1024", "split", "v6e"},
	}, 2) {
		s, err := gdn.Parse(row.spec)
		require.NoError(t, err)
		s = pallas.Spec(s)
		v, err := gdn.ParseVariant(row.variant)
		require.NoError(t, err)
		f := route.NewForm(s, v)
		jax, err := measure.ByJAX(t.Context(), py, f)
		require.NoError(t, err)
		route, err := route.Lookup("mosaic")
		require.NoError(t, err)
		kernels, err := measure.Of(f, route)
		require.NoError(t, err)
		target, err := target.Lookup(row.target)
		require.NoError(t, err)
		ours, theirs := cycles(kernels, target), cycles(jax, target)
		t.Logf("%s by %s on %s: %.0f cycles, %.0f by JAX", row.spec, row.variant, row.target, ours, theirs)
		require.LessOrEqual(t, math.Abs(theirs/ours-1), .02, "%s by %s on %s: %.0f cycles, %.0f by JAX", row.spec, row.variant, row.target, ours, theirs)
	}
}

// A spec with a gradient is lowered with it, and costs more than the function alone; a Python without JAX is told of.
func TestGradientByJAX(t *testing.T) {
	py := python(t)
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	x := &measure.Instrument{Compiler: pjrttest.TPU(t), Scratch: t.TempDir()}
	cycles := map[gdn.Direction]int64{}
	for _, d := range []gdn.Direction{gdn.Forward, gdn.Train} {
		s, err := gdn.LookupPreset("tiny")
		require.NoError(t, err)
		s.Direction = d
		p, err := measure.ByJAX(t.Context(), py, route.NewForm(pallas.Spec(s), v))
		require.NoError(t, err)
		made, err := x.Static(t.Context(), p, target, measure.Options{})
		require.NoError(t, err)
		cycles[d] = made.Report.Cycles
		_, err = measure.ByJAX(t.Context(), "/does/not/exist", route.NewForm(pallas.Spec(s), v))
		require.ErrorContains(t, err, "/does/not/exist")
	}
	require.Greater(t, cycles[gdn.Train], cycles[gdn.Forward])
}
