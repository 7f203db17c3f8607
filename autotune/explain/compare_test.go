package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Figures of the same name stand side by side, the largest changes first; what only one has counts as 0 in the other.
func TestCompare(t *testing.T) {
	a := &Explanation{Stages: []llo.Location{{File: "solve", Cycles: 50}, {File: "leaf", Cycles: 30}, {File: "(fused)", Cycles: 5}},
		Ruler: ruler.Issue, Report: &llo.Report{Cycles: 90, Wall: llo.Wall{Cycles: 100}, Ops: []llo.OpReport{{Name: "f", Calls: 2, Cycles: 40, Spills: 3, Slots: []llo.Slot{{Name: "XLU", Used: 5, Capacity: 10}}}}}}
	b := &Explanation{Stages: []llo.Location{{File: "leaf", Cycles: 10}, {File: "solve", Cycles: 49}, {File: "gates", Cycles: 7}},
		Ruler: ruler.Issue, Report: &llo.Report{Cycles: 70, Wall: llo.Wall{Cycles: 80}, Ops: []llo.OpReport{{Name: "g", Calls: 1, Cycles: 66, Slots: []llo.Slot{{Name: "XLU", Used: 1, Capacity: 4}}}}}}
	c := Compare(a, b)
	require.Equal(t, []Change{{Name: "leaf", A: 30, B: 10, Delta: -20}, {Name: "gates", B: 7, Delta: 7}, {Name: "(fused)", A: 5, Delta: -5}, {Name: "solve", A: 50, B: 49, Delta: -1}}, c.Stages)
	require.Equal(t, []Change{{Name: "XLU", A: 10, B: 1, Delta: -9, FullA: "50.0%", FullB: "25.0%"}}, c.Slots)
	require.Equal(t, []Change{{Name: "f", A: 80, Delta: -80}, {Name: "g", B: 66, Delta: 66}}, c.Ops)
	require.Equal(t, []Change{{Name: "in order", A: 100, B: 80, Delta: -20}, {Name: "issue", A: 90, B: 70, Delta: -20}}, c.Totals[:2])
	require.Equal(t, "0.80 x", c.Totals[0].Ratio())
	require.Contains(t, c.Totals, Change{Name: "spills", A: 6, Delta: -6})
	require.Equal(t, "-", Change{B: 4}.Ratio())
}
