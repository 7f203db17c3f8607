package build

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// The examples of internal/chunkwise and internal/gradient: two tokens of one channel, by the programs and by the truth.
func TestWorkedExample(t *testing.T) {
	row := func(x ...float64) *array.Array { return array.FromFloat64s(ir.F32, []int{1, 2, 1, 1}, x) }
	gate := func(x ...float64) *array.Array { return array.FromFloat64s(ir.F32, []int{1, 2, 1}, x) }
	state := func(x float64) *array.Array { return array.FromFloat64s(ir.F32, []int{1, 1, 1, 1}, []float64{x}) }
	const half = -0.6931471805599453 // log decay of 1/2
	inputs := map[string]*array.Array{
		"q": row(1, 1), "k": row(1, 1), "v": row(1, 2), "g": gate(half, half), "beta": gate(1, 1), "initial_state": state(8),
		"do": row(0, 1), "dfinal_state": state(0),
	}
	want := map[string][]float64{
		"o": {1, 2}, "final_state": {2},
		"dq": {0, 2}, "dk": {0, 1}, "dv": {0, 1}, "dg": {0, 0}, "dbeta": {0, 1.5}, "dinitial_state": {0},
	}
	s := gdntest.MustParse(t, "t=2,hk=1,hv=1,k=1,v=1,scale=1,init,direction=train")
	for _, text := range []string{"default", "default,beta=right", "default,beta=exponent", "default,decaygrad=inverse", "default,save=all"} {
		got := interpret(t, s, gdntest.MustVariant(t, text), inputs)
		for _, p := range s.Outputs() {
			require.InDeltaSlice(t, want[p.Name], got[p.Name].Float64s(), 1e-5, "%s of %s", p.Name, text)
		}
	}
	truth := exact(t, s, inputs)
	for _, p := range s.Outputs() {
		require.InDeltaSlice(t, want[p.Name], truth[p.Name].Float64s(), 1e-6, p.Name)
	}
}
