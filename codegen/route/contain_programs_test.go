package route_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

// served are specs of what a server asks for: batch rows, sequences that are packed, and decode in a pool of states.
var served = []string{
	"b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,init",
	"t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=3,init",
	"t=300,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=9,init",
	"b=5,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,init,pool=7,state=vk",
	"t=300,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=9,init,pool=11,state=vk",
}

// written are specs of what else kernels are written for: raw gates and norms, a decay a channel, and training.
var written = []string{
	"b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init",
	"t=90,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=3,init,state=vk,empty=zero,packed",
	"b=5,t=1,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,pool=7,state=vk",
	"b=2,t=150,hk=2,hv=2,k=64,v=64,dtype=bf16,init,rule=kda,bound=-5",
	"t=150,hk=2,hv=2,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=3,init,rule=kda,bound=-5",
	"b=5,t=1,hk=2,hv=2,k=64,v=64,dtype=bf16,init,pool=7,state=vk,rule=kda",
	"b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,init,direction=train",
	"b=2,t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,init,direction=train",
	"t=150,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=3,init,direction=train",
	"b=2,t=150,hk=2,hv=2,k=64,v=64,dtype=bf16,init,rule=kda,bound=-5,direction=train",
}

// long are works of several steps of chunks, for which auto takes other forms (blocks that the kernel copies, four chunks interleaved), and the
// small works to which those are fitted, by chunks of longChunk tokens.
var long = [][2]string{
	{"bench,b=2,init", "b=2,t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,init"},
	{"contest-prefill,seqs=57,l2norm", "t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=5,init,state=vk,empty=zero,packed"},
	{"contest-prefill,seqs=57,l2norm,pool=64,inplace", "t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,seqs=5,init,state=vk,empty=zero,packed,pool=7,inplace"},
	{"train,b=2,init", "b=2,t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,init,direction=train"},
	{"train,seqs=8,init", "t=270,hk=2,hv=4,k=64,v=64,dtype=bf16,seqs=5,init,direction=train"},
}

const longChunk = 32

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
func ofText(t *testing.T, s gdn.Spec, v gdn.Variant, target *target.Target) func(map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	a, err := route.Program(s, v, "mosaic", target)
	require.NoError(t, err)
	p, err := eval.Parse(a.Text)
	require.NoError(t, err)
	return inOrder(t, s, p.Run)
}

// forTPU is what a text of auto stands for on a TPU.
func forTPU(t *testing.T, s gdn.Spec, auto, name string) (gdn.Variant, *target.Target) {
	t.Helper()
	target, err := target.Lookup(name)
	require.NoError(t, err)
	f, err := route.Resolve(s, auto, target, nil)
	require.NoError(t, err)
	return f.Variant, target
}

// onCPU is the program that auto takes for a CPU, run there until the test ends.
func onCPU(t *testing.T, s gdn.Spec, cpu *pjrt.Engine) (gdn.Variant, func(map[string]*array.Array) map[string]*array.Array) {
	t.Helper()
	f, err := route.Resolve(s, gdn.Auto, nil, nil)
	require.NoError(t, err)
	a, err := route.Program(s, f.Variant, "stablehlo", nil)
	require.NoError(t, err)
	p, err := cpu.Compile(a.Text)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return f.Variant, inOrder(t, s, p.Run)
}

// The emitted text of what auto takes for a TPU keeps the poison of one row, sequence, slot or head to itself: four
// works, classes and targets drawn by the commit, or all with -all.
func TestContainedText(t *testing.T) {
	type row struct{ work, spec, class, target string }
	var rows []row
	works := slices.Clone(long)
	for _, spec := range slices.Concat(served, written) {
		works = append(works, [2]string{spec, spec})
	}
	for _, w := range works {
		for _, class := range gdn.AccuracyNames() {
			for _, target := range []string{"v5e", "v6e", "tpu7x"} {
				rows = append(rows, row{w[0], w[1], class, target})
			}
		}
	}
	draw := rotate.Rand(34)
	draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if !*allPoisons {
		rows = rows[:4]
	}
	for _, r := range rows {
		t.Run(r.class+" for "+r.target+" on "+r.spec, func(t *testing.T) {
			s := spec(t, r.spec)
			v, target := forTPU(t, spec(t, r.work), gdn.Auto+"-"+r.class, r.target)
			if r.work != r.spec {
				v.Chunk = longChunk
			}
			t.Log(v.Short())
			contained(t, s, draw, ofText(t, s, v, target))
		})
	}
}

// So do the programs that auto takes for a CPU, run there: what is served, and two of the others, which rotate by commit.
func TestContainedCPU(t *testing.T) {
	cpu := pjrttest.CPU(t)
	draw := rotate.Rand(35)
	more := slices.Clone(written)
	draw.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
	if !*allPoisons {
		more = more[:2]
	}
	for _, text := range slices.Concat(served, more) {
		t.Run(text, func(t *testing.T) {
			s := spec(t, text)
			_, run := onCPU(t, s, cpu)
			contained(t, s, draw, run)
		})
	}
}
