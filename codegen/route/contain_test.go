package route_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
)

var allPoisons = flag.Bool("all", false, "try all variants and poisons of TestContained, and all pairs of TestPairs and TestDrawnPairs, not a sample")

// victim is what is poisoned: a batch row or packed sequence, and one of its value heads or all (-1).
type victim struct{ row, head int }

// poison changes an input of a victim.
type poison struct {
	input string
	value float64 // what some of its elements become; 0: all of them eleven times as large, keys of norm 11
}

func (p poison) String() string { return fmt.Sprintf("%s=%g", p.input, p.value) }

// place is the row and the head, of heads, that an element belongs to.
type place struct{ row, head, heads int }

// ofAll is the row of what sums over all of them: the gradient of a parameter. A slot of a pool that belongs to no sequence has row -1.
const ofAll = -2

// owner says where the elements of a tensor of the spec belong.
func owner(s gdn.Spec, inputs map[string]*array.Array, p gdn.Param) func(i int) place {
	name := strings.TrimPrefix(p.Name, "d")
	heads, inner, at := s.HeadsV, 1, 2
	if name == "q" || name == "k" {
		heads = s.HeadsK
	}
	if name == "A_log" || name == "dt_bias" {
		for _, n := range p.Type.Shape[1:] {
			inner *= n
		}
		return func(i int) place { return place{ofAll, i / inner % heads, heads} }
	}
	state := name == "initial_state" || name == "final_state"
	if state || s.Packed {
		at = 1
	}
	for _, n := range p.Type.Shape[at+1:] {
		inner *= n
	}
	return func(i int) place {
		head, outer := i/inner%heads, i/inner/heads
		switch {
		case state && s.Pool > 0:
			return place{slices.Index(inputs["state_indices"].Int64s(), int64(outer)), head, heads}
		case state:
			return place{outer, head, heads}
		case s.Seqs == 0:
			return place{outer / s.Tokens, head, heads}
		}
		ends := inputs["cu_seqlens"].Int64s()[1:]
		return place{slices.IndexFunc(ends, func(end int64) bool { return int64(outer) < end }), head, heads}
	}
}

// into gives a copy of the inputs with the poison in the victim.
func (p poison) into(s gdn.Spec, inputs map[string]*array.Array, v victim) map[string]*array.Array {
	out := map[string]*array.Array{}
	for _, in := range s.Inputs() {
		out[in.Name] = inputs[in.Name]
		if in.Name != p.input {
			continue
		}
		x, of := inputs[in.Name].Float64s(), owner(s, inputs, in)
		n := 0
		for i := range x {
			at := of(i)
			if at.row != v.row || v.head >= 0 && at.head != v.head*at.heads/s.HeadsV {
				continue
			}
			switch n++; {
			case p.value == 0:
				x[i] *= 11
			case n%61 == 7 || n == 1:
				x[i] = p.value
			}
		}
		out[in.Name] = array.FromFloat64s(in.Type.DType, in.Type.Shape, x)
	}
	return out
}

// poisons are those of a spec.
func poisons(s gdn.Spec) []poison {
	var list []poison
	for _, in := range s.Inputs() {
		switch in.Name {
		case "cu_seqlens", "state_indices", "A_log", "dt_bias":
			continue
		}
		list = append(list, poison{in.Name, math.NaN()}, poison{in.Name, math.Inf(1)})
	}
	if !s.L2Norm {
		list = append(list, poison{"k", 0})
	}
	return list
}

// shown is how large an output is that shows a poison: operands that several sequences share hold huge numbers in place of NaN.
const shown = 1e30

// requireContained says that outputs of others are equal to the bit, and that NaN shows where it was put.
func requireContained(t *testing.T, s gdn.Spec, inputs, want, got map[string]*array.Array, v victim, p poison) {
	t.Helper()
	bad := false
	for _, o := range s.Outputs() {
		of, width := owner(s, inputs, o), o.Type.DType.Bytes()
		values := got[o.Name].Float64s()
		for i, x := range values {
			at := of(i)
			if at.row == ofAll {
				at.row = v.row
			}
			groups := at.heads
			if p.input == "q" || p.input == "k" {
				groups = s.HeadsK
			}
			if at.row == v.row && (v.head < 0 || at.head*groups/at.heads == v.head*groups/s.HeadsV) {
				// A state that no output shows would be passed on from call to call.
				bad = bad || (math.IsNaN(x) || math.Abs(x) > shown) && (p.input != "initial_state" || o.Name == "o")
				continue
			}
			if a, b := want[o.Name].Data[i*width:(i+1)*width], got[o.Name].Data[i*width:(i+1)*width]; string(a) != string(b) {
				require.Failf(t, "poison spreads", "%s in %+v changes %s[%d] of %+v from %v to %v", p, v, o.Name, i, at, want[o.Name].Float64s()[i], x)
			}
		}
	}
	if p.value != 0 && !math.IsInf(p.value, 0) {
		require.True(t, bad, "%s in %+v: no output shows it", p, v)
	}
}

// contained poisons inputs of a sequence, row, pool slot or head of a program, which run computes. What is poisoned is drawn.
func contained(t *testing.T, s gdn.Spec, draw *rand.Rand, run func(map[string]*array.Array) map[string]*array.Array) {
	t.Helper()
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	inputs, err := class.Generate(s, 1)
	require.NoError(t, err)
	want := run(inputs)
	var rows []int // those with tokens and a state
	for i := range s.Sequences() {
		if s.Seqs > 0 {
			if ends := inputs["cu_seqlens"].Int64s(); ends[i] == ends[i+1] {
				continue
			}
		}
		if s.Pool > 0 && inputs["state_indices"].Int64s()[i] < 0 {
			continue
		}
		rows = append(rows, i)
	}
	all := poisons(s)
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if !*allPoisons {
		all = all[:4]
	}
	for i, p := range all {
		v := victim{rows[draw.IntN(len(rows))], -1}
		if i%2 == 0 {
			v.head = draw.IntN(s.HeadsV)
		}
		requireContained(t, s, inputs, want, run(p.into(s, inputs, v)), v, p)
	}
}

// What one batch row, packed sequence, pool slot or head is given changes no bit of another's outputs or state, by every named
// variant. Kernels are lowered first. Without -all ten rows are taken, which rotate by commit.
func TestContained(t *testing.T) {
	const small = "hk=2,hv=4,k=32,v=32,dtype=bf16,"
	var rows [][2]string
	add := func(spec string, variants ...string) {
		for _, v := range variants {
			rows = append(rows, [2]string{small + spec, v})
		}
	}
	for _, n := range gdn.Variants {
		switch v := variant(t, n.Text); {
		case n.Negative:
		case strings.HasPrefix(n.Name, "tpu-train"):
			add("b=2,t=70,init,direction=train", n.Name+",chunk=64")
		case v.Algo == gdn.AlgoToken:
			add("b=4,t=2,init", n.Name)
			add("b=5,t=2,init,pool=7,state=vk,inplace", n.Name)
			add("t=9,seqs=4,init", n.Name)
		case v.Chunk == 128:
			add("b=2,t=150,init,gates=fused,l2norm", n.Name+",chunk=64")
			add("t=150,seqs=4,init", n.Name)
			add("t=150,seqs=4,init,gates=fused", n.Name)
			add("t=150,seqs=4,init,gates=fused,l2norm", n.Name)
		default:
			add("b=2,t=70,init", n.Name)
			add("t=70,seqs=4,init", n.Name)
		}
	}
	add("t=200,seqs=3", "tpu-long,pack=masked,batch=4,phases_before=0", "cpu-packed")
	add("t=150,seqs=4,init,gates=fused,l2norm", "tpu-packed,decay_bf16=rows,refine=yes")
	add("t=150,seqs=4,init", "tpu-packed,prefetch=dma,hbm=yes,state_whole=yes")
	add("t=150,seqs=4,init", "tpu-packed,decay_bf16=rows,refine=yes")
	add("t=90,seqs=4,init,l2norm", "cpu-packed,chunk=16,batch=2", "bf16,pack=masked")
	add("t=150,seqs=4,init", "tpu-train,pack=segments,chunk=64", "tpu-x3,pack=segments,chunk=64", "tpu-train,pack=segments,prefetch=dma,chunk=64,refine=yes", "tpu-train-long,pack=segments,prefetch=dma,chunk=64,chunks=2")
	add("t=150,seqs=4,init,direction=train", "tpu-train,pack=segments,chunk=64", "tpu-train-x3,pack=segments,chunk=64", "tpu-train-long,pack=segments,chunk=64")
	add("t=150,seqs=4,init,gates=fused,l2norm,rule=kda,bound=-5", "tpu-train,pack=segments,chunk=64", "tpu-x3,pack=segments,chunk=64")
	add("t=150,seqs=4,init,rule=gdn2,direction=train", "tpu-train,pack=segments,chunk=64")
	add("t=150,seqs=4,init,rule=simple-gla", "tpu,pack=segments,chunk=64", "tpu-packed,pack=segments,prefetch=dma,chunk=64")
	add("t=150,seqs=4,init,pool=7,rule=kda", "tpu,out=separate,transpose_k=value,pack=segments,chunk=64")
	draw := rotate.Rand(32)
	draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if !*allPoisons {
		rows = rows[:10]
	}
	rows = append(rows, [2]string{small + "t=90,seqs=3,init", "tpu-long,pack=masked,batch=4,phases_before=0,chunk=64"},
		// gates in bf16 that the kernel copies from the caller's arrays
		[2]string{"hk=4,hv=8,k=32,v=32,dtype=bf16,t=256,seqs=4,init,inplace,gates=fused,gatedtype=bf16", "tpu-packed,prefetch=dma,hbm=yes"},
		// programs of some of the heads
		[2]string{"hk=4,hv=8,k=32,v=32,dtype=bf16,t=256,seqs=4,init,inplace,gates=fused,gatedtype=bf16", "tpu-packed,heads=4,prefetch=dma,hbm=yes"})
	for _, row := range rows {
		t.Run(row[0]+" by "+row[1], func(t *testing.T) {
			s, v := spec(t, row[0]), variant(t, row[1])
			m, err := build.Module(s, v)
			require.NoError(t, err)
			if v.Fit(s).Mapping.Pack != gdn.PackStream {
				m, err = route.Kernels(m)
				require.NoError(t, err)
			}
			contained(t, s, draw, func(inputs map[string]*array.Array) map[string]*array.Array {
				got, err := interp.Run(m, inputs, interp.Options{})
				require.NoError(t, err)
				return got
			})
		})
	}
}

// Packed sequences have kernels for values of any width and heads of any number, which agree with the reference.
func TestPackedWidths(t *testing.T) {
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	mosaic, err := route.Lookup("mosaic")
	require.NoError(t, err)
	class, err := truth.LookupClass("random")
	require.NoError(t, err)
	shapes := []string{"hk=2,hv=4,k=128,v=32", "hk=1,hv=2,k=128,v=64", "hk=2,hv=2,k=128,v=96", "hk=1,hv=2,k=128,v=100",
		"hk=1,hv=2,k=128,v=256", "hk=3,hv=3,k=128,v=128", "hk=1,hv=5,k=64,v=64", "hk=1,hv=3,k=32,v=32", "hk=4,hv=8,k=64,v=64", "hk=8,hv=8,k=64,v=128"}
	heads := map[string]string{"hk=4,hv=8,k=64,v=64": ",heads=4", "hk=8,hv=8,k=64,v=128": ",heads=4,prefetch=dma"} // of a program
	draw := rotate.Rand(33)
	draw.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	for _, shape := range shapes[:4] {
		s, v := spec(t, "t=150,seqs=3,init,dtype=bf16,"+shape), variant(t, "tpu-packed,chunks=2"+heads[shape])
		m, err := build.Module(s, v)
		require.NoError(t, err, shape)
		_, err = mosaic.Emit(m, target)
		require.NoError(t, err, shape)
		inputs, err := class.Generate(s, 1)
		require.NoError(t, err)
		want, err := truth.Reference(s, inputs)
		require.NoError(t, err)
		m, err = route.Kernels(m)
		require.NoError(t, err, shape)
		got, err := interp.Run(m, inputs, interp.Options{})
		require.NoError(t, err, shape)
		for _, o := range s.Outputs() {
			limit, err := class.Limit(s, v.Precision().String(), o.Type.DType)
			require.NoError(t, err)
			require.LessOrEqual(t, array.Compare(got[o.Name], want[o.Name]).RelMax, limit, "%s of %s", o.Name, s)
		}
	}
}
