package oracle

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// pythonTypes are the element types of inputs as JAX names them; it has no integers of 64 bits by default.
var pythonTypes = map[ir.DType]string{ir.F32: "float32", ir.BF16: "bfloat16", ir.I64: "int32"}

// What JAX makes of a generated file costs on each target what the Mosaic text of the same variant does, within 2 %: in the
// largest kernels, whose phases overlap, and in two that follow one another, heads in lockstep.
func TestPallasCost(t *testing.T) {
	py := python(t)
	compiler := pjrttest.TPU(t)
	cycles := func(text string, target *codegen.Target) float64 {
		x := &measure.Instrument{Compiler: compiler, Scratch: t.TempDir()}
		made, err := x.Static(t.Context(), measure.Foreign("test", text), target, measure.Options{})
		require.NoError(t, err)
		return float64(made.Report.Cycles)
	}
	for _, row := range []struct{ spec, variant, targets string }{
		{"bench,t=1024", "tpu", "v6e,tpu7x"},
		{"bench,t=1024", "tpu-128", "v5e"},
		{"bench,t=1024", "split", "v6e"},
	} {
		s, err := gdn.Parse(row.spec)
		require.NoError(t, err)
		s = pallas.Spec(s)
		v, err := gdn.ParseVariant(row.variant)
		require.NoError(t, err)
		path := writePallas(t, s, v)
		out := filepath.Join(t.TempDir(), "kernel.stablehlo.mlir")
		var types []string
		for _, p := range s.Inputs() {
			types = append(types, p.Name+"="+pythonTypes[p.Type.DType])
		}
		cmd := exec.Command(py, "pallas_lower.py", path, out, "--types", strings.Join(types, ","))
		cmd.Env = append(os.Environ(), quickJAX...)
		msg, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", msg)
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		for _, name := range strings.Split(row.targets, ",") {
			target, err := codegen.LookupTarget(name)
			require.NoError(t, err)
			a, err := lower.Program(s, v, "mosaic", target)
			require.NoError(t, err)
			ours, theirs := cycles(a.Text, target), cycles(string(text), target)
			t.Logf("%s by %s on %s: %.0f cycles, %.0f by JAX", row.spec, row.variant, name, ours, theirs)
			require.LessOrEqual(t, math.Abs(theirs/ours-1), .02, "%s by %s on %s: %.0f cycles, %.0f by JAX", row.spec, row.variant, name, ours, theirs)
		}
	}
}
