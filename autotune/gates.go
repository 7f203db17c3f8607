package autotune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt"
)

// Gates is the table of gates, cheapest first.
func (l *Lab) Gates() []Gate {
	ms := time.Millisecond
	return []Gate{
		{Name: "legality", Doc: "the variant is legal for the spec, and precise enough", Price: ms, Run: legality},
		{Name: "build", Doc: "its program is well formed", Price: 10 * ms, Run: build},
		{Name: "duplicate", Doc: "no earlier candidate has the same program", Again: true, Run: duplicate},
		{Name: "bound", Doc: "its lower bound is below the best", Run: prune},
		{Name: "interpret", Doc: "right numbers of the program on a tiny shape, in the interpreter", Price: 50 * ms, Run: l.interpret},
		{Name: "numerics", Doc: "right numbers of its kernels on every input class, in the interpreter", Price: 1000 * ms, Run: l.numerics},
		{Name: "emit", Doc: "it can be emitted for the first target", Price: 100 * ms, Run: l.emit},
		{Name: "compile", Doc: "the first target's compiler takes it", Price: 2000 * ms, Run: l.compile},
		{Name: "cost", Doc: "the cost of its schedule", Price: 100 * ms, Run: l.cost},
		{Name: "schedule", Doc: "no earlier candidate has the same schedule", Again: true, Run: schedule},
		{Name: "targets", Doc: "costs on the other targets", Price: 4000 * ms, Run: l.targets},
		{Name: "cpu", Doc: "of those close to the best: right numbers on every input class, on the CPU", Price: 4000 * ms, Run: l.onCPU},
	}
}

func legality(_ context.Context, w *Work) (*Refusal, error) {
	if err := w.Variant.Check(w.Spec); err != nil {
		return refuse(journal.Invalid, "%v", err), nil
	}
	if p := w.Variant.Precision().String(); !strategy.Reaches(p, w.Least) {
		return refuse(journal.Invalid, "it computes in %s, and the run asks for %s", p, w.Least), nil
	}
	return nil, nil
}

func build(_ context.Context, w *Work) (*Refusal, error) {
	m, err := gdn.Build(w.Spec, w.Variant)
	if err == nil {
		err = m.Verify()
	}
	if err != nil {
		return refuse(journal.Invalid, "%v", err), nil
	}
	w.Module = m
	w.Record.IR = m.Hash()
	w.Objects["ir"] = []byte(m.String())
	return nil, nil
}

func duplicate(_ context.Context, w *Work) (*Refusal, error) {
	if id, ok := w.Known.Module(w.Record.IR); ok {
		r := refuse(journal.Duplicate, "the program of candidate %d", id)
		r.Of = id
		return r, nil
	}
	return nil, nil
}

func schedule(_ context.Context, w *Work) (*Refusal, error) {
	for _, c := range w.Record.Costs[:min(1, len(w.Record.Costs))] {
		if id, ok := w.Known.Schedule(c.Target, c.Schedule); ok && c.Verdict == "" {
			r := refuse(journal.Duplicate, "the schedule of candidate %d on %s", id, c.Target)
			r.Of = id
			return r, nil
		}
	}
	return nil, nil
}

func prune(_ context.Context, w *Work) (*Refusal, error) {
	for _, t := range w.Targets {
		best := w.Known.Champion(t.Name)
		if best == nil || bound(w.Spec, w.Variant, t) < best.Cost(t.Name).Score {
			return nil, nil
		}
	}
	t := w.Targets[0]
	best := w.Known.Champion(t.Name)
	return refuse(journal.Pruned, "at least %d cycles on %s, and candidate %d takes %d; no better on the other targets",
		bound(w.Spec, w.Variant, t), t.Name, best.ID, best.Cost(t.Name).Score), nil
}

func (l *Lab) interpret(_ context.Context, w *Work) (*Refusal, error) {
	var few []gdn.Class
	for _, name := range tinyClasses {
		c, err := gdn.LookupClass(name)
		if err != nil {
			return nil, err
		}
		few = append(few, c)
	}
	s := tiny(w.Spec, w.Variant)
	m, err := gdn.Build(s, w.Variant)
	if err != nil {
		return refuse(journal.Invalid, "%v", err), nil
	}
	return l.interpretOn(w, s, m, few, "interp")
}

// numerics examines the kernels that the TPU backend emits.
func (l *Lab) numerics(_ context.Context, w *Work) (*Refusal, error) {
	s := moderate(w.Spec, w.Variant)
	m, err := gdn.Build(s, w.Variant)
	if err != nil {
		return refuse(journal.Invalid, "%v", err), nil
	}
	if m, err = lower.Kernels(m); err != nil {
		return refuse(journal.EmitError, "%s: %v", s, err), nil
	}
	return l.interpretOn(w, s, m, classes(s), "kernels")
}

// interpretOn examines a module of the variant, built for a spec, in the interpreter.
func (l *Lab) interpretOn(w *Work, s gdn.Spec, m *ir.Module, few []gdn.Class, engine string) (*Refusal, error) {
	var fault *interp.Error
	r, err := l.exams.examine(w, s, few, engine, func(in map[string]*array.Array) (map[string]*array.Array, error) {
		return interp.Run(m, in, interp.Options{})
	})
	if errors.As(err, &fault) {
		return refuse(journal.Invalid, "%s: %v", s, err), nil
	}
	return r, err
}

// onCPU examines candidates that would be kept or held. Compiling for the CPU costs as much as for a target.
func (l *Lab) onCPU(_ context.Context, w *Work) (*Refusal, error) {
	if v, _, err := w.Known.Rank(w.Record); err != nil || v == journal.Slower {
		return nil, err
	}
	if l.cpu == nil {
		w.Record.Notes = append(w.Record.Notes, "not examined on the CPU: "+l.noCPU)
		return nil, nil
	}
	s := moderate(w.Spec, w.Variant)
	m, err := gdn.Build(s, w.Variant)
	if err != nil {
		return refuse(journal.Invalid, "%v", err), nil
	}
	route, err := lower.Lookup("stablehlo")
	if err != nil {
		return nil, err
	}
	a, err := route.Emit(m, nil)
	if err != nil {
		return refuse(journal.EmitError, "%v", err), nil
	}
	p, err := l.cpu.Compile(a.Text)
	if is[*pjrt.CompileError](err) {
		return refuse(journal.CompileReject, "cpu: %v", err), nil
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return l.exams.examine(w, s, classes(s), "cpu", func(in map[string]*array.Array) (map[string]*array.Array, error) {
		args := make([]*array.Array, len(m.Params()))
		for i, v := range m.Params() {
			args[i] = in[v.Name]
		}
		results, err := p.Run(args...)
		if err != nil {
			return nil, err
		}
		return byName(m, results)
	})
}

// emit, compile and cost leave a first target that lacks memory, or whose compiler refuses, to the other targets.
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

// without records that the first target has no cost, and refuses the candidate where no other may have one.
func (w *Work) without(c journal.Cost) *Refusal {
	w.Record.Costs = append(w.Record.Costs, c)
	if len(w.Targets) == 1 || c.Verdict == journal.Timeout || c.Verdict == journal.Crash {
		return refuse(c.Verdict, "%s: %s", c.Target, c.Reason)
	}
	return nil
}

// targets costs the candidate on the other targets. One that no target takes is refused as the first target did.
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
	return refuse(c.Verdict, "%s: %s; no other target takes it either", c.Target, c.Reason), nil
}

// onTarget emits, compiles and costs for one target.
func (l *Lab) onTarget(ctx context.Context, w *Work, t *codegen.Target) (journal.Cost, error) {
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
