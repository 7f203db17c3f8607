package build

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir/array"
)

// A log decay of -Inf is a reset, forward and backward: however decays are summed, and by each rule that has them.
func TestReset(t *testing.T) {
	const spec = "t=40,hk=1,hv=2,k=8,v=8,init"
	for _, row := range [][2]string{
		{spec, "token"},
		{spec, "default,chunk=16,leaf=4,decay=split"},
		{spec, "default,chunk=16,leaf=4,decay=clamp"},
		{spec, "default,chunk=16,leaf=4,decay=segment"},
		{spec, "default,chunk=16,leaf=4,decay=base2"},
		{spec + ",rule=simple-gla", "default,chunk=16,decay=base2"},
		{spec + ",rule=kda", "default,chunk=16,leaf=4"},
		{spec + ",rule=kda", "token"},
		{spec + ",direction=train", "default,chunk=16,leaf=4"},
		{spec + ",direction=train", "default,chunk=16,leaf=4,decay=base2"},
		{spec + ",direction=train,rule=kda", "default,chunk=16,leaf=4"},
	} {
		t.Run(row[0]+" by "+row[1], func(t *testing.T) {
			s, v := gdntest.MustParse(t, row[0]), gdntest.MustVariant(t, row[1])
			inputs := drawInputs(t, "random", s, 1)
			g := inputs["g"].Float64s()
			for _, token := range []int{0, 5, 17, 18, 39} {
				n := s.HeadsV * s.DecayWidth()
				for i := token * n; i < (token+1)*n-1; i++ { // the last head, or channel, goes on
					g[i] = math.Inf(-1)
				}
			}
			inputs["g"] = array.FromFloat64s(inputs["g"].Type, inputs["g"].Shape, g)
			require.Less(t, worst(interpret(t, s, v, inputs), exact(t, s, inputs)), 2e-5)
		})
	}
}
