package explain

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// The schedule of an op of 1000 bundles: stores are the fullest slot, half of them spills; without them VALU is, at 60 %.
func adviceReport() *llo.Report {
	op := llo.OpReport{Name: "kernel", Calls: 1, Bundles: 1000, Cycles: 1000, Stall: 5, Slots: []llo.Slot{
		{Name: "VALU", Used: 2400, Capacity: 4000}, {Name: "VSTORE", Used: 800, Capacity: 1000}, {Name: "VSTORE:SPILL", Used: 400, Capacity: 1000}, {Name: "SALU", Used: 2000, Capacity: 2000}}}
	op.Wall.Edges = 300
	r := &llo.Report{Ops: []llo.OpReport{op}, Cycles: 1000}
	r.Wall.Cycles = 1300
	return r
}

// Advice is ranked by what it is worth at most; what is below one percent has no line, and a foreign module no axes.
func TestAdvice(t *testing.T) {
	e := &Explanation{Report: adviceReport(), Ruler: measure.Wall, module: &Module{Program: measure.Foreign("a.mlir", "")}}
	e.Parts = e.Report.Parts()
	list := e.advise()
	var got []string
	for _, a := range list {
		got = append(got, a.Name)
		require.Empty(t, a.Axes)
	}
	require.Equal(t, []string{"edges", "gaps", "spills"}, got)
	require.Equal(t, int64(300), list[0].Most)
	require.Equal(t, int64(200), list[1].Most, "800 of 1000 bundles need their stores")
	require.Contains(t, list[1].Text, "VSTORE, the fullest slot, is 80.0% full over all that is issued")
	require.Equal(t, int64(200), list[2].Most, "600 bundles hold the vector instructions")
	e.Advice = list
	var b bytes.Buffer
	e.writeAdvice(&b)
	require.Regexp(t, `(?m)^edges +300 +23\.1% +each op waits`, b.String())
}

// The next command is one that the advice names, with a value beside the one that the variant has.
func TestNext(t *testing.T) {
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	v, err := gdn.ParseVariant("tpu-long")
	require.NoError(t, err)
	p := &measure.Program{Spec: &s, Variant: v}
	r := &Result{Module: &Module{Program: p}, Targets: []*Explanation{{Target: "v6e", Auto: "tpu-long: why", Advice: []Advice{{Name: "gaps", Axes: []string{"chunks"}}}}}}
	require.Contains(t, r.Next(), "--target v6e --diff auto,chunks=2,")
	r.Targets[0].Auto = ""
	require.Contains(t, r.Next(), "--variant tpu-long --target v6e --diff tpu-long,chunks=2,")
	r.Targets[0].Advice = nil
	require.Empty(t, r.Next())
}

// The axes that advice names exist.
func TestAdviceAxes(t *testing.T) {
	for _, r := range rules {
		for _, name := range r.axes {
			_, err := gdn.LookupAxis(name)
			require.NoError(t, err, r.name)
		}
	}
}
