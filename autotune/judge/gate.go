// Package judge leads candidates of a search through gates, in the order of their price. A gate passes a candidate, refuses it with a typed
// verdict (package journal), or fails: a fault of the machinery is an error and no verdict. [Lab] judges kernels of TPUs by the
// interpreter, a CPU, the TPU's compiler and, where one is attached, a device; [GPULab] those of GPUs by Triton and the model of their
// machine code. What a gate finds is in the candidate's record; of other candidates it knows what the journal says. Who proposes,
// records and ranks is the driver, package autotune.
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
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/machine"
)

// Shape is a spec that is weighed with others: its score counts Weight times.
type Shape struct {
	Spec   gdn.Spec
	Weight float64
}

// Evaluator judges candidates.
type Evaluator interface {
	// Gates lists the gates in the order of their price.
	Gates() []Gate
	// Plugins names what the judgement depends on beside the program itself, with versions.
	Plugins() map[string]string
	Close() error
}

// Gate is one step of the judgement.
type Gate struct {
	Name, Doc string
	Price     time.Duration // typical, on one core
	// Again says that the gate asks for earlier candidates. It is asked again when the candidate's turn comes to be
	// recorded, for those that were judged at the same time.
	Again bool
	// Own says that the gate takes the machine itself, by the lock of its context. Others compute under it.
	Own bool
	// Clocked says that the gate itself writes into Wall how long it took.
	Clocked bool
	// Run judges. A nil refusal lets the candidate pass. An error is a failure of the machinery.
	Run func(context.Context, *Work) (*Refusal, error)
}

// Refusal ends a judgement.
type Refusal struct {
	Verdict journal.Verdict `json:"verdict"`
	Reason  string          `json:"reason"`
	Of      int             `json:"of,omitempty"` // the earlier candidate, where this is a duplicate
}

// LostError says that whoever judged a candidate elsewhere was lost on the way. The candidate is judged anew, by another where there is one.
type LostError struct {
	Node string // the machine, as far as it is known
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the worker on %s was lost: %v", e.Node, e.Err)
}
func (e *LostError) Unwrap() error { return e.Err }

// Refuse ends a judgement with a verdict and its reason.
func Refuse(v journal.Verdict, format string, args ...any) *Refusal {
	return &Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
}

// Work is a candidate on its way through the gates.
type Work struct {
	Spec      gdn.Spec // the first of the shapes
	Shapes    []Shape  // those that are weighed
	Targets   []*target.Target
	GPUs      []*target.GPU // in place of Targets
	Ruler     measure.Ruler // of the run; on each target as far as it has it
	Seed      uint64
	Objective objective.Objective
	Least     string // the lowest precision allowed
	Variant   gdn.Variant
	Text      string             // of a program, in place of a variant
	Known     journal.View       // the earlier candidates that may be asked for
	Record    *journal.Candidate // filled on the way
	Modules   []*ir.Module       // for each of Shapes
	Objects   map[string][]byte  // to be stored, by role
	Wall      map[string]float64 // seconds by gate
	Runs      *journal.Timing    // on a device
	Node      string             // the machine that judged, where that is another
	Left      any                // what one gate of the evaluator leaves for the next

	examined bool // its kernels, on every class of inputs
}

// clock adds the time since start to a gate.
func (w *Work) clock(gate string, start time.Time) { w.Wall[gate] += time.Since(start).Seconds() }

// StackRole is the object that holds the stack of a panic.
const StackRole = "stack"

// Ask runs the gate. A panic is our fault, not the candidate's: the stack is kept.
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

// AskAlone runs the gate while no other process measures, unless the gate takes the lock of the machine itself.
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

// Conclude writes the refusal into the record.
func (w *Work) Conclude(r *Refusal) {
	w.Record.Verdict, w.Record.Reason, w.Record.Of = r.Verdict, r.Reason, r.Of
}

// Mark is a candidate as a gate found it. It shares nothing with the work that goes on: what is appended to one is not seen by the other.
type Mark struct {
	record   *journal.Candidate
	objects  map[string][]byte
	modules  []*ir.Module
	runs     *journal.Timing
	examined bool
}

// Mark remembers the candidate before a gate. [Work.Back] returns to it, as often as is asked.
func (w *Work) Mark() Mark {
	return Mark{w.Record.Clone(), maps.Clone(w.Objects), slices.Clone(w.Modules), w.Runs, w.examined}
}

// Back restores the candidate to the state of the mark.
func (w *Work) Back(m Mark) {
	*w.Record, w.Objects, w.Modules, w.Runs, w.examined = *m.record.Clone(), maps.Clone(m.objects), slices.Clone(m.modules), m.runs, m.examined
}
