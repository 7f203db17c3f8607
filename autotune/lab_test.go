package autotune

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// lab opens a real evaluator.
func lab(t *testing.T, o LabOptions) *Lab {
	l, err := NewLab(t.Context(), o)
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func spec(t *testing.T, text string) gdn.Spec {
	s, err := gdn.Parse(text)
	require.NoError(t, err)
	return s
}

// A small search through every real gate: structures with costs, the whole-chunk series rejected by their numbers, the
// same integers in a second run.
func TestRealSearch(t *testing.T) {
	c := Config{Spec: spec(t, "b=1,t=64,hk=1,hv=2,k=128,v=128,dtype=bf16"), Targets: []string{"v6e"}, Dir: t.TempDir(), Strategy: "exhaustive",
		Seeds: []string{"forward,chunk=8,prec=bf16x1", "neumann", "newton", "forward,chunk=8,prec=bf16x1,heads=2", "merge-rows,chunk=16,leaf=8,prec=bf16x1"}, Candidates: 4, Evaluator: lab(t, LabOptions{})}
	sum, err := Search(t.Context(), c)
	require.NoError(t, err)
	s, _, err := journal.Read(c.Dir, nil)
	require.NoError(t, err)
	all := s.Now().Candidates()
	require.Len(t, all, 4) // heads=2 is all heads: that seed is known already
	var verdicts []journal.Verdict
	for _, k := range all {
		t.Log(k.Verdict, k.Variant, k.Reason)
		verdicts = append(verdicts, k.Verdict)
	}
	require.True(t, verdicts[0].Ranked())
	require.Equal(t, journal.Numerics, verdicts[1])
	require.Equal(t, journal.Numerics, verdicts[2])
	require.Contains(t, all[1].Reason, "on identical inputs")
	require.Greater(t, float64(all[1].Worst().Error), 1e3)
	first := all[0]
	seen := map[string]map[string]bool{}
	for _, e := range first.Errors {
		if seen[e.Engine] == nil {
			seen[e.Engine] = map[string]bool{}
		}
		seen[e.Engine][e.Class+e.Kind] = true
	}
	require.Len(t, seen["interp"], 3*len(tinyClasses), "rms, max and bias")
	require.Len(t, seen["kernels"], 3*len(exam.Supported(c.Spec)))
	require.Len(t, seen["cpu"], 3*len(exam.Supported(c.Spec)))
	for _, e := range first.Errors {
		require.LessOrEqual(t, e.Use(), 1., e.Class)
	}
	cost := first.Cost("v6e")
	require.NotNil(t, cost)
	require.Greater(t, cost.Cycles, measure.Least(c.Spec, gdn.DefaultVariant(), mustTarget(t, "v6e")))
	require.InDelta(t, float64(cost.Score)/128, float64(cost.PerToken), 1e-9)
	require.Equal(t, journal.Wall, cost.Ruler)
	require.Greater(t, cost.Wall, cost.Cycles)
	require.Equal(t, cost.Wall, cost.Score, "its traffic takes less")
	for _, role := range []string{"ir", "module/v6e", "schedule/v6e"} {
		require.Contains(t, first.Objects, role)
	}
	text, err := Object(c.Dir, first.Objects["module/v6e"])
	require.NoError(t, err)
	require.Contains(t, string(text), "tpu_custom_call")
	requireVerified(t, c.Dir)

	again := c
	again.Dir = t.TempDir()
	again.Candidates = 1
	_, err = Search(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, decisions(t, c.Dir)[:2], decisions(t, again.Dir))
	require.NotEmpty(t, sum.Rankings[0].Rows)
}

func mustTarget(t *testing.T, name string) *codegen.Target {
	x, err := codegen.LookupTarget(name)
	require.NoError(t, err)
	return x
}

// workOn is a candidate as the driver makes it.
func workOn(t *testing.T, s gdn.Spec, variant string) *Work {
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	state := journal.NewState()
	return &Work{Spec: s, Shapes: []Shape{{s, 1}}, Targets: []*codegen.Target{mustTarget(t, "v6e")}, Variant: v, Known: state.Now(),
		Record: &journal.Candidate{ID: 1}, Objects: map[string][]byte{}, Wall: map[string]float64{}}
}

// Variants that the guard calls unsafe are refused by the numbers alone, and safe ones pass, in the interpreter.
func TestNumericsByInterpreter(t *testing.T) {
	l := &Lab{}
	s := spec(t, "b=1,t=300,hk=1,hv=2,k=32,v=32,dtype=f32")
	for variant, want := range map[string]journal.Verdict{
		"default":                            "",
		"ladder":                             "",
		"merge-newton,prec=f32":              "",
		"bf16x3":                             "",
		"token":                              "",
		"neumann":                            journal.Numerics,
		"newton":                             journal.Numerics,
		"neumann,prec=bf16x1":                journal.Numerics,
		"neumann,chunk=32":                   journal.Numerics,
		"leaf=32,leafby=neumann":             journal.Numerics,
		"leaf=16,leafby=neumann,prec=bf16x3": journal.Numerics,
	} {
		w := workOn(t, s, variant)
		require.Equal(t, want == journal.Numerics, w.Variant.Unsafe(s) != "", variant)
		r, err := l.interpret(t.Context(), w)
		require.NoError(t, err)
		if r == nil {
			r, err = l.kernels(w)
			require.NoError(t, err)
			require.Len(t, w.Record.Errors, 3*(len(tinyClasses)+len(exam.Supported(s))))
		}
		if want == "" {
			require.Nil(t, r, variant)
		} else {
			require.NotNil(t, r, variant)
			require.Equal(t, want, r.Verdict, variant)
		}
	}
}

// Only what would be kept or held is examined further, what would be kept at length and on the CPU; without a CPU that is noted.
func TestOnCPU(t *testing.T) {
	s := spec(t, "b=1,t=128,hk=1,hv=2,k=32,v=32,dtype=f32")
	state := journal.NewState()
	add := func(kind journal.Kind, body any) {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		require.NoError(t, state.Add(journal.Record{Kind: kind, Body: text}))
	}
	score := func(n int64) []journal.Cost { return []journal.Cost{{Target: "v6e", Score: n, Schedule: "s"}} }
	add(journal.KindHeader, journal.Header{Format: journal.Format, Targets: []string{"v6e"}, Lookahead: 1})
	add(journal.KindCandidate, journal.Candidate{ID: 1, Verdict: journal.Keep, Costs: score(100)})
	for cost, examined := range map[int64][2]bool{90: {true, true}, 105: {true, false}, 300: {}} {
		w := workOn(t, s, "default")
		w.Known, w.Record.Costs = state.Now(), score(cost)
		r, err := (&Lab{noCPU: "the test has none"}).onCPU(t.Context(), w)
		require.NoError(t, err)
		require.Nil(t, r)
		require.Equal(t, examined[1], len(w.Record.Notes) == 1)
		require.Equal(t, examined[0], slices.Contains(engines(w), "kernels"), "in the interpreter at least")
		require.Equal(t, examined[1], slices.Contains(engines(w), "long"))
	}
	l := lab(t, LabOptions{Workers: 1})
	for variant, want := range map[string]journal.Verdict{"default": "", "neumann": journal.Numerics} {
		w := workOn(t, s, variant)
		w.Known, w.Record.Costs, w.examined = state.Now(), score(90), true
		r, err := l.onCPU(t.Context(), w)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, r)
			require.Equal(t, []string{"kernels", "cpu", "long"}, engines(w))
		} else {
			require.Equal(t, want, r.Verdict)
		}
	}
}

// engines lists what a candidate was examined by.
func engines(w *Work) []string {
	var l []string
	for _, e := range w.Record.Errors {
		l = append(l, e.Engine)
	}
	return slices.Compact(l)
}

// What the compiler answers to bad modules is a verdict; that it can not be reached is none.
func TestCompileVerdicts(t *testing.T) {
	l := lab(t, LabOptions{Workers: 1, Timeout: 20 * time.Second})
	s := spec(t, "tiny")
	for want, text := range map[journal.Verdict]string{
		journal.CompileReject: "module { nonsense }",
		journal.Crash: `module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
			%0 = func.call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>
			return %0 : tensor<2xf32> } }`,
	} {
		w := workOn(t, s, "default")
		w.artifacts().programs = []*measure.Program{measure.Foreign("test", text)}
		r, err := l.compile(t.Context(), w)
		require.NoError(t, err)
		require.NotNil(t, r)
		require.Equal(t, want, r.Verdict)
		require.Contains(t, r.Reason, "v6e: ")
	}
	w := workOn(t, s, "default")
	w.artifacts().programs = []*measure.Program{measure.Foreign("test", "module {}")}
	w.Targets[0] = &codegen.Target{Name: "v9", Topology: "v9:1x1"}
	_, err := l.compile(t.Context(), w)
	require.ErrorContains(t, err, "v9")
}

// Kernels of packed sequences steer by tables: their cost in a search is the integer that a command states.
func TestPackedCost(t *testing.T) {
	l := lab(t, LabOptions{Workers: 1})
	s := spec(t, "t=130,hk=1,hv=2,k=128,v=128,dtype=bf16,seqs=3,init,packed")
	w := workOn(t, s, "tpu-packed,chunks=1")
	for _, g := range l.Gates() {
		if !slices.Contains([]string{"legality", "build", "emit", "compile", "cost"}, g.Name) {
			continue
		}
		r, err := judge(t.Context(), g, w)
		require.NoError(t, err)
		require.Nil(t, r, "%v", r)
	}
	route, err := lower.Lookup("mosaic")
	require.NoError(t, err)
	p, err := measure.Of(lower.NewForm(s, w.Variant), route)
	require.NoError(t, err)
	made, err := l.instrument(<-l.compilers).Static(t.Context(), p, w.Targets[0], measure.Options{})
	require.NoError(t, err)
	require.Positive(t, made.Report.Cycles)
	require.Equal(t, made.Report.Cycles, w.Record.Cost("v6e").Cycles)
}

// The verdicts of the instrument are those of the journal.
func TestMeasuredVerdicts(t *testing.T) {
	for _, v := range []measure.Verdict{measure.Invalid, measure.EmitError, measure.VMEM, measure.CompileReject, measure.CostUnknown, measure.Timeout, measure.Crash, measure.Internal} {
		require.True(t, journal.Verdict(v).Known(), v)
	}
}

// A target without room leaves the candidate to the others; only where no target takes it, it is refused.
func TestVMEM(t *testing.T) {
	l := lab(t, LabOptions{Workers: 1})
	small, big := *mustTarget(t, "v6e"), mustTarget(t, "v6e")
	small.Name, small.VMEM = "small", 1<<16
	for _, targets := range [][]*codegen.Target{{&small}, {&small, big}} {
		w := workOn(t, spec(t, "b=1,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16"), "merge-packed,prec=bf16x1")
		w.Targets = targets
		var r *Refusal
		for _, g := range l.Gates() {
			if slices.Contains([]string{"interpret", "numerics", "cpu"}, g.Name) {
				continue
			}
			var err error
			r, err = judge(t.Context(), g, w)
			require.NoError(t, err)
			if r != nil {
				break
			}
		}
		require.Equal(t, journal.VMEM, w.Record.Costs[0].Verdict)
		if len(targets) == 1 {
			require.Equal(t, journal.VMEM, r.Verdict)
			require.True(t, strings.HasPrefix(r.Reason, "small: "))
			continue
		}
		require.Nil(t, r)
		require.Positive(t, w.Record.Cost("v6e").Cycles)
	}
}

// A missing libtpu is an error that says how to mend it, before anything is judged.
func TestNoCompiler(t *testing.T) {
	_, err := NewLab(t.Context(), LabOptions{TPU: plugins.Options{Path: "/does/not/exist.so"}})
	var missing *plugins.MissingError
	require.ErrorAs(t, err, &missing)
}

// best are the variants that are asked first for a spec, whether they fit memory or not.
func best(t *testing.T, s gdn.Spec, least string) []gdn.Variant {
	t.Helper()
	var list []gdn.Variant
	for _, name := range []string{"v5e", "v6e"} {
		choices, err := gdn.Choices(promoted.Class(least).Text(), s, gdn.HostTPU, mustTarget(t, name).Machine())
		require.NoError(t, err)
		list = append(list, choices[0].Variant)
	}
	return list
}

// Seeds are the named variants that are legal, each program once, and the best known.
func TestDefaultSeeds(t *testing.T) {
	targets := []*codegen.Target{mustTarget(t, "v5e"), mustTarget(t, "v6e")}
	for _, preset := range gdn.Presets {
		s := spec(t, preset.Name)
		seeds := DefaultSeeds(s, "bf16x1", best(t, s, "bf16x1"))
		programs := map[gdn.Variant]bool{}
		cells := map[string]bool{}
		negative := 0
		for i, text := range seeds {
			v, err := gdn.ParseVariant(text)
			require.NoError(t, err)
			require.False(t, programs[v.Fit(s)], text)
			programs[v.Fit(s)] = true
			require.NotEqual(t, "seed given by the user", seedDoc(v, s, targets), text)
			if v.Solve == gdn.SolveNeumann || v.Solve == gdn.SolveNewton {
				negative++
				require.Less(t, i, 9, "the negative examples are early")
			} else {
				require.Empty(t, v.Unsafe(s), text)
			}
			cells[v.Cell()] = true
		}
		require.Equal(t, 2, negative)
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			require.NoError(t, err)
			if v.Check(s) == nil && v.Precision() != ir.PrecF32 {
				require.True(t, programs[v.Fit(s)], n.Name)
			}
		}
		for _, text := range DefaultSeeds(s, "f32", best(t, s, "f32")) {
			v, err := gdn.ParseVariant(text)
			require.NoError(t, err)
			require.True(t, strategy.Reaches(v.Precision().String(), "f32"))
		}
		require.Greater(t, len(cells), 16)
	}
}

// The best known for a spec are tried after what is made for bf16 and before all else with a pipeline.
func TestSeedsForSpec(t *testing.T) {
	for preset, name := range map[string]string{"bench": "tpu-long,fetch=copies,main=yes,rest=value", "train": "tpu-train-long", "contest-prefill": "tpu-packed,fetch=copies,main=yes"} {
		s := spec(t, preset)
		seeds := DefaultSeeds(s, "bf16x1", best(t, s, "bf16x1"))
		at := func(name string) int {
			v, err := gdn.ParseVariant(name)
			require.NoError(t, err)
			return slices.Index(seeds, v.String())
		}
		require.Positive(t, at(name))
		require.Less(t, at(name), at("tpu"))
		require.Less(t, at("bf16"), at(name))
	}
}

// The user's champions are among the seeds where they hold, by default and as part of auto, and the header has their digest.
func TestSeedsPromoted(t *testing.T) {
	s := spec(t, "contest-decode")
	own, err := gdn.ParseVariant("decode,lock=2")
	require.NoError(t, err)
	row := promoted.Row{Spec: s.String(), Target: "v6e", Accuracy: "fast", Variant: own.String(), Cycles: 1, Libtpu: "x", Run: "r", Candidate: 1, Date: "2026-01-31"}
	header := func(c Config) journal.Header {
		c.Spec, c.Targets, c.Warn = s, []string{"v6e"}, func(string) {}
		h, err := c.header(&fake{})
		require.NoError(t, err)
		return h
	}
	require.Empty(t, header(Config{}).Promoted)
	for _, seeds := range [][]string{nil, {"auto"}} {
		h := header(Config{Seeds: seeds, Promoted: []promoted.Row{row}})
		require.Contains(t, h.Seeds, own.String())
		require.Equal(t, promoted.Digest([]promoted.Row{row}), h.Promoted)
	}
	h := header(Config{Precision: "f32", Promoted: []promoted.Row{row}})
	require.Empty(t, h.Promoted, "less precise than the search")
	require.NotContains(t, h.Seeds, own.String())
	row.Target = "v5e"
	require.Empty(t, header(Config{Promoted: []promoted.Row{row}}).Promoted, "of another target")
}

// auto among the seeds stands for the best known on each target.
func TestSeedsByText(t *testing.T) {
	c := Config{Spec: spec(t, "contest-decode"), Seeds: []string{"naive", "auto", "decode,lock=2"}}
	seeds, reserve, err := c.seeds("bf16x1", []string{"v5e", "v6e"}, nil)
	require.NoError(t, err)
	var want []string
	for _, text := range []string{"naive", "decode", "decode,lock=2"} {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		want = append(want, v.String())
	}
	require.Equal(t, want, seeds)
	require.NotContains(t, reserve, want[0])
	require.Greater(t, len(reserve), 10)
}

// The shrunk specs hold more than one grid step, and the variant is legal for them.
func TestShrink(t *testing.T) {
	for _, preset := range gdn.Presets {
		s := spec(t, preset.Name)
		for _, text := range DefaultSeeds(s, "bf16x1", best(t, s, "bf16x1")) {
			v, err := gdn.ParseVariant(text)
			require.NoError(t, err)
			for _, small := range []gdn.Spec{tiny(s, v), moderate(s, v)} {
				require.NoError(t, v.Check(small), "%s by %s", small, v)
				require.Equal(t, s.Groups(), small.Groups())
				f, g := v.Fit(s), v.Fit(small)
				require.Equal(t, f.Chunk, g.Chunk, "%s by %s", small, v)
				if s.Tokens > 600 && s.Seqs == 0 {
					require.Greater(t, small.Tokens, g.Chunk*g.Chunks)
				}
			}
		}
	}
}
