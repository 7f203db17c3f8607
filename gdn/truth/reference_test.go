package truth

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

func generate(t *testing.T, class string, s gdn.Spec, seed uint64) map[string]*array.Array {
	t.Helper()
	c, err := LookupClass(class)
	require.NoError(t, err)
	inputs, err := c.Generate(s, seed)
	require.NoError(t, err)
	return inputs
}

func reference(t *testing.T, s gdn.Spec, inputs map[string]*array.Array) map[string]*array.Array {
	t.Helper()
	out, err := Reference(s, inputs)
	require.NoError(t, err)
	return out
}

func requireClose(t *testing.T, want, got *array.Array, ratio float64) {
	t.Helper()
	s := array.Compare(got, want)
	require.LessOrEqual(t, s.Ratio, ratio, s.String())
}

// slice cuts rows begin to end off the first axis.
func slice(a *array.Array, begin, end int) *array.Array {
	row := len(a.Data) / a.Shape[0]
	shape := append([]int{end - begin}, a.Shape[1:]...)
	return &array.Array{Type: a.Type, Shape: shape, Data: a.Data[begin*row : end*row]}
}

// transposed swaps the last two axes.
func transposed(a *array.Array) *array.Array {
	n := len(a.Shape)
	rows, cols := a.Shape[n-2], a.Shape[n-1]
	in, out := a.Float64s(), make([]float64, a.Size())
	for i := range in {
		m, r, c := i/(rows*cols), i/cols%rows, i%cols
		out[m*rows*cols+c*rows+r] = in[i]
	}
	shape := append(append([]int{}, a.Shape[:n-2]...), cols, rows)
	return array.FromFloat64s(a.Type, shape, out)
}

// One token by hand: S0 = [[1, 2]], g = log 1/2, k = 3, v = (4, 5), beta = 1/2, q = 2, scale 1/4.
// S' = (.5, 1); u = .5 ((4, 5) - 3 (.5, 1)) = (1.25, 1); S = S' + 3 u = (4.25, 4); o = .25 * 2 * S.
func TestReferenceByHand(t *testing.T) {
	s := gdntest.MustParse(t, "t=1,hk=1,k=1,v=2,init,scale=0.25")
	one := func(v float64, shape ...int) *array.Array { return array.FromFloat64s(ir.F32, shape, []float64{v}) }
	out := reference(t, s, map[string]*array.Array{"q": one(2, 1, 1, 1, 1), "k": one(3, 1, 1, 1, 1), "g": one(math.Log(.5), 1, 1, 1), "beta": one(.5, 1, 1, 1),
		"v":             array.FromFloat64s(ir.F32, []int{1, 1, 1, 2}, []float64{4, 5}),
		"initial_state": array.FromFloat64s(ir.F32, []int{1, 1, 1, 2}, []float64{1, 2})})
	require.InDeltaSlice(t, []float64{4.25, 4}, out["final_state"].Float64s(), 1e-7)
	require.InDeltaSlice(t, []float64{2.125, 2}, out["o"].Float64s(), 1e-7)
}

// Handing the state over between two parts of a sequence changes nothing, nor does decoding it token by token.
func TestReferenceHandsOver(t *testing.T) {
	whole := gdntest.MustParse(t, "t=21,hk=2,hv=4,k=8,v=6,packed,init,l2norm,gates=fused,state=vk")
	whole.Packed = true
	inputs := generate(t, "random", whole, 1)
	want := reference(t, whole, inputs)
	for _, size := range []int{1, 13} {
		state := inputs["initial_state"]
		for begin := 0; begin < whole.Tokens; begin += size {
			end := min(begin+size, whole.Tokens)
			part, partInputs := whole, map[string]*array.Array{}
			part.Tokens = end - begin
			for _, p := range whole.Inputs() {
				partInputs[p.Name] = inputs[p.Name]
				if p.Type.Shape[0] == whole.Tokens {
					partInputs[p.Name] = slice(inputs[p.Name], begin, end)
				}
			}
			partInputs["initial_state"] = state
			out := reference(t, part, partInputs)
			requireClose(t, slice(want["o"], begin, end), out["o"], 1e-6)
			state = out["final_state"].Convert(ir.F32)
		}
		requireClose(t, want["final_state"], state, 1e-6)
	}
}

// Packed sequences equal the same sequences one by one; an empty one keeps its state, or has zeros.
func TestReferencePackedSequences(t *testing.T) {
	for _, empty := range []gdn.Empty{gdn.EmptyKeep, gdn.EmptyZero} {
		s := gdntest.MustParse(t, "t=17,hk=1,hv=3,k=4,v=5,seqs=4,init,packed")
		s.Empty = empty
		inputs := generate(t, "random", s, 2)
		inputs["cu_seqlens"] = array.FromInt64s(ir.I64, []int{5}, []int64{0, 0, 9, 17, 17})
		out := reference(t, s, inputs)
		for n, bounds := range [][2]int{{0, 0}, {0, 9}, {9, 17}, {17, 17}} {
			got, initial := slice(out["final_state"], n, n+1), slice(inputs["initial_state"], n, n+1)
			if bounds[0] == bounds[1] {
				want := initial
				if empty == gdn.EmptyZero {
					want = array.New(ir.F32, initial.Shape...)
				}
				requireClose(t, want, got, 0)
				continue
			}
			one := gdntest.MustParse(t, fmt.Sprintf("t=%d,hk=1,hv=3,k=4,v=5,init,packed", bounds[1]-bounds[0]))
			oneInputs := map[string]*array.Array{"initial_state": initial}
			for _, name := range []string{"q", "k", "v", "g", "beta"} {
				oneInputs[name] = slice(inputs[name], bounds[0], bounds[1])
			}
			want := reference(t, one, oneInputs)
			requireClose(t, want["final_state"], got, 0)
			requireClose(t, want["o"], slice(out["o"], bounds[0], bounds[1]), 0)
		}
	}
}

// Value head h reads query and key head h / (Hv/Hk): repeating the heads beforehand gives the same.
func TestReferenceInterleavesGroups(t *testing.T) {
	grouped := gdntest.MustParse(t, "t=9,hk=2,hv=6,k=4,v=5")
	inputs := generate(t, "random", grouped, 3)
	flat := gdntest.MustParse(t, "t=9,hk=6,hv=6,k=4,v=5")
	flatInputs := map[string]*array.Array{"v": inputs["v"], "g": inputs["g"], "beta": inputs["beta"]}
	for _, name := range []string{"q", "k"} {
		x, repeated := inputs[name].Float64s(), []float64(nil)
		for tok := range 9 {
			for h := range 6 {
				repeated = append(repeated, x[(tok*2+h/3)*4:][:4]...)
			}
		}
		flatInputs[name] = array.FromFloat64s(ir.F32, []int{1, 9, 6, 4}, repeated)
	}
	want, got := reference(t, flat, flatInputs), reference(t, grouped, inputs)
	requireClose(t, want["o"], got["o"], 0)
	requireClose(t, want["final_state"], got["final_state"], 0)
}

func TestReferenceOptions(t *testing.T) {
	base := gdntest.MustParse(t, "b=2,t=11,hk=2,hv=4,k=6,v=3,init")
	inputs := generate(t, "random", base, 4)
	want := reference(t, base, inputs)
	with := func(name string, a *array.Array) map[string]*array.Array {
		out := map[string]*array.Array{}
		for k, v := range inputs {
			out[k] = v
		}
		out[name] = a
		return out
	}

	t.Run("scale touches o alone", func(t *testing.T) {
		s := base
		s.Scale = 3 * base.DefaultScale()
		out := reference(t, s, inputs)
		requireClose(t, want["final_state"], out["final_state"], 0)
		x := want["o"].Float64s()
		for i := range x {
			x[i] *= 3
		}
		requireClose(t, array.FromFloat64s(ir.F64, want["o"].Shape, x), out["o"], 1e-14)
	})
	t.Run("state layout", func(t *testing.T) {
		s := base
		s.State = gdn.StateVK
		out := reference(t, s, with("initial_state", transposed(inputs["initial_state"])))
		requireClose(t, want["o"], out["o"], 0)
		requireClose(t, want["final_state"], transposed(out["final_state"]), 0)
	})
	t.Run("no final state", func(t *testing.T) {
		s := base
		s.Final = false
		out := reference(t, s, inputs)
		requireClose(t, want["o"], out["o"], 0)
		require.Len(t, out, 1)
	})
	t.Run("l2norm of unit rows changes little, of zero rows nothing", func(t *testing.T) {
		s := base
		s.L2Norm = true
		out := reference(t, s, inputs)
		requireClose(t, want["o"], out["o"], 2e-6)
		zero := array.New(ir.F32, inputs["k"].Shape...)
		out = reference(t, s, with("k", zero))
		requireClose(t, reference(t, base, with("k", zero))["final_state"], out["final_state"], 0)
	})
	t.Run("negative eigenvalues double fused beta", func(t *testing.T) {
		s := gdntest.MustParse(t, "t=5,hk=1,k=2,gates=fused,negeig")
		g, beta := FusedGates(s, []float64{math.Log(2)}, []float64{1, 30}, []float64{-1}, []float64{0, 100})
		require.InDeltaSlice(t, []float64{-2 * math.Log(2), -58}, g, 1e-12)
		require.Equal(t, []float64{1, 2}, beta)
	})
	t.Run("beta 0 only decays", func(t *testing.T) {
		out := reference(t, base, generate(t, "beta0", base, 4))
		in := generate(t, "beta0", base, 4)
		s0, g := in["initial_state"].Float64s(), in["g"].Float64s()
		for i, x := range out["final_state"].Float64s() {
			sum, n, h := 0.0, i/(4*18), i/18%4
			for tok := range 11 {
				sum += g[(n*11+tok)*4+h]
			}
			require.InDelta(t, s0[i]*math.Exp(sum), x, 1e-12)
		}
	})
}

func TestCheckInputs(t *testing.T) {
	s := gdntest.MustParse(t, "t=4,hk=1,k=2,seqs=2,init")
	for want, spoil := range map[string]func(map[string]*array.Array){
		"input g: missing":                             func(in map[string]*array.Array) { delete(in, "g") },
		`no such input, did you mean "beta"`:           func(in map[string]*array.Array) { in["betta"] = in["beta"] },
		"input k: is f64[1,4,1,2], the spec wants f32": func(in map[string]*array.Array) { in["k"] = in["k"].Convert(ir.F64) },
		"input q: is f32[1,4,2]":                       func(in map[string]*array.Array) { in["q"] = in["q"].Reshape(1, 4, 2) },
		"input v: is NaN at [0 3 0 1]": func(in map[string]*array.Array) {
			in["v"] = array.FromFloat64s(ir.F32, []int{1, 4, 1, 2}, []float64{7: math.NaN()})
		},
		"input g: is +Inf at [0 1 0]: values must be finite, or -Inf for a reset": func(in map[string]*array.Array) {
			in["g"] = array.FromFloat64s(ir.F32, []int{1, 4, 1}, []float64{math.Inf(-1), math.Inf(1), 0, 0})
		},
		"input beta: ": func(in map[string]*array.Array) { in["beta"] = &array.Array{Type: ir.F32, Shape: []int{1, 4, 1}} },
		"starts at 1": func(in map[string]*array.Array) {
			in["cu_seqlens"] = array.FromInt64s(ir.I64, []int{3}, []int64{1, 2, 4})
		},
		"falls from 3 to 2 at entry 2": func(in map[string]*array.Array) {
			in["cu_seqlens"] = array.FromInt64s(ir.I64, []int{3}, []int64{0, 3, 2})
		},
		"ends at 3": func(in map[string]*array.Array) {
			in["cu_seqlens"] = array.FromInt64s(ir.I64, []int{3}, []int64{0, 2, 3})
		},
	} {
		in := generate(t, "random", s, 1)
		spoil(in)
		_, err := Reference(s, in)
		require.ErrorContains(t, err, want)
	}
	_, err := Reference(gdn.Spec{}, nil)
	require.Error(t, err)

	s = gdntest.MustParse(t, "t=9,hk=1,k=1")
	in := generate(t, "random", s, 1)
	in["k"] = array.FromFloat64s(ir.F32, in["k"].Shape, slices.Repeat([]float64{1e38}, 9))
	_, err = Reference(s, in)
	require.ErrorContains(t, err, "make the recurrence overflow")
}
