package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// The floors of the bench work per token and value head: 25952256 necessary bytes, and matrix products at chunk 128.
func TestBounds(t *testing.T) {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("bf16,chunk=128")
	require.NoError(t, err)
	p := &Program{Spec: &s, Variant: v}
	for name, want := range map[string][2]float64{"v5e": {1.45, 1.50}, "v6e": {.845, .75}, "tpu7x": {.47, .75}} {
		target, err := target.Lookup(name)
		require.NoError(t, err)
		r := &llo.Report{Cycles: 4 * 4096 * 8, HBMBytes: -1, Ops: []llo.OpReport{{Calls: 2, MXUBusy: 4096 * 8, Bundles: 4096 * 8,
			Slots: []llo.Slot{{Name: "SALU", Used: 9, Capacity: 9}, {Name: "VALU", Used: 3, Capacity: 4}, {Name: "XLU", Used: 1, Capacity: 4}}}}}
		list := p.Bounds(r, target)
		require.Len(t, list, 4)
		for i, w := range want {
			require.InDelta(t, w, float64(list[i].Cycles)/(4096*8), .01, "%s %s", name, list[i].Name)
		}
		require.Equal(t, Bound{"slots, module", 2 * 4096 * 6, 4. / 1.5, "instructions of the fullest slot, VALU, packed without a gap"}, list[3])
		require.Equal(t, "mxu, module", list[2].Name)
		require.InDelta(t, 2, list[2].Ratio, 1e-9)
	}
}

// Places are summed by stage; what has none counts for its op, and all of it for the whole, by either ruler.
func TestStages(t *testing.T) {
	r := &llo.Report{Target: "v6e", Cycles: 67, TopLevel: 5, Wall: llo.Wall{Cycles: 92, Own: 9}, Ops: []llo.OpReport{
		{Name: "fused.1", Calls: 2, Cycles: 25, Wall: llo.Wall{Own: 35}, Locations: []llo.Location{{File: "solve.c0.h1", Cycles: 5, Wait: 6, Instructions: 1}, {File: "-", Line: 7, Cycles: 4, Wait: 2, Instructions: 3},
			{File: "state", Cycles: 3}, {File: "state.c1.h0", Cycles: 3, Instructions: 2}, {File: "", Cycles: 3}}},
		{Name: "copy.36", Calls: 1, Cycles: 7, Wall: llo.Wall{Own: 7}}, {Name: "copy", Calls: 1, Cycles: 5, Wall: llo.Wall{Own: 6}},
	}}
	p := &Program{Lowered: &ir.Module{}}
	require.Equal(t, []llo.Location{{File: "(fused)", Cycles: 28, Wait: 8, Instructions: 6}, {File: "solve", Cycles: 10, Wait: 12, Instructions: 2},
		{File: "(copy)", Cycles: 12, Wait: 1}, {File: "state", Cycles: 12, Instructions: 4}, {File: "(top level)", Cycles: 5, Wait: 4}}, p.Stages(r))
	for _, by := range []ruler.Ruler{ruler.InOrder, ruler.Issue} {
		var stages, ops int64
		for _, s := range p.Stages(r) {
			stages += StageBy(by, r, s)
		}
		for i := range r.Ops {
			ops += OpBy(by, r, &r.Ops[i])
		}
		whole, err := CyclesBy(by, r)
		require.NoError(t, err)
		require.Equal(t, whole, stages, by)
		require.Less(t, ops, whole, by)
	}
	r.Wall.Unknown = "a reason"
	_, err := CyclesBy(ruler.InOrder, r)
	require.ErrorContains(t, err, "the in-order cycles of the schedule are not known: a reason")
	r.Target = "v4" // whose latencies are not known
	n, err := CyclesBy(ruler.InOrder, r)
	require.NoError(t, err)
	require.Equal(t, r.Cycles, n)
	r.Ops[0].Locations = []llo.Location{{File: "kernel.py", Line: 3, Cycles: 20}, {Cycles: 1}}
	require.Equal(t, []llo.Location{{File: "kernel.py", Cycles: 40}, {File: "(copy)", Cycles: 12}, {File: "(fused)", Cycles: 10}, {File: "(top level)", Cycles: 5}}, Foreign("f", "").Stages(r))
}
