package truth

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The whole is that of Reference; what is carried is the output for values of zero after the last boundary, where there is but one; and
// the derivative is that of differences.
func TestReferenceShares(t *testing.T) {
	for _, text := range []string{"b=2,t=40,hk=1,hv=2,k=8,v=12,init", "t=40,hk=1,k=8,seqs=3,init,state=vk,empty=zero,pool=4", "t=40,hk=2,k=8,gates=fused"} {
		s := gdntest.MustParse(t, text)
		inputs := generate(t, "slow", s, 3)
		want := reference(t, s, inputs)
		got, shares, err := ReferenceShares(s, inputs, 1<<20)
		require.NoError(t, err)
		still := cloneInputs(inputs)
		still["v"] = array.New(s.DType, inputs["v"].Shape...)
		carried := reference(t, s, still)
		up, down := reference(t, s, slower(s, inputs, 1e-3)), reference(t, s, slower(s, inputs, -1e-3))
		for name := range want {
			require.Equal(t, want[name], got[name], name)
			require.InDeltaSlice(t, carried[name].Float64s(), shares.Carried[name].Float64s(), 1e-12, name)
			u, d := up[name].Float64s(), down[name].Float64s()
			for i, x := range shares.Decay[name].Float64s() {
				require.InDelta(t, (u[i]-d[i])/2e-3, x, 1e-4*(1+math.Abs(x)), name)
			}
		}
	}
	_, _, err := ReferenceShares(gdntest.MustParse(t, "t=4,hk=1,k=2,direction=train"), nil, 8)
	require.ErrorContains(t, err, "forward")
}

// From the second boundary on only what came before it is carried.
func TestCarriedBoundaries(t *testing.T) {
	s := gdntest.MustParse(t, "t=24,hk=1,k=8")
	inputs := generate(t, "slow", s, 3)
	_, shares, err := ReferenceShares(s, inputs, 8)
	require.NoError(t, err)
	late := cloneInputs(inputs)
	v := inputs["v"].Float64s()
	clear(v[16*8:])
	late["v"] = array.FromFloat64s(s.DType, inputs["v"].Shape, v)
	want := reference(t, s, late)
	require.InDeltaSlice(t, want["final_state"].Float64s(), shares.Carried["final_state"].Float64s(), 1e-12)
	require.InDeltaSlice(t, want["o"].Float64s()[16*8:], shares.Carried["o"].Float64s()[16*8:], 1e-12)
	for _, x := range shares.Carried["o"].Float64s()[:8*8] {
		require.Zero(t, x)
	}
}

// What queries of any direction give is the mean over those along each axis; long outputs do without.
func TestExpected(t *testing.T) {
	s := gdntest.MustParse(t, "b=2,t=3,hk=1,hv=2,k=8,v=4,init")
	inputs := generate(t, "slow", s, 3)
	mean := make([]float64, s.Batch*s.Tokens*s.HeadsV)
	var got []float64
	for axis := range s.K {
		q := make([]float64, inputs["q"].Size())
		for i := axis; i < len(q); i += s.K {
			q[i] = 3
		}
		inputs["q"] = array.FromFloat64s(s.DType, inputs["q"].Shape, q)
		want, shares, err := ReferenceShares(s, inputs, 16)
		require.NoError(t, err)
		for i, x := range want["o"].Float64s() {
			mean[i/s.V] += x * x / float64(s.V*s.K)
		}
		got = shares.Expected
	}
	require.InDeltaSlice(t, mean, got, 1e-12)

	long := gdntest.MustParse(t, "t=32,hk=1,k=8")
	_, shares, err := ReferenceShares(long, generate(t, "slow", long, 3), 16)
	require.NoError(t, err)
	require.Nil(t, shares.Expected)
}

func cloneInputs(inputs map[string]*array.Array) map[string]*array.Array {
	c := map[string]*array.Array{}
	for name, a := range inputs {
		c[name] = a
	}
	return c
}

// slower changes all log decays by a share.
func slower(s gdn.Spec, inputs map[string]*array.Array, share float64) map[string]*array.Array {
	c := cloneInputs(inputs)
	name := "g"
	if s.Gates == gdn.GatesFused {
		name = "A_log"
	}
	x := inputs[name].Float64s()
	for i := range x {
		if name == "g" {
			x[i] *= 1 + share
		} else {
			x[i] += math.Log1p(share)
		}
	}
	c[name] = array.FromFloat64s(ir.F32, inputs[name].Shape, x)
	return c
}
