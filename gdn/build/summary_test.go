package build

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// only are the inputs of some parameters.
func only(t *testing.T, all map[string]*array.Array, params []gdn.Param) map[string]*array.Array {
	own := map[string]*array.Array{}
	for _, p := range params {
		require.NotNil(t, all[p.Name], p.Name)
		own[p.Name] = all[p.Name]
	}
	return own
}

// requireNear says that no value is farther than this from what is wanted.
func requireNear(t *testing.T, want, got *array.Array, within float64) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape)
	require.LessOrEqual(t, array.Compare(got, want).MaxAbs, within)
}

// summaries are specs, and variants that make their summaries.
var summaries = []struct{ spec, variant string }{
	{"b=2,t=70,hk=1,hv=2,k=16,v=24", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=33,hk=2,hv=2,k=8,v=8,l2norm,gates=fused", "default"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=16,state=vk,init", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=53,hk=1,hv=2,k=8,v=16,seqs=3,init,packed", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=16,rule=deltanet", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=16,rule=simple-gla", "merge-packed,chunk=16"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=24,rule=kda", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=16,rule=kda,bound=-5,gates=fused,l2norm", "merge-packed,chunk=16,leaf=4"},
	{"b=1,t=40,hk=1,hv=2,k=16,v=24,rule=gdn2,gates=fused,l2norm", "merge-packed,chunk=16,leaf=4"},
}

// A summary is what the rule does to the identity and to zero, as plain ops and as kernel.
func TestSummary(t *testing.T) {
	for _, row := range summaries {
		t.Run(row.spec, func(t *testing.T) {
			s, err := gdn.Parse(row.spec)
			require.NoError(t, err)
			v, err := gdn.ParseVariant(row.variant)
			require.NoError(t, err)
			m, err := Summary(s, v)
			require.NoError(t, err)
			c, err := truth.LookupClass("random")
			require.NoError(t, err)
			all, err := c.Generate(s, 7)
			require.NoError(t, err)
			inputs := only(t, all, s.SummaryInputs())
			want, err := referenceSummary(s, inputs)
			require.NoError(t, err)
			got, err := interp.Run(m, inputs, interp.Options{})
			require.NoError(t, err)
			for name, x := range want {
				require.Positive(t, floats.Norm(x.Float64s(), 2), name)
				requireNear(t, x, got[name], 2e-6)
			}

			// The map is what takes an initial state to the final one.
			s.State, s.StateDType, s.Init, s.Final = gdn.StateKV, ir.F32, true, true
			if all, err = c.Generate(s, 7); err != nil {
				t.Fatal(err)
			}
			whole, err := truth.Reference(s, all)
			require.NoError(t, err)
			requireNear(t, whole["final_state"], affine(s, want, all["initial_state"]), 1e-12)
		})
	}
}

// affine is M S + O.
func affine(s gdn.Spec, summary map[string]*array.Array, state *array.Array) *array.Array {
	m, x, y := summary[gdn.TransitionName].Float64s(), state.Float64s(), summary[gdn.OffsetName].Float64s()
	for at := 0; at*s.K*s.V < len(y); at++ {
		for i := range s.K {
			for l := range s.K {
				for j := range s.V {
					y[(at*s.K+i)*s.V+j] += m[(at*s.K+i)*s.K+l] * x[(at*s.K+l)*s.V+j]
				}
			}
		}
	}
	return array.FromFloat64s(ir.F64, state.Shape, y)
}

// The gradient of the state before a range needs neither values nor states.
func TestStateGradient(t *testing.T) {
	for _, row := range summaries {
		s, err := gdn.Parse(row.spec)
		require.NoError(t, err)
		v, err := gdn.ParseVariant(row.variant)
		require.NoError(t, err)
		m, err := StateGradient(s, v)
		if !s.Rule.Writes() && !s.Rule.Channels() {
			require.ErrorContains(t, err, "computed by the reference alone")
			continue
		}
		require.NoError(t, err, row.spec)
		c, err := truth.LookupClass("random")
		require.NoError(t, err)
		all, err := c.Generate(s.OfStateGradient(), 7)
		require.NoError(t, err)
		inputs := only(t, all, s.StateGradientInputs())
		want, err := referenceStateGradient(s, inputs)
		require.NoError(t, err)
		require.Positive(t, floats.Norm(want.Float64s(), 2))
		got, err := interp.Run(m, inputs, interp.Options{})
		require.NoError(t, err)
		requireNear(t, want, got["dinitial_state"], 1e-5)
	}
}

// What makes no summaries says so.
func TestNoSummary(t *testing.T) {
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("token")
	require.NoError(t, err)
	_, err = Summary(s, v)
	require.ErrorContains(t, err, "needs algo=chunk")
	_, err = StateGradient(s, v)
	require.ErrorContains(t, err, "needs algo=chunk")
}

// A summary by the variants for TPUs is a kernel.
func TestSummaryKernel(t *testing.T) {
	s, err := gdn.Parse("b=1,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16")
	require.NoError(t, err)
	for _, text := range []string{"tpu", "tpu-long"} {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		for _, build := range []func(gdn.Spec, gdn.Variant) (*ir.Module, error){Summary, StateGradient} {
			m, err := build(s, v)
			require.NoError(t, err, text)
			kernel, err := pass.Apply(m, pass.Kernels...)
			require.NoError(t, err, text)
			require.Contains(t, kernel.String(), "kernel")
		}
	}
}

// referenceSummary is the summary in float64, token by token; inputs are those of s.SummaryInputs. Results have element type F64.
func referenceSummary(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	wide := s.Summarized()
	all := maps.Clone(inputs)
	for _, p := range wide.Inputs() {
		switch p.Name {
		case "q":
			all["q"] = array.New(p.Type.DType, p.Type.Shape...)
		case "v", "write", "w": // what weighs a zero says nothing
			if v := inputs[p.Name]; v != nil {
				all[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, columns(v.Float64s(), s.V, wide.V, s.K))
			}
		case "initial_state":
			eye := make([]float64, p.Type.Size())
			for i := range eye {
				if i%wide.V == i/wide.V%s.K {
					eye[i] = 1
				}
			}
			all["initial_state"] = array.FromFloat64s(ir.F32, p.Type.Shape, eye)
		}
	}
	made, err := truth.Reference(wide, all)
	if err != nil {
		return nil, err
	}
	out, states := map[string]*array.Array{}, made["final_state"].Float64s()
	for _, p := range s.SummaryOutputs() {
		first, width := 0, s.K
		if p.Name == gdn.OffsetName {
			first, width = s.K, s.V
		}
		var l []float64
		for row := range slices.Chunk(states, wide.V) {
			l = append(l, row[first:first+width]...)
		}
		out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, l)
	}
	return out, nil
}

// columns puts rows of one width into rows of zeros of another, from a column on.
func columns(x []float64, width, into, at int) []float64 {
	var y []float64
	for row := range slices.Chunk(x, width) {
		wide := make([]float64, into)
		copy(wide[at:], row)
		y = append(y, wide...)
	}
	return y
}

// referenceStateGradient is D in float64; inputs are those of s.StateGradientInputs. The result has element type F64.
func referenceStateGradient(s gdn.Spec, inputs map[string]*array.Array) (*array.Array, error) {
	s = s.OfStateGradient()
	all := maps.Clone(inputs)
	for _, p := range s.Inputs() {
		if p.Name == "v" || p.Name == "initial_state" {
			all[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
		}
	}
	made, err := truth.Reference(s, all)
	return made["dinitial_state"], err
}
