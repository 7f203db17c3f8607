package autotune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// The limits of one compile.
const (
	compileMemory = 6 << 30
	compileLeast  = 60 * time.Second // what every compile is given
	compileMost   = 10 * time.Minute
	compileFactor = 10 // times the median of the compiles so far
	secondChance  = 3  // times the limit, for a compile that was late once
)

// timeLimits adapts the time limit of compiles to how long they take here and now.
type timeLimits struct {
	fixed time.Duration // where the user gave one

	mu   sync.Mutex
	took []time.Duration
}

func (l *timeLimits) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
}

func (l *timeLimits) limit() time.Duration {
	if l.fixed > 0 {
		return l.fixed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := compileLeast
	if n := len(l.took); n > 0 {
		limit = max(limit, compileFactor*slices.Sorted(slices.Values(l.took))[n/2])
	}
	return min(limit, compileMost)
}

// artifacts is what emitting and compiling leave for the next gate, by shape.
type artifacts struct {
	tiled []*ir.Module // the modules with their grids lowered to kernels, for every target
	texts []string     // for the target at hand
	dumps []string     // folders of its schedules; removed once they are read
}

func (w *Work) artifacts() *artifacts {
	a, ok := w.compiled.(*artifacts)
	if !ok {
		a = new(artifacts)
		w.compiled = a
	}
	return a
}

// emitFor makes the texts for a target and keeps them as objects.
func (l *Lab) emitFor(w *Work, t *codegen.Target) (*Refusal, error) {
	defer w.clock("emit/"+t.Name, time.Now())
	a := w.artifacts()
	a.texts = nil
	for i, m := range w.Modules {
		if len(a.tiled) == i {
			k, err := lower.Kernels(m)
			if err != nil {
				return refuse(journal.EmitError, "%v", err), nil
			}
			a.tiled = append(a.tiled, k)
		}
		e, err := mosaic.Backend{}.Emit(a.tiled[i], t)
		if err != nil && needsVMEM(a.tiled[i]) > t.VMEM {
			return refuse(journal.VMEM, "%v", err), nil
		}
		if err != nil {
			return refuse(journal.EmitError, "%v", err), nil
		}
		a.texts = append(a.texts, e.Text)
		w.Objects[role("module/"+t.Name, i)] = []byte(e.Text)
	}
	return nil, nil
}

// needsVMEM is the vector memory in bytes of the kernel that needs most.
func needsVMEM(m *ir.Module) (bytes int) {
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			bytes = max(bytes, mosaic.VMEMBytes(in))
		}
	})
	return bytes
}

// compileFor compiles the texts for a target. It returns a cost only where the compiler's answer is a verdict.
func (l *Lab) compileFor(ctx context.Context, w *Work, t *codegen.Target) (*journal.Cost, error) {
	var c *aot.Compiler
	select {
	case c = <-l.compilers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { l.compilers <- c }()
	defer w.clock("compile/"+t.Name, time.Now())
	a := w.artifacts()
	a.drop()
	for i, text := range a.texts {
		dump, err := l.compileText(ctx, c, aot.Request{Topology: t.Topology, Module: text, Flags: t.Flags})
		if err == nil {
			a.dumps = append(a.dumps, dump)
			continue
		}
		a.drop()
		if v := compileVerdict(err); v != "" {
			w.Objects[role("log/"+t.Name, i)] = []byte(compilerLog(err))
			return &journal.Cost{Target: t.Name, Verdict: v, Reason: firstLines(err.Error())}, nil
		}
		return nil, err
	}
	return nil, nil
}

// compileText compiles one text and gives the folder of its schedule. A compile that is late is given a second chance with
// more time: the machine may be busy.
func (l *Lab) compileText(ctx context.Context, c *aot.Compiler, r aot.Request) (dump string, err error) {
	below := "" // a Lab of a test may have no folder of its own
	if l.scratch != nil {
		below = l.scratch.Dir
	}
	r.Timeout = l.limits.limit()
	for attempt := 1; ; attempt++ {
		if r.DumpDir, err = os.MkdirTemp(below, "gdngen-dump-"); err != nil {
			return "", err
		}
		start := time.Now()
		if _, err = c.Compile(ctx, r); err == nil {
			l.limits.add(time.Since(start))
			return r.DumpDir, nil
		}
		os.RemoveAll(r.DumpDir)
		if !is[*aot.TimeoutError](err) || attempt > 1 {
			return "", err
		}
		r.Timeout *= secondChance
	}
}

// drop removes the schedules.
func (a *artifacts) drop() {
	for _, dir := range a.dumps {
		os.RemoveAll(dir)
	}
	a.dumps = nil
}

// compileVerdict maps an error of the compiler to a verdict; empty where the machinery is to blame.
func compileVerdict(err error) journal.Verdict {
	for _, row := range []struct {
		is      func(error) bool
		verdict journal.Verdict
	}{
		{is[*aot.RejectError], journal.CompileReject},
		{is[*aot.VMEMError], journal.VMEM},
		{is[*aot.TimeoutError], journal.Timeout},
		{is[*aot.CrashError], journal.Crash},
		{is[*aot.MemoryError], journal.Crash},
	} {
		if row.is(err) {
			return row.verdict
		}
	}
	return ""
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// compilerLog is all that a compiler said.
func compilerLog(err error) string {
	var crash *aot.CrashError
	if errors.As(err, &crash) {
		return err.Error() + "\n" + crash.Stderr
	}
	return err.Error()
}

// firstLines shortens a compiler's message, whose later lines are its stack.
func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 4)
	s = strings.Join(lines[:min(3, len(lines))], " ")
	if len(s) > 600 {
		s = s[:600] + "..."
	}
	return s
}

// costFor reads the schedules. One that the cost model does not understand counts as refused: it has no cost.
func (l *Lab) costFor(w *Work, t *codegen.Target) journal.Cost {
	defer w.clock("cost/"+t.Name, time.Now())
	a := w.artifacts()
	defer a.drop()
	sum := &tally{target: t}
	for i, dump := range a.dumps {
		r, err := llo.Analyze(dump, t)
		if err != nil {
			return journal.Cost{Target: t.Name, Verdict: journal.CompileReject, Reason: "compiled, but without a cost: " + err.Error()}
		}
		sum.add(w.Shapes[i], a.tiled[i], r)
		if text, err := json.Marshal(r); err == nil {
			w.Objects[role("schedule/"+t.Name, i)] = text
		}
	}
	return sum.cost()
}

// tally weighs the costs of the shapes.
type tally struct {
	target                                                         *codegen.Target
	cycles, hbm, score, spills, glue, calls, stall, tokens, topped float64
	vmem                                                           int64
	slot                                                           string
	fill                                                           float64
	stages                                                         map[string]float64
	shapes                                                         []journal.ShapeCost
}

func (a *tally) add(s Shape, m *ir.Module, r *llo.Report) {
	kernels := map[string]bool{}
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			kernels[in.Attrs.Grid.Name] = true
		}
	})
	w := s.Weight
	hbm := hbmCycles(max(r.HBMBytes, s.Spec.NecessaryBytes()), a.target)
	score := max(r.Cycles, hbm)
	tokens := float64(s.Spec.Batch * s.Spec.Tokens * s.Spec.HeadsV)
	a.cycles += w * float64(r.Cycles)
	a.hbm += w * float64(hbm)
	a.score += w * float64(score)
	a.tokens += w * tokens
	a.vmem = max(a.vmem, r.VMEM)
	outside := r.Cycles
	if a.stages == nil {
		a.stages = map[string]float64{}
	}
	for _, op := range r.Ops {
		a.spills += w * float64(op.Calls*op.Spills)
		a.stall += w * float64(op.Calls*op.Stall)
		a.calls += w * float64(op.Calls)
		name := strings.TrimRight(op.Name, "0123456789")
		if kernels[op.Name] || kernels[strings.TrimSuffix(name, ".")] {
			outside -= op.Calls * op.Cycles
		}
		for _, x := range op.Locations {
			a.stages[stageOf(x.File)] += w * float64(op.Calls*x.Cycles)
		}
		if took := w * float64(op.Calls*op.Cycles); took > a.topped {
			a.topped, a.slot, a.fill = took, "", 0
			for _, x := range op.Slots {
				if fill := float64(x.Used) / float64(max(x.Capacity, 1)); fill > a.fill {
					a.slot, a.fill = x.Name, fill
				}
			}
		}
	}
	a.glue += w * float64(outside)
	a.shapes = append(a.shapes, journal.ShapeCost{Spec: s.Spec.String(), Score: score, PerToken: journal.Figure(float64(score) / tokens), Schedule: r.Schedule})
}

// stageOf is the stage of a place stage.chunk.head of a generated kernel.
func stageOf(place string) string {
	stage, _, _ := strings.Cut(place, ".")
	return strings.TrimPrefix(stage, "-")
}

// maxStages is how many stages a record keeps; the schedule's object has all.
const maxStages = 12

func (a *tally) cost() journal.Cost {
	round := func(x float64) int64 { return int64(math.Round(x)) }
	c := journal.Cost{Target: a.target.Name, Cycles: round(a.cycles), HBM: round(a.hbm), Score: round(a.score), VMEM: a.vmem, Spills: round(a.spills),
		Glue: round(a.glue), Calls: round(a.calls), Stall: round(a.stall), Slot: a.slot, Fill: journal.Figure(math.Round(1000*a.fill) / 1000)}
	c.PerToken = journal.Figure(a.score / a.tokens)
	c.Schedule = a.shapes[0].Schedule
	if len(a.shapes) > 1 {
		all := sha256.New()
		for _, s := range a.shapes {
			fmt.Fprintln(all, s.Schedule)
		}
		c.Schedule, c.Shapes = fmt.Sprintf("%x", all.Sum(nil)[:16]), a.shapes
	}
	for name, cycles := range a.stages {
		c.Stages = append(c.Stages, journal.Stage{Name: name, Cycles: round(cycles)})
	}
	slices.SortFunc(c.Stages, func(x, y journal.Stage) int {
		return cmp.Or(cmp.Compare(y.Cycles, x.Cycles), strings.Compare(x.Name, y.Name))
	})
	c.Stages = c.Stages[:min(maxStages, len(c.Stages))]
	return c
}
