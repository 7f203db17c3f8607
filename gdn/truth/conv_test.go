package truth

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir/array"
)

// A sequence that is cut anywhere goes on from its state and its cache as if it were whole.
func TestConvolutionGoesOn(t *testing.T) {
	whole := gdntest.MustParse(t, "t=9,hk=1,hv=2,k=8,v=6,l2norm,init,conv=4,convrows=4,convstate,convbias")
	inputs := generate(t, "random", whole, 1)
	want := reference(t, whole, inputs)
	for cut := 1; cut < whole.Tokens; cut++ {
		carried := map[string]*array.Array{"initial_state": inputs["initial_state"], "initial_conv": inputs["initial_conv"]}
		var o []float64
		for _, part := range [][2]int{{0, cut}, {cut, whole.Tokens}} {
			s := whole
			s.Tokens = part[1] - part[0]
			in := map[string]*array.Array{}
			for _, p := range s.Inputs() {
				if in[p.Name] = inputs[p.Name]; carried[p.Name] != nil {
					in[p.Name] = carried[p.Name]
				} else if a := inputs[p.Name]; a.Shape[0] == 1 && len(a.Shape) > 2 && a.Shape[1] == whole.Tokens {
					row := a.IRType().Size() / whole.Tokens
					in[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, a.Float64s()[part[0]*row:part[1]*row])
				}
			}
			got := reference(t, s, in)
			o = append(o, got["o"].Float64s()...)
			carried["initial_state"] = got["final_state"].Convert(s.StateDType)
			carried["initial_conv"] = got["final_conv"].Convert(s.DType)
		}
		require.InDeltaSlice(t, want["o"].Float64s(), o, 1e-6)
		require.Equal(t, want["final_conv"].Float64s(), carried["initial_conv"].Float64s())
	}
}

// One channel by hand: taps 2 and 3, bias .5, a cache of 10, and inputs 1 and 4.
func TestConvolutionByHand(t *testing.T) {
	s := gdntest.MustParse(t, "t=2,hk=1,k=1,l2norm,init,conv=2,convstate,convbias,rule=linear,scale=1")
	inputs := map[string]*array.Array{}
	for _, p := range s.Inputs() {
		inputs[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, make([]float64, p.Type.Size()))
	}
	set := func(name string, x ...float64) {
		inputs[name] = array.FromFloat64s(inputs[name].Type, inputs[name].Shape, x)
	}
	for _, name := range []string{"q", "k", "v"} {
		set(name, 1, 4)
		set("conv_"+name, 2, 3)
		set("bias_"+name, .5)
	}
	set("initial_conv", 10, 10, 10)
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	v0, v1 := silu(2*10+3*1+.5), silu(2*1+3*4+.5)
	got := reference(t, s, inputs) // q and k are of length 1
	require.InDeltaSlice(t, []float64{v0, v0 + v1}, got["o"].Float64s(), 1e-5)
	require.Equal(t, []float64{4, 4, 4}, got["final_conv"].Float64s())
	require.True(t, gdn.IsConvState("final_conv"))
}
