package judge

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir/target"
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

func mustTarget(t *testing.T, name string) *target.Target {
	x, err := target.Lookup(name)
	require.NoError(t, err)
	return x
}

// workOn is a candidate as the driver makes it.
func workOn(t *testing.T, s gdn.Spec, variant string) *Work {
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	state := journal.NewState()
	return &Work{Spec: s, Shapes: []Shape{{s, 1}}, Targets: []*target.Target{mustTarget(t, "v6e")}, Variant: v, Known: state.Now(),
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

// What would be kept, but lets one packed sequence change another, is refused before the rest of the final exam.
func TestContainedGate(t *testing.T) {
	l := &Lab{}
	s := spec(t, "t=8192,hk=4,hv=8,k=128,v=128,dtype=bf16,seqs=57,init,state=vk,empty=zero,packed")
	w := workOn(t, s, "tpu-packed,mask=select")
	r, err := l.final(w)
	require.NoError(t, err)
	require.NotNil(t, r)
	require.Equal(t, journal.Numerics, r.Verdict)
	require.Contains(t, r.Reason, "NaN in sequence")
	for spec, variant := range map[gdn.Spec]string{s: "tpu-packed", spec(t, "bench,b=2"): "tpu-long"} {
		r, err := l.contained(workOn(t, spec, variant))
		require.NoError(t, err)
		require.Nil(t, r)
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
	add(journal.KindCandidate, journal.Candidate{ID: 1, Verdict: journal.Improved, Costs: score(100)})
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
	w.Targets[0] = &target.Target{Name: "v9", Topology: "v9:1x1"}
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
		r, err := g.Ask(t.Context(), w)
		require.NoError(t, err)
		require.Nil(t, r, "%v", r)
	}
	way, err := route.Lookup("mosaic")
	require.NoError(t, err)
	p, err := measure.Of(route.NewForm(s, w.Variant), way)
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
	for _, targets := range [][]*target.Target{{&small}, {&small, big}} {
		w := workOn(t, spec(t, "b=1,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16"), "merge-packed,prec=bf16x1")
		w.Targets = targets
		var r *Refusal
		for _, g := range l.Gates() {
			if slices.Contains([]string{"interpret", "numerics", "cpu"}, g.Name) {
				continue
			}
			var err error
			r, err = g.Ask(t.Context(), w)
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

// The shrunk specs hold more than one grid step, and the variant is legal for them.
func TestShrink(t *testing.T) {
	for _, preset := range gdn.Presets {
		s := spec(t, preset.Name)
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			require.NoError(t, err)
			if v.Check(s) != nil {
				continue
			}
			for _, small := range []gdn.Spec{tiny(s, v), moderate(s, v)} {
				require.NoError(t, v.Check(small), "%s by %s", small, v)
				require.Equal(t, s.Groups(), small.Groups())
				f, g := v.Fit(s), v.Fit(small)
				require.Equal(t, f.Chunk, g.Chunk, "%s by %s", small, v)
				if s.Tokens > 600 && s.Seqs == 0 {
					require.Greater(t, small.Tokens, g.Chunk*g.Mapping.Chunks)
				}
			}
		}
	}
}

// What is best known of a training step passes the exam of the tiny spec, so that a search can reach it.
func TestTinyTraining(t *testing.T) {
	s := spec(t, "train")
	for _, target := range []string{"v5e", "v6e"} {
		f, err := route.Resolve(s, "auto", mustTarget(t, target), nil)
		require.NoError(t, err)
		r, err := (&Lab{}).interpret(t.Context(), workOn(t, s, f.Variant.String()))
		require.NoError(t, err)
		require.Nil(t, r, "%s: %s", target, f.Variant)
	}
}

// The costs of shapes are weighed in every figure.
func TestTally(t *testing.T) {
	l := lab(t, LabOptions{Workers: 1})
	one, two := spec(t, "b=1,t=64,hk=1,hv=1,k=128,v=128,dtype=bf16"), spec(t, "b=1,t=128,hk=1,hv=1,k=128,v=128,dtype=bf16")
	run := func(shapes ...Shape) journal.Cost {
		w := workOn(t, shapes[0].Spec, "merge-packed,prec=bf16x1")
		w.Shapes = shapes
		for _, g := range l.Gates() {
			switch g.Name {
			case "legality", "build", "emit", "compile", "cost":
				r, err := g.Ask(t.Context(), w)
				require.NoError(t, err)
				require.Nil(t, r)
			}
		}
		require.Empty(t, l.dumpFolders(), "schedules that are read are removed")
		return w.Record.Costs[0]
	}
	a, b := run(Shape{one, 1}), run(Shape{two, 1})
	both := run(Shape{one, 3}, Shape{two, 1})
	require.Equal(t, 3*a.Score+b.Score, both.Score)
	require.Equal(t, 3*a.XLA+b.XLA, both.XLA)
	require.Len(t, both.Shapes, 2)
	require.Equal(t, a.Schedule, both.Shapes[0].Schedule)
	require.InDelta(t, float64(both.Score)/(3*64+128), float64(both.PerToken), 1e-9)
	var sum int64
	for _, s := range a.Stages {
		sum += s.Cycles
	}
	require.Positive(t, sum)
	require.LessOrEqual(t, a.XLA, a.Score)
	require.NotEmpty(t, a.Slot)
}

// The text of a program goes through the gates of a variant: its signature, its numbers, its compiler.
func TestProgramText(t *testing.T) {
	s := spec(t, "b=1,t=80,hk=1,hv=2,k=32,v=32,dtype=f32")
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	m, err := build.Module(s, v)
	require.NoError(t, err)
	good := m.String()
	other, err := build.Module(spec(t, "b=1,t=81,hk=1,hv=2,k=32,v=32,dtype=f32"), v)
	require.NoError(t, err)
	neumann, err := gdn.ParseVariant("neumann")
	require.NoError(t, err)
	wrong, err := build.Module(s, neumann)
	require.NoError(t, err)
	l := &Lab{}
	judged := func(text string) *Refusal {
		w := workOn(t, s, "default")
		w.Text, w.Variant = text, gdn.Variant{}
		for _, g := range []Gate{{Name: "legality", Run: legality}, {Name: "build", Run: wellFormed}, {Name: "interpret", Run: l.interpret}} {
			r, err := g.Ask(t.Context(), w)
			require.NoError(t, err)
			if r != nil {
				return r
			}
		}
		require.Equal(t, m.Hash(), w.Record.IR)
		r, err := l.kernels(w)
		require.NoError(t, err)
		return r
	}
	require.Nil(t, judged(good))
	for text, want := range map[string]journal.Verdict{
		"func main() {}":   journal.Invalid,
		good[:len(good)/2]: journal.Invalid,
		other.String():     journal.Invalid,
		wrong.String():     journal.Numerics,
	} {
		r := judged(text)
		require.NotNil(t, r)
		require.Equal(t, want, r.Verdict, r.Reason)
	}
	require.Contains(t, judged(other.String()).Reason, "the spec has")
}

// dumpFolders lists the folders of schedules that are there now.
func (l *Lab) dumpFolders() []string {
	dirs, _ := filepath.Glob(filepath.Join(l.scratch.Dir, "gdngen-dump-*"))
	return dirs
}

// The bound of several shapes is weighed as their costs are.
func TestBound(t *testing.T) {
	long, short := spec(t, "b=1,t=4096,hk=4,hv=8,k=128,v=128,dtype=bf16"), spec(t, "b=2,t=64,hk=4,hv=8,k=128,v=128,dtype=bf16")
	w := workOn(t, long, "default")
	w.Shapes = []Shape{{long, 1}, {short, 20}}
	v6e := mustTarget(t, "v6e")
	require.Equal(t, int64(float64(measure.Least(long, w.Variant, v6e))+20*float64(measure.Least(short, w.Variant, v6e))), w.bound(v6e))
}
