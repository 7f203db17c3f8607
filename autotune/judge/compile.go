package judge

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
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Limits of one compile.
const (
	compileMemory = 6 << 30
	compileLeast  = 60 * time.Second // for every compile
	compileMost   = 10 * time.Minute
	compileFactor = 10 // times the median of the compiles so far
	secondChance  = 3  // times the limit, for the second attempt after a timeout
)

// timeLimits adapts the time limit of compiles to the times measured on this machine.
type timeLimits struct {
	fixed time.Duration // the user's limit, if given

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

// artifacts are the results of emitting and compiling for the next gate, by shape.
type artifacts struct {
	programs []*measure.Program  // lowered once for all targets
	compiled []*measure.Compiled // for the current target
}

func (w *Work) artifacts() *artifacts {
	a, ok := w.Left.(*artifacts)
	if !ok {
		a = new(artifacts)
		w.Left = a
	}
	return a
}

// refusal turns a *measure.Refusal into a refusal of the candidate, and keeps its log; other errors stay.
func (w *Work) refusal(err error, t *target.Target, shape int) (*Refusal, error) {
	var r *measure.Refusal
	if !errors.As(err, &r) {
		return nil, err
	}
	name := "log/" + t.Name
	if r.Verdict == measure.Internal {
		name = StackRole
	}
	if r.Log != "" {
		w.Objects[role(name, shape)] = []byte(r.Error() + "\n" + r.Log)
	} else if r.FromCompiler() {
		w.Objects[role(name, shape)] = []byte(r.Error())
	}
	return Refuse(journal.Verdict(r.Verdict), "%s", firstLines(r.Error())), nil
}

// emitFor makes the texts for a target and stores them as objects.
func (l *Lab) emitFor(w *Work, t *target.Target) (*Refusal, error) {
	defer w.clock("emit/"+t.Name, time.Now())
	a := w.artifacts()
	for i, m := range w.Modules {
		if len(a.programs) == i {
			route, err := route.Lookup("mosaic")
			if err != nil {
				return nil, err
			}
			p, err := measure.OfModule(m, &w.Shapes[i].Spec, w.Variant, route)
			if err != nil {
				return w.refusal(err, t, i)
			}
			a.programs = append(a.programs, p)
		}
		text, err := a.programs[i].Text(t)
		if err != nil {
			return w.refusal(err, t, i)
		}
		w.Objects[role("module/"+t.Name, i)] = []byte(text)
	}
	return nil, nil
}

// compileFor compiles the texts for a target and reads the schedules. It returns a cost only if the compiler's answer is a verdict.
func (l *Lab) compileFor(ctx context.Context, w *Work, t *target.Target) (*journal.Cost, error) {
	var c *aot.Compiler
	select {
	case c = <-l.compilers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { l.compilers <- c }()
	defer w.clock("compile/"+t.Name, time.Now())
	a := w.artifacts()
	a.compiled = nil
	for i, p := range a.programs {
		made, err := l.instrument(c).Compile(ctx, p, t, measure.Options{})
		if err == nil {
			a.compiled = append(a.compiled, made)
			continue
		}
		r, err := w.refusal(err, t, i)
		if err != nil {
			return nil, err
		}
		return &journal.Cost{Target: t.Name, Verdict: r.Verdict, Reason: r.Reason}, nil
	}
	return nil, nil
}

// instrument returns an instrument with one of the compilers.
func (l *Lab) instrument(c *aot.Compiler) *measure.Instrument {
	x := &measure.Instrument{Compiler: &patient{c, &l.limits}, Libtpu: "libtpu " + l.plugins["libtpu"], Cache: l.cache}
	if l.scratch != nil { // in tests a Lab may have no folder of its own
		x.Scratch = l.scratch.Dir
	}
	return x
}

// patient is a compiler with an adaptive time limit. After a timeout it tries once more with a longer limit: the
// machine may be busy.
type patient struct {
	*aot.Compiler
	limits *timeLimits
}

func (p *patient) Compile(ctx context.Context, r aot.Request) (*aot.Result, error) {
	r.Timeout = p.limits.limit()
	start := time.Now()
	made, err := p.Compiler.Compile(ctx, r)
	if late := (*aot.TimeoutError)(nil); errors.As(err, &late) {
		if err := os.RemoveAll(r.DumpDir); err != nil { // an incomplete schedule
			return nil, &aot.InfraError{Op: "clear the schedule", Err: err}
		}
		r.Timeout *= secondChance
		return p.Compiler.Compile(ctx, r)
	}
	if err == nil {
		p.limits.add(time.Since(start))
	}
	return made, err
}

// firstLines shortens a compiler's message, which ends with its stack.
func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 4)
	s = strings.Join(lines[:min(3, len(lines))], " ")
	if len(s) > 600 {
		s = s[:600] + "..."
	}
	return s
}

// costFor combines the costs of the shapes' schedules. A schedule that the cost model does not understand is a limit of the model, not a fault of the
// program.
func (l *Lab) costFor(w *Work, t *target.Target) journal.Cost {
	defer w.clock("cost/"+t.Name, time.Now())
	a := w.artifacts()
	sum := &tally{target: t, ruler: w.Ruler.On(t.Name)}
	for i, made := range a.compiled {
		if made.Report == nil {
			return journal.Cost{Target: t.Name, Verdict: journal.CostUnknown, Reason: firstLines(made.Unknown)}
		}
		if err := sum.add(w.Shapes[i], a.programs[i], made.Report); err != nil {
			return journal.Cost{Target: t.Name, Verdict: journal.CostUnknown, Reason: firstLines(err.Error())}
		}
		if text, err := json.Marshal(made.Report); err == nil {
			w.Objects[role("schedule/"+t.Name, i)] = text
		}
	}
	return sum.cost()
}

// tally sums the costs of the shapes by weight.
type tally struct {
	target *target.Target
	ruler  ruler.Ruler

	cycles, wall, hbm, score, spills, xla, calls, stall, tokens, topped float64

	vmem   int64
	slot   string
	fill   float64
	stages map[string]float64
	shapes []journal.ShapeCost
}

// add adds a shape. A schedule that the ruler can not count is a *measure.Refusal.
func (a *tally) add(s Shape, p *measure.Program, r *llo.Report) error {
	took, err := measure.CyclesBy(a.ruler, r)
	if err != nil {
		return err
	}
	w := s.Weight
	hbm := measure.Score(0, r.HBMBytes, s.Spec, a.target)
	score := measure.Score(took, r.HBMBytes, s.Spec, a.target)
	tokens := float64(s.Spec.Work())
	a.cycles += w * float64(r.Cycles)
	a.wall += w * float64(max(0, r.Wall.Cycles))
	a.hbm += w * float64(hbm)
	a.score += w * float64(score)
	a.tokens += w * tokens
	a.vmem = max(a.vmem, r.VMEM)
	if a.stages == nil {
		a.stages = map[string]float64{}
	}
	for _, op := range r.Ops {
		a.spills += w * float64(op.Calls*op.Spills)
		a.stall += w * float64(op.Calls*op.Stall)
		a.calls += w * float64(op.Calls)
		if took := w * float64(measure.OpBy(a.ruler, r, &op)); took > a.topped {
			a.topped, a.slot, a.fill = took, "", 0
			for _, x := range op.Slots {
				if fill := float64(x.Used) / float64(max(x.Capacity, 1)); fill > a.fill {
					a.slot, a.fill = x.Name, fill
				}
			}
		}
	}
	for _, x := range p.Stages(r) {
		a.stages[x.File] += w * float64(measure.StageBy(a.ruler, r, x))
	}
	a.xla += w * float64(took-p.InKernels(r, a.ruler))
	a.shapes = append(a.shapes, journal.ShapeCost{Spec: s.Spec.String(), Score: score, PerToken: journal.Figure(float64(score) / tokens), Schedule: r.Schedule})
	return nil
}

// maxStages is the number of stages in a record; the schedule's object has all.
const maxStages = 12

func (a *tally) cost() journal.Cost {
	round := func(x float64) int64 { return int64(math.Round(x)) }
	c := journal.Cost{Target: a.target.Name, Ruler: a.ruler, Cycles: round(a.cycles), Wall: round(a.wall), HBM: round(a.hbm), Score: round(a.score), VMEM: a.vmem, Spills: round(a.spills),
		XLA: round(a.xla), Calls: round(a.calls), Stall: round(a.stall), Slot: a.slot, Fill: journal.Figure(math.Round(1000*a.fill) / 1000)}
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
