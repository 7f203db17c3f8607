package ladder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/autotune/report"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/pjrttest"
)

func TestMain(m *testing.M) {
	device.RunWorkerIfAsked()
	os.Exit(m.Run())
}

// stages makes parts from pairs of a name and a number of cycles.
func stages(l ...any) (s []journal.Stage) {
	for i := 0; i < len(l); i += 2 {
		s = append(s, journal.Stage{Name: l[i].(string), Cycles: int64(l[i+1].(int))})
	}
	return s
}

// side is a cost in in-order cycles.
func side(score int64, s ...any) Side {
	return Side{Cost: journal.Cost{Target: "v6e", Ruler: ruler.InOrder, Wall: score, Score: score, Stages: stages(s...)}}
}

// fake gives figures by the names of rungs, and counts what it is asked.
type fake struct {
	figures map[string]Figures
	asked   []string
	fail    string // the rung at which the machinery fails
}

func (x *fake) Figures(_ context.Context, _ *Config, r Rung) (*Figures, error) {
	x.asked = append(x.asked, r.Name())
	if x.fail == r.Name() {
		return nil, errors.New("no space left on the device")
	}
	f, ok := x.figures[r.Name()]
	if !ok {
		f = Figures{Base: side(1000), Candidate: side(500)}
	}
	f.Unit = "cycles"
	return &f, nil
}

func config(t *testing.T) Config {
	t.Helper()
	layer, err := model.Preset("layer")
	require.NoError(t, err)
	whole, err := model.Preset("130m")
	require.NoError(t, err)
	return Config{Kernel: "bench", Base: "merge-packed", Variant: "tpu-long", Target: "v6e", Layer: &layer, Model: &whole, MinGain: .01, MaxRegression: .01, Repeat: 12, Seed: 7,
		Guards: []Guard{{"bench,direction=train", "v6e", .01}}}
}

// TestMissing has one case of each missing piece, and of each way to end.
func TestMissing(t *testing.T) {
	ruled := func(s Side, rule int64) Side {
		s.Rule = rule
		return s
	}
	kernels := func(s Side, n int) Side {
		s.Kernels = n
		return s
	}
	layers := func(s Side, apart, one int64) Side {
		s.Separate, s.Whole = apart, one
		return s
	}
	refused := func(v journal.Verdict, reason string) Side {
		return Side{Cost: journal.Cost{Target: "v6e", Verdict: v, Reason: reason}}
	}
	bound := side(700, "dots", 700)
	bound.HBM = 700
	glued := side(1100, "dots", 800, "(copy)", 300)
	glued.XLA = 300
	spilled := side(1100, "dots", 1100)
	spilled.Spills = 100
	for name, x := range map[string]struct {
		rung     string
		figures  Figures
		outcome  Outcome
		decision Decision
		cause    journal.Cause
		evidence string
	}{
		"wrong bottleneck, by Amdahl": {"layer", Figures{Base: ruled(side(100_000, "project in", 90_000, "rule", 1000), 1000), Candidate: ruled(side(99_500, "project in", 90_000, "rule", 500), 500)},
			Unmoved, Revert, journal.CauseBottleneck, "the rule is 1.0 % of the layer: a gain of 50.0 % in it can save 0.50 % at most, 1 % is asked; project in (90 %) takes most"},
		"wrong bottleneck, slower": {"kernel", Figures{Base: side(1000, "dots", 1000), Candidate: side(1100, "dots", 1100)}, Lost, Revert, journal.CauseBottleneck, "dots takes 100 cycles more"},
		"local win": {"layer", Figures{Base: ruled(side(1000, "rule forward", 500, "rule backward", 500), 600), Candidate: ruled(side(1000, "rule forward", 300, "rule backward", 700), 600)},
			Unmoved, Revert, journal.CauseLocal, "rule forward takes 200 cycles less on v6e, but rule backward 200 more: a local win, a loss of the system"},
		"legality":                        {"layer", Figures{Base: side(1000), Candidate: refused(journal.Invalid, "heads=16 does not divide 8 heads")}, Refused, Revert, journal.CauseLegality, "does not divide"},
		"legality of shapes held out":     {"correct", Figures{Base: side(1000), Candidate: refused(journal.Invalid, "legal for bench, not for bench,t=1")}, Refused, Revert, journal.CauseLegality, "t=1"},
		"correctness on what is held out": {"correct", Figures{Base: side(1000), Candidate: refused(journal.Numerics, "o is off")}, Refused, Revert, journal.CauseNumerics, "o is off"},
		"compile instability, a crash":    {"model", Figures{Base: side(1000), Candidate: refused(journal.Crash, "libtpu died")}, Refused, Revert, journal.CauseUnstable, "libtpu died"},
		"compile instability, programs": {"model", Figures{Base: kernels(side(1000), 9), Candidate: kernels(side(1000), 11)}, Unmoved, Revert, journal.CauseUnstable,
			"a step compiles 11 distinct kernels instead of 9"},
		"compile instability, spills": {"kernel", Figures{Base: side(1000, "dots", 1000), Candidate: spilled}, Lost, Revert, journal.CauseUnstable, "100 register spills"},
		"memory path":                 {"layer", Figures{Base: side(700, "dots", 700), Candidate: bound}, Unmoved, Revert, journal.CauseMemory, "HBM is what limits"},
		"memory path, vector memory":  {"layer", Figures{Base: side(700), Candidate: refused(journal.VMEM, "17 MiB of 16")}, Refused, Revert, journal.CauseMemory, "17 MiB"},
		"fusion boundary, XLA ops":    {"kernel", Figures{Base: side(1000, "dots", 1000), Candidate: glued}, Lost, Revert, journal.CauseFusion, "300 cycles more outside of kernels"},
		"fusion boundary, one module": {"layer", Figures{Base: layers(side(1000), 700, 600), Candidate: layers(side(1100), 500, 700)}, Lost, Revert, journal.CauseFusion,
			"apart, the parts of the layers take 200 cycles less; in one module 100 more"},
		"nothing new": {"kernel", Figures{Base: side(1000), Candidate: side(1000), Same: true}, Unmoved, Revert, journal.CauseRepeated, "one program"},
		"too little":  {"model", Figures{Base: side(1000, "dots", 1000), Candidate: side(995, "dots", 995)}, Unmoved, Revert, journal.CauseBottleneck, "0.50 % less, and 1 % is asked"},
		"a guard lost": {"guard bench,direction=train@v6e", Figures{Base: side(1000, "dots", 1000), Candidate: side(1020, "dots", 1020)}, Lost, Revert, journal.CauseBottleneck,
			"dots takes 20 cycles more"},
		"measured, undecided": {"layer", Figures{Base: side(1000), Candidate: side(970), Ratio: .97, Low: .95, High: 1.02, Pairs: 12}, Undecided, Inconclusive, "", "more pairs may tell"},
		"measured, slower": {"layer", Figures{Base: side(1000, "dots", 1000), Candidate: side(1050, "dots", 1050), Ratio: 1.05, Low: 1.02, High: 1.06, Pairs: 12}, Lost, Revert,
			journal.CauseBottleneck, "dots takes 50"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fake{figures: map[string]Figures{x.rung: x.figures}}
			climb, err := Run(t.Context(), t.TempDir(), config(t), e, nil)
			require.NoError(t, err)
			require.Equal(t, x.rung, climb.Last().Rung, "nothing above it is tried")
			require.Equal(t, x.outcome, climb.Last().Outcome)
			require.Equal(t, x.decision, climb.Decision)
			require.Equal(t, x.cause, climb.Missing, climb.Reason)
			require.Contains(t, climb.Reason, x.evidence)
			require.Equal(t, x.rung, e.asked[len(e.asked)-1])
			var b strings.Builder
			climb.Write(&b)
			require.Contains(t, b.String(), string(x.decision)+"; ")
		})
	}
}

func TestKeep(t *testing.T) {
	c := config(t)
	c.Goal = .5
	e := &fake{figures: map[string]Figures{"model": {Base: Side{Cost: side(1000).Cost, MFU: .2}, Candidate: Side{Cost: side(800).Cost, Rule: 200, MFU: .25}}}}
	climb, err := Run(t.Context(), t.TempDir(), c, e, nil)
	require.NoError(t, err)
	require.Equal(t, Keep, climb.Decision)
	require.Equal(t, []string{"correct", "kernel", "layer", "model", "guard bench,direction=train@v6e"}, e.asked)
	require.Equal(t, "25.0 % of 50.0 % is reached; were the rule free of the time that it takes alone, it would be 33.3 %", climb.Goal)
}

// TestResume: a climb that stopped goes on, asks nothing twice, and says the same in the end.
func TestResume(t *testing.T) {
	dir, c := t.TempDir(), config(t)
	c.Seed = 0
	e := &fake{fail: "layer"}
	_, err := Run(t.Context(), dir, c, e, nil)
	require.ErrorContains(t, err, "no space left")
	require.Equal(t, []string{"correct", "kernel", "layer"}, e.asked)

	path := filepath.Join(dir, JournalName)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"rung":"layer","outc`) // a kill cut it
	require.NoError(t, err)
	require.NoError(t, f.Close())

	e = &fake{}
	climb, err := Run(t.Context(), dir, c, e, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"layer", "model", "guard bench,direction=train@v6e"}, e.asked)
	require.Equal(t, Keep, climb.Decision)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	e = &fake{}
	again, err := Run(t.Context(), dir, c, e, nil)
	require.NoError(t, err)
	require.Empty(t, e.asked)
	require.Equal(t, climb.Reason, again.Reason)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), string(after), "a climb that is over gets no records")

	c.Variant = "naive"
	_, err = Run(t.Context(), dir, c, e, nil)
	require.ErrorContains(t, err, "holds another climb, of tpu-long against merge-packed")
}

func TestBook(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, JournalName)
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o644))
	_, err := Run(t.Context(), dir, config(t), &fake{}, nil)
	require.ErrorContains(t, err, "no journal of a ladder")
	require.NoError(t, os.WriteFile(path, []byte("nonsense\n"), 0o644))
	_, err = Run(t.Context(), dir, config(t), &fake{}, nil)
	require.ErrorContains(t, err, "damaged at line 1")
}

func TestParse(t *testing.T) {
	g, err := ParseGuard("bench,t=1024@v5e=2%", .01)
	require.NoError(t, err)
	require.Equal(t, .02, g.Share)
	g, err = ParseGuard("bench@v6e", .01)
	require.NoError(t, err)
	require.Equal(t, .01, g.Share)
	for _, text := range []string{"bench", "@v6e", "bench@v9", "nonsense@v6e", "bench@v6e=x"} {
		_, err := ParseGuard(text, .01)
		require.Error(t, err, text)
	}
	c, err := Read(strings.NewReader(`{"base": "naive", "variant": "auto", "kernel": "tiny"}`))
	require.NoError(t, err)
	require.Equal(t, "v6e", c.Target)
	require.NotZero(t, c.Seed)
	for text, fault := range map[string]string{`{"base": "naive"}`: "two variants", `{"bass": 1}`: "unknown field", `{"base":"a","variant":"b","target":"v9"}`: "v9", `{"base":"a","variant":"b","repeat":-1}`: "pairs"} {
		_, err := Read(strings.NewReader(text))
		require.ErrorContains(t, err, fault)
	}
	for text, want := range map[string]float64{"": 0, "mfu=50%": .5, ".4": .4} {
		x, err := ParseGoal(text)
		require.NoError(t, err)
		require.Equal(t, want, x)
	}
	_, err = ParseGoal("mfu=200%")
	require.Error(t, err)
}

func TestDefaultGuards(t *testing.T) {
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	targets, err := target.Parse("v6e,v5e")
	require.NoError(t, err)
	l := DefaultGuards(s, "v6e", targets, .01)
	require.Len(t, l, 2)
	require.Equal(t, "v5e", l[0].Target)
	require.Contains(t, l[1].Spec, "train")
	s.Direction = gdn.Train
	require.Len(t, DefaultGuards(s, "v6e", targets, .01), 1)
}

// TestHeldOut: the shapes follow from the seed, are legal, and hold numbers of tokens that fill no chunk.
func TestHeldOut(t *testing.T) {
	for _, text := range []string{"bench", "decode", "train", "contest-prefill", "tiny"} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		l := heldOut(s, 5)
		require.NotEmpty(t, l, text)
		require.Equal(t, l, heldOut(s, 5))
		for _, x := range l {
			require.NoError(t, x.Validate())
			require.NotZero(t, x.Tokens%64, x)
		}
	}
}

// TestHoldOut: a candidate that is right passes; one with a series that identical keys break does not.
func TestHoldOut(t *testing.T) {
	c := config(t)
	for variant, want := range map[string]journal.Verdict{"merge-packed": "", "neumann": journal.Numerics} {
		s, err := gdn.Parse("tiny")
		require.NoError(t, err)
		v, err := gdn.ParseVariant(variant)
		require.NoError(t, err)
		f := &Figures{Base: Side{Variant: "naive"}, Candidate: Side{Variant: v.String()}}
		require.NoError(t, holdOut(t.Context(), &c, Rung{Kind: Correct, Spec: s.String(), Target: "v6e"}, f))
		require.Equal(t, want, f.Candidate.Verdict, f.Candidate.Reason)
		if want != "" {
			require.Contains(t, f.Candidate.Reason, "which was held out")
		}
	}
}

// TestMeasured times kernel and layer on the CPU, base and candidate in turn.
func TestMeasured(t *testing.T) {
	d, err := device.Open(t.Context(), device.Options{Plugin: pjrttest.CPUPlugin(t), Emit: route.Text})
	require.NoError(t, err)
	defer d.Close()
	small, err := model.Read(strings.NewReader(`{"name": "small", "hidden": 32, "layers": 1, "attention_every": 0, "mlp": 0, "vocab": 0, "batch": 1, "tokens": 32,
		"rule": {"heads_k": 1, "heads_v": 2, "k": 16, "v": 16, "conv": 4}, "attention": {"heads": 1, "heads_kv": 1, "dim": 16}}`))
	require.NoError(t, err)
	c := config(t)
	c.Kernel, c.Base, c.Variant, c.Layer, c.Repeat, c.Forward = "tiny", "ladder16", "merge-packed", &small, 6, true
	x := &Measured{Device: d}
	for _, r := range []Rung{{Kind: Kernel, Spec: "tiny", Target: "v6e"}, {Kind: Layer, Model: &small, Target: "v6e"}} {
		f, err := x.Figures(t.Context(), &c, r)
		require.NoError(t, err)
		require.Equal(t, 6, f.Pairs)
		require.Positive(t, f.Base.Score)
		require.Positive(t, f.Candidate.Score)
		require.True(t, 0 < f.Low && f.Low <= f.Ratio && f.Ratio <= f.High)
		require.Positive(t, f.Base.Rule)
		if r.Kind == Layer {
			require.Len(t, f.Base.Stages, len(mfu.Modules(small, true)))
			require.False(t, slices.ContainsFunc(f.Base.Stages, func(s journal.Stage) bool { return strings.HasPrefix(s.Name, "rule, rule") }), "it is within the layer")
		}
	}
	c.Variant = "chunk=7,nonsense=1"
	f, err := x.Figures(t.Context(), &c, Rung{Kind: Kernel, Spec: "tiny", Target: "v6e"})
	require.NoError(t, err)
	require.Equal(t, journal.Invalid, f.Candidate.Verdict)
	c.Base, c.Variant = "nonsense", "naive"
	_, err = x.Figures(t.Context(), &c, Rung{Kind: Kernel, Spec: "tiny", Target: "v6e"})
	base := (*BaseError)(nil)
	require.ErrorAs(t, err, &base)
}

// TestCarried: a program of a layer has as many heads as that of the kernel.
func TestCarried(t *testing.T) {
	c := config(t)
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	for text, want := range map[string]string{"merge-packed": "merge-packed,heads=8", "merge-packed,heads=2": "merge-packed,heads=2", "auto": "auto", "nonsense": "nonsense", "naive": "naive,heads=1"} {
		require.Equal(t, want, carried(&c, text, *c.Layer, v6e))
	}
	require.Equal(t, "merge-packed", carried(&c, "merge-packed", *c.Model, v6e), "a model of 8 heads")
}

// TestChampions: the last champions of a search climb, each once, and one without a program there says why.
func TestChampions(t *testing.T) {
	dir := t.TempDir()
	j, _, err := journal.Open(dir)
	require.NoError(t, err)
	require.NoError(t, j.Append(journal.KindHeader, journal.Header{Format: journal.Format, Spec: "bench", Targets: []string{"v6e"}, Ruler: ruler.InOrder, Lookahead: 1, Gates: []string{"verdict"}}))
	for i, variant := range []string{"naive", "merge", "merge-packed", "tpu-long"} {
		score := int64(1000 - 100*i)
		c := journal.Candidate{ID: i + 1, Variant: variant, Fitted: variant, Verdict: journal.Improved, Gate: "verdict",
			Costs: []journal.Cost{{Target: "v6e", Ruler: ruler.InOrder, Wall: score, Score: score, PerToken: journal.Figure(score), Schedule: variant}}}
		require.NoError(t, j.Append(journal.KindCandidate, c))
	}
	require.NoError(t, j.Close())
	layer, err := model.Preset("layer")
	require.NoError(t, err)
	e := &climber{none: "merge-packed"}
	for range 2 {
		require.NoError(t, Champions(t.Context(), dir, layer, true, e, func(string, ...any) {}))
	}
	require.Equal(t, []string{"merge", "merge-packed", "tpu-long"}, e.asked)
	l, err := report.ReadStandings(dir)
	require.NoError(t, err)
	require.Len(t, l, 3)
	require.Equal(t, journal.VMEM, l[1].Verdict)
	require.Equal(t, int64(500), l[2].Score)
}

// climber gives the base of a rung a score, but for one variant.
type climber struct {
	none  string
	asked []string
}

func (x *climber) Figures(_ context.Context, c *Config, r Rung) (*Figures, error) {
	x.asked = append(x.asked, c.Base)
	if c.Base == x.none {
		return nil, &BaseError{r.Name(), c.Base, "17 of 16 MiB", journal.VMEM}
	}
	return &Figures{Base: side(500)}, nil
}

// TestFigure: the time of the variant on the highest rung, after its numbers; the base of the comparison is not asked.
func TestFigure(t *testing.T) {
	c := config(t)
	e := &fake{figures: map[string]Figures{"model": {Base: side(700)}}}
	x, _, err := Figure(t.Context(), c, e)
	require.NoError(t, err)
	require.Equal(t, 700., x)
	require.Equal(t, []string{"correct", "kernel", "model"}, e.asked)
	e = &fake{figures: map[string]Figures{"model": {Base: Side{Cost: journal.Cost{Verdict: journal.VMEM, Reason: "17 of 16 MiB"}}}}}
	_, _, err = Figure(t.Context(), c, e)
	require.ErrorContains(t, err, "17 of 16 MiB")
}
