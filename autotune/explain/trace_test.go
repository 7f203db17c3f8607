package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// tiny explains tiny on v6e by a schedule that libtpu wrote.
func tiny(t *testing.T, columns int) *Explanation {
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	r, err := route.Lookup("mosaic")
	require.NoError(t, err)
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	p, err := measure.Make(s, "merge-packed", r, v6e)
	require.NoError(t, err)
	x := &measure.Instrument{Compiler: recorded{"tiny_v6e_0.0.51"}, Libtpu: "libtpu test", Scratch: t.TempDir()}
	e, err := NewModule(p).Explain(t.Context(), x, "libtpu test", v6e, 64, measure.Options{Columns: columns})
	require.NoError(t, err)
	return e
}

// A trace has each bundle of the hottest part once in each thread at most, in order, and units as full as the profile says.
func TestTrace(t *testing.T) {
	e := tiny(t, TraceColumns)
	f := e.Report.Ops[0].Profile
	require.Len(t, f.Columns, f.Bundles, "a bundle a column")
	file := filepath.Join(t.TempDir(), "trace.json")
	require.NoError(t, (&Result{Module: e.module, Targets: []*Explanation{e}}).WriteTrace(file))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var trace struct{ TraceEvents []traceEvent }
	require.NoError(t, json.Unmarshal(data, &trace))
	importable(t, data, trace.TraceEvents)
	names, end, busy := map[int]string{}, map[int]int{}, map[string]int{}
	for _, x := range trace.TraceEvents {
		if x.Process != 1 {
			continue
		}
		if x.Phase == "M" {
			if x.Name == "thread_name" {
				names[x.Thread] = x.Args["name"].(string)
			}
			continue
		}
		require.Equal(t, "X", x.Phase)
		require.GreaterOrEqual(t, x.Time, end[x.Thread], names[x.Thread])
		require.Positive(t, x.Duration)
		end[x.Thread] = x.Time + x.Duration
		require.LessOrEqual(t, end[x.Thread], f.Bundles)
		busy[names[x.Thread]] += x.Duration
	}
	for i, slot := range f.Slots {
		want := 0
		for _, c := range f.Columns {
			if c.Use[i] > 0 {
				want++
			}
		}
		if _, shown := busy[slot]; shown {
			require.Equal(t, want, busy[slot], slot)
		}
	}
	require.Positive(t, busy["VALU"])
	require.Positive(t, busy["stage"])
	require.NotContains(t, names, "VSTORE:SPILL")

	e.Report.Ops = []llo.OpReport{{Name: "none"}}
	_, err = (&Result{Module: e.module, Targets: []*Explanation{e}}).Trace()
	require.ErrorContains(t, err, "no op has a schedule")
}

// The roofline puts a module where its bounds say, below the roof; a module without products has none.
func TestRoofline(t *testing.T) {
	e := tiny(t, PageColumns)
	p := e.roofline()
	require.NotNil(t, p)
	require.InDelta(t, 560, p.Ridge, 1, "918 TFLOP/s over 1.64 TB/s")
	for _, x := range p.Points {
		require.Greater(t, x.Y, x.Roof, "%s: below the roof", x.Class)
		require.LessOrEqual(t, x.Y, p.Bottom)
		require.True(t, x.X >= p.Left && x.X <= p.Right)
	}
	e.Bounds = []measure.Bound{{Name: "hbm, module", Cycles: 100}, {Name: "mxu, module", Cycles: 50}}
	e.Report.Wall.Cycles = 200
	p = e.roofline()
	require.Len(t, p.Points, 1)
	require.Contains(t, p.Points[0].Text, "module: 280 flop a byte, 25.0 % of the MXUs' peak, 50.0 % of the roof there")
	e.Bounds = e.Bounds[:1]
	require.Nil(t, e.roofline())
}

// importable says that Perfetto's importer reads every event, by its rules: traceEvents is the first key; strings have no escapes by code
// point; an X has a time and a duration; processes and threads have names, which are looked up by the number of a thread alone; and the
// events of a thread follow one another.
func importable(t *testing.T, data []byte, events []traceEvent) {
	require.True(t, bytes.HasPrefix(data, []byte(`{"traceEvents":[`)))
	require.NotContains(t, string(data), `\u`)
	named, owner, end := map[string]bool{}, map[int]int{}, map[int]int{}
	for _, x := range events {
		require.NotEmpty(t, x.Name)
		if was, ok := owner[x.Thread]; ok {
			require.Equal(t, was, x.Process, "thread %d is of two processes", x.Thread)
		}
		owner[x.Thread] = x.Process
		switch x.Phase {
		case "M":
			require.NotEmpty(t, x.Args["name"])
			named[fmt.Sprint(x.Name, x.Process, map[string]int{"thread_name": x.Thread}[x.Name])] = true
		case "X":
			require.True(t, named[fmt.Sprint("process_name", x.Process, 0)] && named[fmt.Sprint("thread_name", x.Process, x.Thread)], "%+v has no name yet", x)
			require.Positive(t, x.Duration)
			require.GreaterOrEqual(t, x.Time, end[x.Thread])
			end[x.Thread] = x.Time + x.Duration
		default:
			require.Fail(t, "phase", "%+v", x)
		}
	}
}
