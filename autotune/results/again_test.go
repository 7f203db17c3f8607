package results

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// published are the lines of docs/data/results.md and its champions.
func published(t *testing.T) (p *Plan, lines []string, list []entry) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "data", "results.md"))
	require.NoError(t, err)
	p, err = Default()
	require.NoError(t, err)
	lines = strings.Split(string(text), "\n")
	list, err = p.entries(lines)
	require.NoError(t, err)
	return p, lines, list
}

// The errors of docs/data/results.md are those of its kernels, in a row that rotates by commit: training takes minutes, and is left to the
// whole.
func TestErrorsOfPage(t *testing.T) {
	p, lines, list := published(t)
	list = slices.DeleteFunc(list, func(e entry) bool { return e.row.spec.Direction != gdn.Forward && !rotate.All() })
	for _, e := range rotate.Sample(21, list, 1) {
		try, err := e.trial(p)
		require.NoError(t, err)
		rows, err := try.errors(t.Context(), nil, e.row.Field)
		require.NoError(t, err)
		text, err := e.again(lines[e.line], rows, p.Classes)
		require.NoError(t, err)
		require.Equal(t, lines[e.line], text, "%s: gdngen list results --errors docs/data/results.md", e.row.Title)
	}
}

var updateCycles = flag.Bool("update", false, "write the cycles of rows of few tokens into docs/data/results.md")

// The cycles of docs/data/results.md are those of its kernels, in a row of few tokens, which compile in seconds, that rotates by commit. Of a
// form that auto does not stand for any more there is nothing to compare.
func TestCyclesOfPage(t *testing.T) {
	p, lines, list := published(t)
	list = slices.DeleteFunc(list, func(e entry) bool { return e.out || e.row.spec.Tokens > 64 && !rotate.All() })
	compiler := pjrttest.TPU(t)
	tpu, err := plugins.TPU(t.Context(), plugins.Options{})
	require.NoError(t, err)
	w := &work{Maker: &Maker{Instrument: &measure.Instrument{Compiler: compiler, Libtpu: tpu.Name + " " + tpu.Version, Scratch: t.TempDir()}}}
	drawn := rotate.Sample(22, list, 1)
	if *updateCycles {
		drawn = list
	}
	for _, e := range drawn {
		try, err := e.trial(p)
		require.NoError(t, err)
		target, err := target.Lookup(e.target)
		require.NoError(t, err)
		cost, err := w.forms.Cost(t.Context(), w.Instrument, try.Form, target)
		require.NoError(t, err)
		took, refused := cost.By(ruler.InOrder, e.target)
		require.Empty(t, refused)
		n := float64(e.row.spec.Work())
		now, had := figure("%.3f", ruler.InOrder.On(e.target), float64(took)/n, float64(cost.Cycles)/n), cellsOf(lines[e.line])[3]
		if *updateCycles {
			lines[e.line] = strings.Replace(lines[e.line], "| "+had+" |", "| "+now+" |", 1)
			continue
		}
		require.Equal(t, had, now, "%s on %s: go test ./autotune/results -run TestCyclesOfPage -update", e.row.Title, e.target)
	}
	if *updateCycles {
		require.NoError(t, os.WriteFile(filepath.Join("../..", "docs", "data", "results.md"), []byte(strings.Join(lines, "\n")), 0o644))
	}
}

// rowsOf are errors of one class and output.
func rowsOf(off, limit float64) []check.Row {
	return []check.Row{
		{Class: "random", Output: "o", Kind: "rms", Error: journal.Figure(off), Limit: journal.Figure(limit), Pass: off <= limit},
		{Class: "random", Output: "o", Kind: "max", Error: 1, Limit: 2, Pass: true},
	}
}

// Errors are made anew where they stand, and nothing else of a line; a verdict that turns needs a cost.
func TestAgain(t *testing.T) {
	p := &Plan{Classes: []string{"random", "cos.9"}, Rows: []Row{{Title: "One"}}}
	lines := []string{
		"| target | champion | form | 4 | 5 | 6 | 7 | 8 | random | cos.9 |", "## One", "",
		"| target | champion | form | cycles | ratio | HBM | VMEM | spills | random | cos.9 |", "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
		"| v6e | a | tpu | 1.000 | - | 1.00 | 2 MiB | 0 | 9.9e-03 |  |", "| v4 | none | | | | | | | | |",
		"- v6e without b: o is off by 1.00e+00 (rms) on random, 0.1 is allowed", "## Other", "| v6e | a | tpu | 1.000 | - | 1.00 | 2 MiB | 0 | 9.9e-03 |  |",
	}
	list, err := p.entries(lines)
	require.NoError(t, err)
	row := &p.Rows[0]
	require.Equal(t, []entry{{line: 5, row: row, target: "v6e", name: "a", form: "tpu"}, {line: 7, row: row, target: "v6e", name: "b", out: true}}, list)
	text, err := list[0].again(lines[5], rowsOf(.5, 1), p.Classes)
	require.NoError(t, err)
	require.Equal(t, "| v6e | a | tpu | 1.000 | - | 1.00 | 2 MiB | 0 | 5.0e-01 |  |", text)
	_, err = list[0].again(lines[5], rowsOf(2, 1), p.Classes)
	require.EqualError(t, err, "One on v6e: a is no champion any more: o is off by 2.00e+00 (rms) on random, 1 is allowed")
	text, err = list[1].again(lines[7], rowsOf(math.NaN(), 1), p.Classes)
	require.NoError(t, err)
	require.Equal(t, "- v6e without b: o is no number (rms) on random, 1 is allowed", text)
	_, err = list[1].again(lines[7], rowsOf(.5, 1), p.Classes)
	require.EqualError(t, err, "One on v6e: b is within the limits now")
	p.Classes = []string{"random"}
	_, err = p.entries(lines)
	require.ErrorContains(t, err, "line 4: the page has errors on random cos.9, the plan on random: make the page anew")
	p.Rows[0].Title = "Two"
	_, err = p.entries(lines)
	require.ErrorContains(t, err, "no line of the page")
}

// The note about the columns is that of today.
func TestNoteAgain(t *testing.T) {
	page, err := noteAgain("# Results\n\n- *VMEM*\n- The last columns are something\n  else.\n\n| work |\n")
	require.NoError(t, err)
	require.Equal(t, "# Results\n\n- *VMEM*\n"+errorsNote()+"\n| work |\n", page)
	_, err = noteAgain("# Results\n")
	require.ErrorContains(t, err, "does not say")
}

// A class is shown by the output that is nearest to its limit, and what is no number is worst.
func TestRMSOf(t *testing.T) {
	rows := append(rowsOf(.1, 1), check.Row{Class: "random", Output: "final_state", Kind: "rms", Error: .05, Limit: .1, Pass: true})
	off, ok := rmsOf(rows, "random")
	require.True(t, ok)
	require.Equal(t, .05, off)
	_, ok = rmsOf(rows, "cos.9")
	require.False(t, ok)
	require.EqualValues(t, .05, worstRMS(rows, []string{"random", "cos.9"}))
	require.True(t, math.IsInf(float64(worstRMS(rowsOf(math.NaN(), 1), []string{"random"})), 1))
}

// What is no number is worse than any number, before it or behind it.
func TestNoNumberIsWorst(t *testing.T) {
	none := check.Row{Class: "random", Output: "o", Kind: "rms", Error: journal.Figure(math.NaN()), Limit: 1}
	finite := check.Row{Class: "random", Output: "final_state", Kind: "rms", Error: 5, Limit: .1}
	for _, rows := range [][]check.Row{{none, finite}, {finite, none}} {
		off, ok := rmsOf(rows, "random")
		require.True(t, ok)
		require.True(t, math.IsNaN(off), "%g", off)
		require.True(t, math.IsInf(float64(worstRMS(rows, []string{"random"})), 1))
		require.Equal(t, "o is no number (rms) on random, 1 is allowed", refused(rows))
	}
}
