package explain

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
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
	e := &Explanation{Report: adviceReport(), Ruler: ruler.InOrder, module: &Module{Program: measure.Foreign("a.mlir", "")}}
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

// The next command is one that the advice names, with another value than the variant's.
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

// Where ops around the kernels take more than a fifth, explain says how arrays should come.
func TestArrays(t *testing.T) {
	for text, want := range map[string]string{
		"t=2048,hk=10,hv=10,k=128":           "[B, T, heads x width] (--spec ...,rows=flat)",
		"t=2048,hk=2,hv=6,k=128":             "2 and 6 heads fill no tiles of rows",
		"t=2048,hk=10,hv=10,k=128,rows=flat": "",
		"t=2048,hk=8,hv=8,k=128":             "",
		"t=2048,hk=8,hv=8,k=96,v=192":        "Widths of 96 and 192 fill no registers of 128 lanes",
	} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		e := &Explanation{Report: adviceReport(), Ruler: ruler.InOrder, module: &Module{Program: &measure.Program{Spec: &s}}}
		require.Contains(t, e.arrays(261), want, text)
		require.Equal(t, want == "", e.arrays(261) == "", text)
		require.Empty(t, e.arrays(260), "a fifth of 1300")
	}
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
