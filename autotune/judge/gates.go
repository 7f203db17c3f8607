package judge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
)

// Gates that compare with earlier candidates read only the record.
var (
	duplicateGate = Gate{Name: "duplicate", Doc: "no earlier candidate has the same program", Again: true, Run: duplicate}
	scheduleGate  = Gate{Name: "schedule", Doc: "no earlier candidate has the same schedule", Again: true, Run: schedule}
)

// AgainGates returns the gates that a driver asks again. They read only the record, so a driver without an evaluator can run them.
func AgainGates() []Gate { return []Gate{duplicateGate, scheduleGate} }

// Gates returns the gates, cheapest first.
func (l *Lab) Gates() []Gate {
	ms := time.Millisecond
	return []Gate{
		{Name: "legality", Doc: "the variant is legal for the spec, and precise enough", Price: ms, Run: legality},
		{Name: "build", Doc: "its program is well formed", Price: 10 * ms, Run: wellFormed},
		duplicateGate,
		{Name: "bound", Doc: "its lower bound is below the best", Run: prune},
		{Name: "interpret", Doc: "right numbers of the program on a tiny shape, in the interpreter", Price: 50 * ms, Run: l.interpret},
		{Name: "emit", Doc: "it can be emitted for the first target", Price: 100 * ms, Run: l.emit},
		{Name: "compile", Doc: "the first target's compiler takes it", Price: 2000 * ms, Run: l.compile},
		{Name: "cost", Doc: "the cost of its schedule", Price: 100 * ms, Run: l.cost},
		scheduleGate,
		{Name: "numerics", Doc: "of those close to the best of the first target: right numbers of the kernels on every input class, in the interpreter", Price: 1000 * ms, Run: l.numerics},
		{Name: "targets", Doc: "costs on the other targets", Price: 4000 * ms, Run: l.targets},
		{Name: "accuracy", Doc: "of those close to the best, where the objective asks for it: errors by class of inputs as docs/accuracy.md has them", Price: 8000 * ms, Run: l.accuracy},
		{Name: "cpu", Doc: "of those close to the best of any target: as numerics; of those that would be the best, on the CPU too", Price: 4000 * ms, Run: l.onCPU},
		{Name: "device", Doc: "of those close to the best, where a device is attached: right numbers on it, and time against the best", Own: true, Run: l.onDevice},
	}
}

func legality(_ context.Context, w *Work) (*Refusal, error) {
	if w.Text != "" {
		return w.parse(), nil
	}
	for _, s := range w.Shapes {
		if err := w.Variant.Check(s.Spec); err != nil {
			return Refuse(journal.Invalid, "%v", err), nil
		}
	}
	return w.precise(), nil
}

// precise refuses a candidate that computes in less precision than the run asks for.
func (w *Work) precise() *Refusal {
	if p := w.precision(); !strategy.Reaches(p, w.Least) {
		return Refuse(journal.Invalid, "it computes in %s, and the run asks for %s", p, w.Least)
	}
	return nil
}

func wellFormed(_ context.Context, w *Work) (*Refusal, error) {
	all := sha256.New()
	for i, s := range w.Shapes {
		if w.Text == "" {
			m, err := build.Module(s.Spec, w.Variant)
			if err == nil {
				err = m.Verify()
			}
			if err != nil {
				return Refuse(journal.Invalid, "%v", err), nil
			}
			w.Modules = append(w.Modules, m)
		}
		w.Objects[role("ir", i)] = []byte(w.Modules[i].String())
		fmt.Fprintln(all, w.Modules[i].Hash())
	}
	w.Record.IR = w.Modules[0].Hash()
	if len(w.Modules) > 1 {
		w.Record.IR = hex.EncodeToString(all.Sum(nil))
	}
	return nil, nil
}

// role returns the object name for one of several shapes.
func role(name string, shape int) string {
	if shape == 0 {
		return name
	}
	return fmt.Sprintf("%s/%d", name, shape+1)
}

func duplicate(_ context.Context, w *Work) (*Refusal, error) {
	if id, ok := w.Known.Module(w.Record.IR); ok {
		r := Refuse(journal.Duplicate, "the program of candidate %d", id)
		r.Of = id
		return r, nil
	}
	return nil, nil
}

func schedule(_ context.Context, w *Work) (*Refusal, error) {
	for _, c := range w.Record.Costs[:min(1, len(w.Record.Costs))] {
		if id, ok := w.Known.Schedule(c.Target, c.Schedule); ok && c.Verdict == "" {
			r := Refuse(journal.Duplicate, "the schedule of candidate %d on %s", id, c.Target)
			r.Of = id
			return r, nil
		}
	}
	return nil, nil
}

func prune(_ context.Context, w *Work) (*Refusal, error) {
	for _, t := range w.Targets {
		best := w.Known.Champion(t.Name)
		if best == nil || w.bound(t) < w.beats(best.Cost(t.Name)) {
			return nil, nil
		}
	}
	t := w.Targets[0]
	best := w.Known.Champion(t.Name)
	return Refuse(journal.Pruned, "at least %d cycles on %s, and candidate %d takes %d; no better on the other targets",
		w.bound(t), t.Name, best.ID, w.beats(best.Cost(t.Name))), nil
}

// form is one way to test a candidate: a spec, and its program for it.
type form struct {
	spec gdn.Spec
	m    *ir.Module
}

// forms shrinks each shape and builds the distinct results. The text of a program is of one size: it is not shrunk.
func (w *Work) forms(shrink func(gdn.Spec, gdn.Variant) gdn.Spec) ([]form, *Refusal) {
	if w.Text != "" {
		return []form{{w.Spec, w.Modules[0]}}, nil
	}
	var l []form
	for _, x := range w.Shapes {
		s := shrink(x.Spec, w.Variant)
		if slices.ContainsFunc(l, func(f form) bool { return f.spec == s }) {
			continue
		}
		m, err := build.Module(s, w.Variant)
		if err != nil {
			return nil, Refuse(journal.Invalid, "%v", err)
		}
		l = append(l, form{s, m})
	}
	return l, nil
}

func (l *Lab) interpret(_ context.Context, w *Work) (*Refusal, error) {
	forms, r := w.forms(tiny)
	if r != nil {
		return r, nil
	}
	for _, f := range forms {
		few, err := lookup(f.spec, tinyClasses)
		if err != nil {
			return nil, err
		}
		if r, err := l.interpretOn(w, f.m, accuracyTest{spec: f.spec, classes: few, seeds: firstSeed, engine: "interp"}); r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// numerics tests the kernels that the TPU backend emits, for candidates whose cost on the first target is near the
// best, or that have none there. Slower ones keep the result of the tiny shape.
func (l *Lab) numerics(_ context.Context, w *Work) (*Refusal, error) {
	if v, _, err := w.Known.Rank(w.Record); err == nil && v == journal.Worse {
		return nil, nil
	}
	return l.kernels(w)
}

// kernels tests the kernels once.
func (l *Lab) kernels(w *Work) (*Refusal, error) {
	if w.examined {
		return nil, nil
	}
	w.examined = true
	return l.kernelsOn(w, firstSeed)
}

// kernelsOn tests the kernels on every class with some seeds.
func (l *Lab) kernelsOn(w *Work, seeds []uint64) (*Refusal, error) {
	forms, r := w.forms(moderate)
	if r != nil {
		return r, nil
	}
	for _, f := range forms {
		m, err := route.Kernels(f.m)
		if err != nil {
			return Refuse(journal.EmitError, "%s: %v", f.spec, err), nil
		}
		if r, err := l.interpretOn(w, m, accuracyTest{spec: f.spec, classes: exam.Supported(f.spec), seeds: seeds, engine: "kernels"}); r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// interpretOn tests a module in the interpreter.
func (l *Lab) interpretOn(w *Work, m *ir.Module, p accuracyTest) (*Refusal, error) {
	var fault *interp.Error
	p.size = p.spec
	p.program = func(in map[string]*array.Array) (map[string]*array.Array, error) {
		return interp.Run(m, in, interp.Options{})
	}
	r, err := l.examine(w, p)
	if errors.As(err, &fault) {
		return Refuse(journal.Invalid, "%s: %v", p.spec, err), nil
	}
	return r, err
}

// onCPU tests the kernels of candidates that would be kept or held. Those that would be kept have the final test: all seeds, a long run, and
// the CPU, for which compiling costs as much as for a target. With guarded targets a held one may turn out to be kept.
func (l *Lab) onCPU(_ context.Context, w *Work) (*Refusal, error) {
	v, _, err := w.Known.Rank(w.Record)
	if err != nil || v == journal.Worse {
		return nil, err
	}
	if r, err := l.kernels(w); r != nil || err != nil {
		return r, err
	}
	if v != journal.Improved && len(w.Known.Header().Guards) == 0 {
		return nil, nil
	}
	return l.final(w)
}

// contained refuses kernels through which one packed sequence changes another. The accuracy tests can not see it: all their inputs are finite.
func (l *Lab) contained(w *Work) (*Refusal, error) {
	forms, r := w.forms(tiny)
	if r != nil {
		return r, nil
	}
	for _, f := range forms {
		if f.spec.Seqs < 2 {
			continue
		}
		m, err := route.Kernels(f.m)
		if err != nil {
			return Refuse(journal.EmitError, "%s: %v", f.spec, err), nil
		}
		classes, err := lookup(f.spec, tinyClasses[:1])
		if err != nil {
			return nil, err
		}
		x, err := l.cases.Draw(f.spec, exam.Deal(f.spec, classes)[0], w.Seed)
		if err != nil {
			return nil, err
		}
		spread, err := x.Spread(func(in map[string]*array.Array) (map[string]*array.Array, error) {
			return interp.Run(m, in, interp.Options{})
		})
		var fault *interp.Error
		switch {
		case errors.As(err, &fault):
			return Refuse(journal.Invalid, "%s: %v", f.spec, err), nil
		case err != nil:
			return nil, err
		case spread != "":
			return Refuse(journal.Numerics, "%s (T=%d, seed %d): one request of a server would destroy others", spread, f.spec.Tokens, w.Seed), nil
		}
	}
	return nil, nil
}

// final tests a candidate that would be kept, after the kernels passed with the first seed.
func (l *Lab) final(w *Work) (*Refusal, error) {
	if r, err := l.contained(w); r != nil || err != nil {
		return r, err
	}
	if r, err := l.kernelsOn(w, finalSeeds); r != nil || err != nil {
		return r, err
	}
	run, at := l.longRun(w)
	if l.cpu == nil {
		w.Record.Notes = append(w.Record.Notes, "not examined on the CPU: "+l.noCPU)
		if run == nil {
			return nil, nil
		}
		return l.interpretOn(w, run.m, at)
	}
	forms, r := w.forms(moderate)
	if r != nil {
		return r, nil
	}
	for i, f := range forms {
		papers := []accuracyTest{{spec: f.spec, classes: exam.Supported(f.spec), seeds: firstSeed, engine: "cpu"}}
		if i == 0 && run != nil { // compiling takes longest: one program for both
			f, papers = *run, append(papers, at)
		}
		if r, err := l.compiled(w, f, papers); r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// longRun returns the program for many tokens and its accuracy test: small faults of each chunk add up. Specs for short
// sequences, and texts of programs, which are of one size, have none.
func (l *Lab) longRun(w *Work) (*form, accuracyTest) {
	if w.Text != "" || w.Spec.Tokens <= shortTokens || w.Spec.Direction != gdn.Forward {
		return nil, accuracyTest{}
	}
	s := long(w.Spec, w.Variant)
	m, err := build.Module(s, w.Variant)
	if err != nil {
		w.Record.Notes = append(w.Record.Notes, "no long run: "+err.Error())
		return nil, accuracyTest{}
	}
	return &form{s, m}, accuracyTest{spec: s, classes: exam.Long(s), seeds: firstSeed, engine: "long"}
}

// compiled tests a program on the CPU, by accuracy tests of its size or of fewer tokens.
func (l *Lab) compiled(w *Work, f form, papers []accuracyTest) (*Refusal, error) {
	program, r, err := load(l.cpu, f.m)
	if r != nil || err != nil {
		return r, err
	}
	defer program.Close()
	for _, p := range papers {
		p.size = f.spec
		p.program = func(in map[string]*array.Array) (map[string]*array.Array, error) {
			results, err := program.Run(arguments(f.m, in)...)
			if err != nil {
				return nil, err
			}
			return byName(f.m, results)
		}
		if r, err := l.examine(w, p); r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// load compiles a module at the tensor level for an engine.
func load(e *pjrt.Engine, m *ir.Module) (*pjrt.Program, *Refusal, error) {
	route, err := route.Lookup("stablehlo")
	if err != nil {
		return nil, nil, err
	}
	a, err := route.Emit(m, nil)
	if err != nil {
		return nil, Refuse(journal.EmitError, "%v", err), nil
	}
	p, err := e.Compile(a.Text)
	if is[*pjrt.CompileError](err) {
		return nil, Refuse(journal.CompileReject, "%s: %v", e.Platform(), err), nil
	}
	return p, nil, err
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// arguments returns the inputs in the order of a module's parameters.
func arguments(m *ir.Module, in map[string]*array.Array) []*array.Array {
	l := make([]*array.Array, len(m.Params()))
	for i, v := range m.Params() {
		l[i] = in[v.Name]
	}
	return l
}

// If the first target lacks memory, or its compiler refuses, emit, compile and cost leave the candidate to the other targets.
func (l *Lab) emit(_ context.Context, w *Work) (*Refusal, error) {
	r, err := l.emitFor(w, w.Targets[0])
	if err != nil || r == nil || r.Verdict != journal.VMEM {
		return r, err
	}
	return w.without(journal.Cost{Target: w.Targets[0].Name, Verdict: r.Verdict, Reason: r.Reason}), nil
}

func (l *Lab) compile(ctx context.Context, w *Work) (*Refusal, error) {
	if len(w.Record.Costs) > 0 {
		return nil, nil
	}
	c, err := l.compileFor(ctx, w, w.Targets[0])
	if err != nil || c == nil {
		return nil, err
	}
	return w.without(*c), nil
}

func (l *Lab) cost(_ context.Context, w *Work) (*Refusal, error) {
	if len(w.Record.Costs) > 0 {
		return nil, nil
	}
	c := l.costFor(w, w.Targets[0])
	if c.Verdict != "" {
		return w.without(c), nil
	}
	w.Record.Costs = append(w.Record.Costs, c)
	return nil, nil
}

// without records that the first target has no cost, and refuses the candidate if there is no other target.
func (w *Work) without(c journal.Cost) *Refusal {
	w.Record.Costs = append(w.Record.Costs, c)
	if len(w.Targets) == 1 || slices.Contains([]journal.Verdict{journal.Timeout, journal.Crash, journal.Internal}, c.Verdict) {
		return Refuse(c.Verdict, "%s: %s", c.Target, c.Reason)
	}
	return nil
}

// targets costs the candidate on the other targets. If none takes it, the refusal is the first target's.
func (l *Lab) targets(ctx context.Context, w *Work) (*Refusal, error) {
	for _, t := range w.Targets[1:] {
		c, err := l.onTarget(ctx, w, t)
		if err != nil {
			return nil, err
		}
		w.Record.Costs = append(w.Record.Costs, c)
	}
	for _, c := range w.Record.Costs {
		if c.Verdict == "" {
			return nil, nil
		}
	}
	c := w.Record.Costs[0]
	return Refuse(c.Verdict, "%s: %s; no other target takes it either", c.Target, c.Reason), nil
}

// onTarget emits, compiles and costs for one target.
func (l *Lab) onTarget(ctx context.Context, w *Work, t *target.Target) (journal.Cost, error) {
	if r, err := l.emitFor(w, t); r != nil || err != nil {
		if err != nil {
			return journal.Cost{}, err
		}
		return journal.Cost{Target: t.Name, Verdict: r.Verdict, Reason: r.Reason}, nil
	}
	c, err := l.compileFor(ctx, w, t)
	if err != nil {
		return journal.Cost{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	if c != nil {
		return *c, nil
	}
	return l.costFor(w, t), nil
}
