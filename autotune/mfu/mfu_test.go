package mfu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// A step is the sum of its pieces, each as often as it runs; parts are summed separately, by pass.
func TestSumUp(t *testing.T) {
	target, err := target.Lookup("v6e")
	require.NoError(t, err)
	row := func(kind, part, pass string, times int, time, flops float64, whole bool) *Row {
		return &Row{Kind: kind, Part: part, Pass: pass, Times: times, Time: time, Flops: flops, Whole: whole}
	}
	core := row("attention", "attention", "forward", 1, 50, 500, false)
	parts := []*Row{row("rule", "norm", "forward", 2, 10, 0, false), row("rule", "norm", "backward", 2, 20, 0, false),
		row("rule", "rule", "forward", 2, 30, 300, false), core}
	pieces := []*Row{row("rule", "layer", "forward", 2, 35, 300, true), core, row("rule", "layer", "backward", 2, 15, 600, true)}
	rows := sumUp(parts, pieces, target)
	find := func(kind, part, pass string) (found *Row) {
		for _, r := range rows {
			if r.Kind == kind && r.Part == part && r.Pass == pass {
				require.Nil(t, found, "%s, %s %s stands there twice", kind, part, pass)
				found = r
			}
		}
		require.NotNil(t, found, "%s, %s %s", kind, part, pass)
		return found
	}
	require.Equal(t, 40., find("rule", "apart", "forward").Time)
	require.Equal(t, 20., find("rule", "apart", "backward").Time)
	require.Equal(t, 50., find("rule", "all", "").Time)
	require.Equal(t, 50., find("attention", "all", "").Time)
	step := find("step", "all", "")
	require.Equal(t, []float64{150, 2300}, []float64{step.Time, step.Flops})
	require.InDelta(t, 2300/(150*target.PeakFlops()), step.MFU, 1e-12)
	sum := 0.
	for _, r := range rows {
		if r.InStep {
			sum += r.Share
		}
	}
	require.InDelta(t, 1, sum, 1e-12)
	require.True(t, core.InStep)
	require.Len(t, rows, len(parts)+3+2+2+1) // apart, pieces that are no parts, layers, step
}

// The modules of a step have all of its flops but those of the core of attention, forward once and backward twice.
func TestModules(t *testing.T) {
	c, err := model.Preset("130m")
	require.NoError(t, err)
	for _, forward := range []bool{true, false} {
		var flops, core float64
		for _, m := range Modules(c, forward) {
			require.NotNil(t, m.Build)
			flops += float64(m.Times) * m.Flops
		}
		for _, m := range modules(c, forward) {
			if m.Build == nil {
				core += float64(m.Times) * m.Flops
			}
		}
		require.Positive(t, core)
		require.InEpsilon(t, c.StepFlops(forward), flops+core, 1e-12)
	}
	alone := RuleAlone(c, false)
	require.Len(t, alone, 2)
	require.Equal(t, 2*alone[0].Flops, alone[1].Flops)
}
