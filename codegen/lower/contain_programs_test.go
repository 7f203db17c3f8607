package lower_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// served are specs of what a server asks for: batch rows, sequences that are packed, and decode in a pool of states.
var served = []string{
	"b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,init",
	"t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=3,init",
	"t=300,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=9,init",
	"b=5,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,init,pool=7,state=vk",
}

// inOrder makes a program that takes and gives arrays in the order of a spec one by names.
func inOrder(t *testing.T, s gdn.Spec, run func(...*array.Array) ([]*array.Array, error)) func(map[string]*array.Array) map[string]*array.Array {
	return func(inputs map[string]*array.Array) map[string]*array.Array {
		var list []*array.Array
		for _, p := range s.Inputs() {
			list = append(list, inputs[p.Name])
		}
		results, err := run(list...)
		require.NoError(t, err)
		out := map[string]*array.Array{}
		for i, p := range s.Outputs() {
			out[p.Name] = results[i]
		}
		return out
	}
}

// ofText is the program of a variant for a TPU, run from its text.
func ofText(t *testing.T, s gdn.Spec, v gdn.Variant, target *codegen.Target) func(map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	a, err := lower.Program(s, v, "mosaic", target)
	require.NoError(t, err)
	p, err := eval.Parse(a.Text)
	require.NoError(t, err)
	return inOrder(t, s, p.Run)
}

// forTPU is what a text of auto stands for on a TPU.
func forTPU(t *testing.T, s gdn.Spec, auto, name string) (gdn.Variant, *codegen.Target) {
	t.Helper()
	target, err := codegen.LookupTarget(name)
	require.NoError(t, err)
	f, err := lower.Suit(s, auto, target)
	require.NoError(t, err)
	return f.Variant, target
}

// onCPU is the program that auto takes for a CPU, run there until the test ends.
func onCPU(t *testing.T, s gdn.Spec, cpu *pjrt.Engine) (gdn.Variant, func(map[string]*array.Array) map[string]*array.Array) {
	t.Helper()
	f, err := lower.Suit(s, gdn.Auto, nil)
	require.NoError(t, err)
	a, err := lower.Program(s, f.Variant, "stablehlo", nil)
	require.NoError(t, err)
	p, err := cpu.Compile(a.Text)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return f.Variant, inOrder(t, s, p.Run)
}

// The emitted text of what auto takes for a TPU keeps the poison of one row, sequence, slot or head to itself: two
// classes and targets drawn by the day, or all with -all.
func TestContainedText(t *testing.T) {
	type row struct{ spec, class, target string }
	var rows []row
	for _, spec := range served {
		for _, class := range gdn.AccuracyNames() {
			for _, target := range []string{"v5e", "v6e", "tpu7x"} {
				rows = append(rows, row{spec, class, target})
			}
		}
	}
	draw := today(t)
	draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if !*allPoisons {
		rows = rows[:2]
	}
	for _, r := range rows {
		t.Run(r.class+" for "+r.target+" on "+r.spec, func(t *testing.T) {
			s := spec(t, r.spec)
			v, target := forTPU(t, s, gdn.Auto+"-"+r.class, r.target)
			contained(t, s, draw, ofText(t, s, v, target))
		})
	}
}

// So do the programs that auto takes for a CPU, run there.
func TestContainedCPU(t *testing.T) {
	cpu := pjrttest.CPU(t)
	draw := today(t)
	for _, text := range served {
		t.Run(text, func(t *testing.T) {
			s := spec(t, text)
			_, run := onCPU(t, s, cpu)
			contained(t, s, draw, run)
		})
	}
}
