package bench

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Static costs are summed by size in rising order, then over all where there are several sizes; targets keep the order asked for, and
// what was refused counts for no mean.
func TestStaticSums(t *testing.T) {
	row := func(definition, target, group string, n int, modelled float64, refused string) StaticRow {
		return StaticRow{Definition: definition, Target: target, Group: group, Workloads: n, ModelledUS: modelled, ComputeUS: 1, FloorUS: 2, Refused: refused}
	}
	list := staticSums([]StaticRow{
		row("prefill", "v6e", "128 tokens or fewer", 1, 4, ""), row("prefill", "v5e", "128 tokens or fewer", 1, 4, ""),
		row("prefill", "v6e", "64 tokens or fewer", 3, 2, ""), row("prefill", "v6e", "64 tokens or fewer", 2, 0, "too large"),
		row("decode", "v6e", "batch 4", 2, 8, ""), row("decode", "v6e", "batch 4", 2, 2, ""),
	})
	var names []string
	for _, x := range list {
		names = append(names, x.definition+" "+x.target+" "+x.group)
	}
	require.Equal(t, []string{"decode v6e batch 4", "prefill v6e 64 tokens or fewer", "prefill v6e 128 tokens or fewer", "prefill v6e all", "prefill v5e 128 tokens or fewer"}, names)
	mean := func(x *staticSum) float64 { return math.Exp(x.modelled / x.n) }
	require.InDelta(t, 4, mean(list[0]), 1e-9)
	require.Equal(t, []float64{3, 2}, []float64{list[1].n, list[1].refused})
	require.InDelta(t, math.Pow(4*2*2*2, .25), mean(list[3]), 1e-9)
	require.InDelta(t, 2, list[3].worst, 1e-9)
	require.InDelta(t, math.Log(2)*4, list[3].floor, 1e-9)
}
