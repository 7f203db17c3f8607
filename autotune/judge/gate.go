// Package judge runs the candidates of a search through gates, in order of their price. A gate passes a candidate,
// refuses it with a typed verdict (package journal), or fails: a fault of the machinery is an error and no verdict.
// [Lab] judges TPU kernels by the interpreter, a CPU, the TPU's compiler and, if attached, a device; [GPULab] judges
// GPU kernels by Triton and a model of their machine code. Gates write into the candidate's record, and know other
// candidates only from the journal. The driver, package autotune, proposes, records and ranks.
package judge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Shape is a spec with a weight: the run's score is the weighted sum of the shapes' scores.
type Shape struct {
	Spec   gdn.Spec
	Weight float64
}

// Evaluator judges candidates.
type Evaluator interface {
	// Gates lists the gates in the order of their price.
	Gates() []Gate
	// Plugins returns the versions of everything that the judgement depends on, apart from the program.
	Plugins() map[string]string
	Close() error
}

// Gate is one step of the judgement.
type Gate struct {
	Name, Doc string
	Price     time.Duration // typical time, on one core
	// Again says that the gate compares with earlier candidates. It is asked again just before a candidate is recorded,
	// to see candidates that were judged at the same time.
	Again bool
	// Own says that the gate takes the machine's lock itself, from its context. Other gates run under the lock.
	Own bool
	// Clocked says that the gate itself adds its time to Wall.
	Clocked bool
	// Run judges. A nil refusal lets the candidate pass. An error is a failure of the machinery.
	Run func(context.Context, *Work) (*Refusal, error)
}

// Refusal ends the judgement of a candidate.
type Refusal struct {
	Verdict journal.Verdict `json:"verdict"`
	Reason  string          `json:"reason"`
	Of      int             `json:"of,omitempty"` // the earlier candidate that a duplicate repeats
}

// LostError says that the worker judging a candidate was lost. The candidate is judged again, by another worker if there is one.
type LostError struct {
	Node string // the machine, if known
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the worker on %s was lost: %v", e.Node, e.Err)
}
func (e *LostError) Unwrap() error { return e.Err }

// Refuse returns a refusal with a verdict and a formatted reason.
func Refuse(v journal.Verdict, format string, args ...any) *Refusal {
	return &Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
}

// Work is a candidate on its way through the gates: its program, and the results of the gates so far.
type Work struct {
	Spec      gdn.Spec // the first shape
	Shapes    []Shape  // with their weights
	Targets   []*target.Target
	GPUs      []*target.GPU // in place of Targets
	Ruler     ruler.Ruler   // of the run; targets that lack it use ruler.Issue
	Seed      uint64
	Objective objective.Objective
	Least     string // the lowest precision allowed
	Variant   gdn.Variant
	Text      string             // of a program, instead of a variant
	Known     journal.View       // the earlier candidates
	Record    *journal.Candidate // filled by the gates
	Modules   []*ir.Module       // for each of Shapes
	Objects   map[string][]byte  // to be stored, by role
	Wall      map[string]float64 // seconds, by gate
	Runs      *journal.Timing    // on a device
	Node      string             // the machine that judged, if another
	Left      any                // one gate's results for the next gates of the evaluator

	examined bool // its kernels passed, on every class of inputs
}

// clock adds the time since start to a gate.
func (w *Work) clock(gate string, start time.Time) { w.Wall[gate] += time.Since(start).Seconds() }

// StackRole is the role of the object with the stack of a panic.
const StackRole = "stack"

// Ask runs the gate. A panic is the generator's fault, not the candidate's: the verdict is internal, and the stack is kept.
func (g Gate) Ask(ctx context.Context, w *Work) (r *Refusal, err error) {
	if !g.Clocked {
		defer w.clock(g.Name, time.Now())
	}
	defer func() {
		if p := recover(); p != nil {
			fault := measure.Panicked("gate "+g.Name, p)
			w.Objects[StackRole] = []byte(fault.Log)
			r, err = Refuse(journal.Internal, "%v", fault), nil
		}
	}()
	w.Record.Gate = g.Name
	return g.Run(ctx, w)
}

// AskAlone runs the gate under the machine's shared lock, so that nothing is timed meanwhile. A gate with Own takes the lock itself.
func (g Gate) AskAlone(ctx context.Context, m *machine.Lock, w *Work) (*Refusal, error) {
	if g.Own {
		return g.Ask(m.With(ctx), w)
	}
	held, free, err := m.Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	return g.Ask(held, w)
}

// Conclude writes the refusal's verdict, reason and duplicate into the record.
func (w *Work) Conclude(r *Refusal) {
	w.Record.Verdict, w.Record.Reason, w.Record.Of = r.Verdict, r.Reason, r.Of
}

// Mark is a copy of a candidate at a gate. It shares no memory with the work: appending to one does not change the other.
type Mark struct {
	record   *journal.Candidate
	objects  map[string][]byte
	modules  []*ir.Module
	runs     *journal.Timing
	examined bool
}

// Mark copies the candidate before a gate. [Work.Back] returns to it, any number of times.
func (w *Work) Mark() Mark {
	return Mark{w.Record.Clone(), maps.Clone(w.Objects), slices.Clone(w.Modules), w.Runs, w.examined}
}

// Back restores the candidate to the state of the mark.
func (w *Work) Back(m Mark) {
	*w.Record, w.Objects, w.Modules, w.Runs, w.examined = *m.record.Clone(), maps.Clone(m.objects), slices.Clone(m.modules), m.runs, m.examined
}
