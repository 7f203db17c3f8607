package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/gdngen/gdngen/tests/history"
)

func TestMain(m *testing.M) {
	aot.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// Every passage is in its document once, and what it states is what is measured: of short programs, those of passages that the
// change under test writes, and a cost and an error that rotate by commit; or of all figures where the whole is asked for.
func TestFigures(t *testing.T) {
	list, err := readPassages("figures.tsv")
	require.NoError(t, err)
	change := history.Changed()
	t.Log(change)
	type sample struct {
		*passage
		source string
	}
	var costs, offs, touched []sample
	for _, p := range list {
		_, err = p.stated(documentOf(t, p))
		require.NoError(t, err, p)
		written, err := p.written(change)
		require.NoError(t, err)
		for _, text := range p.sources {
			s, err := parseSource(text)
			require.NoError(t, err)
			switch quick := s.quick(); {
			case quick && written:
				touched = append(touched, sample{p, text})
			case (quick || rotate.All()) && s.terms[0].off != nil:
				offs = append(offs, sample{p, text})
			case quick || rotate.All():
				costs = append(costs, sample{p, text})
			case written:
				t.Logf("changed and not computed: {%s} of %s", text, p.file)
			}
		}
	}
	require.NotEmpty(t, slices.Concat(costs, touched))
	require.NotEmpty(t, slices.Concat(offs, touched))
	touched, left := history.Bounded(5, touched, 2)
	for _, s := range left {
		t.Logf("changed and not computed: {%s} of %s", s.source, s.file)
	}
	m := meterOf(t)
	for _, s := range slices.Concat(touched, rotate.Sample(3, costs, 1), rotate.Sample(28, offs, 1)) {
		c, err := s.compare(t.Context(), documentOf(t, s.passage), s.source, m)
		require.NoError(t, err, s.source)
		require.Less(t, c.left, len(s.sources), s.source)
		require.Empty(t, c.differ, "%s: go run ./tests/figures -update", s.passage)
	}
}

// written reports whether a change wrote the passage, or its row of the table.
func (p *passage) written(change *history.Change) (bool, error) {
	rows, err := change.Added("figures.tsv")
	if err != nil {
		return false, err
	}
	lines, err := change.Added(filepath.Join("..", "..", p.file))
	return slices.Contains(rows, p.file+"\t"+p.text) || slices.ContainsFunc(lines, p.form.MatchString), err
}

func documentOf(t *testing.T, p *passage) string {
	text, err := os.ReadFile(filepath.Join("..", "..", p.file))
	require.NoError(t, err)
	return string(text)
}

// meterOf measures anew, whatever the cache of the user has.
func meterOf(t *testing.T) *meter {
	compiler := pjrttest.TPU(t)
	p, err := plugins.TPU(t.Context(), plugins.Options{})
	require.NoError(t, err)
	return &meter{measure.Instrument{Compiler: compiler, Libtpu: p.Name + " " + p.Version, Cache: &measure.Cache{Dir: t.TempDir()}, Scratch: t.TempDir()}}
}

// refusing is a compiler that refuses.
type refusing struct{}

var errRefused = errors.New("no such thing")

func (refusing) Compile(context.Context, aot.Request) (*aot.Result, error) { return nil, errRefused }

// What can not be measured is an error that names its source, and what only the cache could tell is left out.
func TestUnmeasured(t *testing.T) {
	p, err := parsePassage("a.md\tx {cycles tiny token v6e} and {in-order tiny token v6e}.")
	require.NoError(t, err)
	m := &meter{measure.Instrument{Compiler: refusing{}, Libtpu: "x", Scratch: t.TempDir()}}
	_, err = p.compare(t.Context(), "x 1 and 2.", "", m)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "cycles tiny token v6e: ")
	m.Compiler = cold{}
	c, err := p.compare(t.Context(), "x 1 and 2.", "", m)
	require.NoError(t, err)
	require.Equal(t, &comparison{left: 2, text: "x 1 and 2."}, c)
}

// What the compiler refuses has no figure any more: it is told with the reason, the others are compared, and the document keeps it.
func TestRefused(t *testing.T) {
	p, err := parsePassage("a.md\tx {cycles tiny token v6e} and {kept train auto v6e}.")
	require.NoError(t, err)
	m := &meter{measure.Instrument{Compiler: rejecting{}, Libtpu: "x", Scratch: t.TempDir()}}
	c, err := p.compare(t.Context(), "x 1 and 2.", "", m)
	require.NoError(t, err)
	require.Equal(t, 1, c.refused)
	require.Equal(t, "x 1 and 768.", c.text)
	require.Len(t, c.differ, 2)
	require.Contains(t, c.differ[0].is, "log2")
	require.NotContains(t, c.differ[0].is, "\n")
}

// rejecting is a compiler that can not compile a program.
type rejecting struct{}

func (rejecting) Compile(context.Context, aot.Request) (*aot.Result, error) {
	return nil, &aot.RejectError{Code: 13, Msg: "failed to legalize operation 'math.log2'\nat location: x"}
}

// Sums, public kernels and errors are figures too: one over another holds a ratio.
func TestSums(t *testing.T) {
	m := &meter{}
	x, err := m.value(t.Context(), "peer token MaxText-PR-4348-chunk-128 v6e + peer token MaxText-PR-4348-chunk-128 v6e / peer token MaxText-PR-4376 v6e")
	require.NoError(t, err)
	require.InDelta(t, 2*13.7/15.3, x, 1e-9)
	_, err = m.value(t.Context(), "peer in-order-token MaxText-PR-4376 v6e")
	require.ErrorContains(t, err, "has no in-order-token on v6e")
	both, err := m.value(t.Context(), "error tiny default v6e random rms")
	require.NoError(t, err)
	o, err := m.value(t.Context(), "error tiny default v6e random rms o")
	require.NoError(t, err)
	state, err := m.value(t.Context(), "error tiny default v6e random rms final_state")
	require.NoError(t, err)
	require.Positive(t, state)
	require.Equal(t, max(o, state), both)
}

// A passage is found whatever its figures are, and they are written with the digits that they had.
func TestPassage(t *testing.T) {
	const whole, ratio = "kept train auto v6e", "kept train auto v6e / kept train auto v6e"
	p, err := parsePassage("a.md\t| x | {" + whole + "} B | {" + ratio + "} |")
	require.NoError(t, err)
	m := &meter{}
	c, err := p.compare(t.Context(), "before | x | 7 B | .50 | after", "", m)
	require.NoError(t, err)
	require.Equal(t, []figure{{whole, "7", "768"}, {ratio, ".50", "1.00"}}, c.differ)
	require.Equal(t, "before | x | 768 B | 1.00 | after", c.text)
	c, err = p.compare(t.Context(), c.text, "", m)
	require.NoError(t, err)
	require.Empty(t, c.differ)
	c, err = p.compare(t.Context(), "| x | 7 B | .50 |", " / ", m)
	require.NoError(t, err)
	require.Equal(t, "| x | 7 B | 1.00 |", c.text, "the figures asked for")
	require.Equal(t, 1, c.left)
	c, err = p.compare(t.Context(), "| x | 7\n  B | 1.00 |", "", m)
	require.NoError(t, err)
	require.Equal(t, "| x | 768\n  B | 1.00 |", c.text, "wherever its lines are wrapped")
	_, err = p.compare(t.Context(), "| x | 7 B | 8 |\n| x | 7 B | 8 |", "", m)
	require.ErrorContains(t, err, "2 times in the document")
	for text, want := range map[string]string{
		"a.md":                                   "want a document, a tab and a text",
		"a.md\tno figure":                        "no figure in braces",
		"a.md\t{token bench auto}":               "want QUANTITY SPEC VARIANT TARGET",
		"a.md\t{token bench auto v99}":           `unknown target "v99"`,
		"a.md\t{mfu time 130m v6e rule norm up}": "is no pass",
		"a.md\t{mfu time 130m v6e all}":          "want mfu FIELD MODEL TARGET KIND PART PASS",
		"a.md\t{error bench auto v6e random l2}": "want error SPEC VARIANT TARGET CLASS KIND",
		"a.md\t{error bench auto v6e beta2 rms}": "beta2",
		"a.md\t{peer token nobody v6e}":          `no public kernel "nobody" has figures (known: tokamax-`,
	} {
		_, err := parsePassage(text)
		require.ErrorContains(t, err, want)
	}
	for stated, want := range map[string]string{"1.58": "0.05", "7": "0", ".5": ".1", "1.2e-2": "5.1e-2", "3e-4": "5e-2"} {
		require.Equal(t, want, like(stated, .0514))
	}
}
