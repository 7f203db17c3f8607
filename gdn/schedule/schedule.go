// Package schedule says how the steps of kernels overlap, by the axes of a variant that order instructions. It changes no program: what is
// built and tiled once can have one schedule after another.
//
// Chunks of a sequence must pass through the state one after the other, and that is a chain of three products whose latency nothing in the same
// chunk can hide. What a chunk does without the state can be done for the next one meanwhile, in phases of which codegen/tpu/internal/pipeline
// draws an example. Here is what the axes say of them: phases_before=1 parts what needs no state from the state's chain, 2 gives the inverse a
// phase between the two; bwd.phases_after=1 is what reads the gradient of the state and hands nothing on.
package schedule

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Carrier is a grid that carries a state, so that its steps can overlap.
type Carrier struct {
	Grid      string // its name
	Heads     int    // interleaved, those of all batch rows and chunks of a step
	Reverse   bool   // it takes the chunks from the last to the first
	With      string // a stage that is in the phase of the state, though it needs none
	Enter     []int  // windows of the states that sequences start from
	Stateless bool   // it carries no state: its steps follow one another, as many as run
	Decodes   bool   // it takes the first sequences of a mixed batch, by a variant of their own
}

// Of gives the schedules of grids by their names; those that keep their order have none.
func Of(carriers []Carrier, v gdn.Variant) map[string]*ir.Sched {
	scheds := map[string]*ir.Sched{}
	for _, c := range carriers {
		s := forward(v, c.Heads)
		if c.Stateless {
			s = &ir.Sched{Steps: 1, Lags: []int{0}, Lock: c.Heads, Fetch: true}
		}
		if c.Decodes {
			s = forward(v.Decoding(), c.Heads)
		}
		if c.Reverse {
			s = reverse(v, c.Heads)
		}
		if s != nil {
			if c.With != "" {
				s.With = append(s.With, c.With)
			}
			s.Enter = c.Enter
			scheds[c.Grid] = s
		}
	}
	return scheds
}

// Ordered says whether a variant has a schedule for the grids that take chunks forward.
//
// Builders ask before there is a grid, and heads only say how many are interleaved where the variant does not. So any number will do.
func Ordered(v gdn.Variant) bool { return forward(v, 1) != nil }

// Reversed is Ordered for those that take them from the last to the first.
func Reversed(v gdn.Variant) bool { return reverse(v, 1) != nil }

// Attach writes schedules into the grids of a module.
//
// It looks at the module's own instructions, where builders put their grids; one without a row in scheds keeps the order in which it was built.
func Attach(m *ir.Module, scheds map[string]*ir.Sched) error {
	for _, in := range m.Body.Instrs {
		g := in.Attrs.Grid
		if g == nil || scheds[g.Name] == nil {
			continue
		}
		if err := scheds[g.Name].Check(g); err != nil {
			return fmt.Errorf("grid %s: %w", g.Name, err)
		}
		g.Sched = scheds[g.Name]
	}
	return nil
}

// forward is how the steps of a grid that carries the state overlap as a kernel; nil: they follow one another as built. Stages that it
// does not name are of phase 0 or of the state's, as they need the state or not: it need only say that the solve has a phase of its own.
func forward(v gdn.Variant, heads int) *ir.Sched {
	s := newSched(v.Forward.Steps, v.Forward.HeadGroup, heads, v.Forward.PhasesBefore, 0)
	if s == nil {
		return nil
	}
	s.Late, s.Grain, s.Fetch = v.Forward.StateDelay, v.Forward.Grain, v.Forward.Fetch == gdn.FetchCopies
	// On v6e a first phase done at .8 of its slot was 2 % faster than one at .7, and half a percent than one at .9.
	if v.Forward.PrologueEnd != 100 {
		s.Ends = slices.Repeat([]int{100}, len(s.Lags))
		s.Ends[0] = v.Forward.PrologueEnd
	}
	if v.Forward.StateWhole {
		s.With = []string{"state"}
	}
	// In the first 400 of 3500 cycles of a step the vector unit was at 27 %, since products come first; operands wait for nothing but the gates.
	if v.Forward.Interleave {
		s.Side = []string{"operands"}
	}
	if v.Forward.PhasesBefore == 2 {
		s.Phases = []ir.StagePhase{{Stage: "solve", Phase: 1}}
	}
	return s
}

// gradients are the stages of a reverse grid that need dS and make none of it. They are behind the state: the gradient of the state passes
// from chunk to chunk as the state does forward, from the last to the first, but most of the work reads it and hands nothing on. That may
// come a step later, beside the next chunk's chain.
//
// With this phase a backward kernel took 3 % less, and its spills went from 81 to 39 thousand.
var gradients = []string{"dq", "dk", "dg", "output"}

// reverse is the schedule of a reverse grid.
func reverse(v gdn.Variant, heads int) *ir.Sched {
	s := newSched(v.Backward.Steps, v.Backward.HeadGroup, heads, v.Backward.PhasesBefore, v.Backward.PhasesAfter)
	if s == nil {
		return nil
	}
	s.Late, s.Grain = v.Backward.StateDelay, v.Backward.Grain
	if v.Backward.PhasesAfter > 0 {
		for _, stage := range append(slices.Clone(gradients), "store") {
			s.Phases = append(s.Phases, ir.StagePhase{Stage: stage, Phase: s.State() + 1})
		}
		if v.Backward.HeadSkew > 0 {
			s.Waves, s.Stagger = slices.Clone(gradients), v.Backward.HeadSkew
		}
	}
	return s
}

// newSched is a schedule with phases ahead of the state and behind it.
//
// lags[p] = p last / n for n = ahead + behind, last being n rounded up to whole steps. heads is the lockstep where lock is 0: all of them.
func newSched(steps, lock, heads, ahead, behind int) *ir.Sched {
	if ahead+behind == 0 && steps == 1 && lock == 0 {
		return nil
	}
	s := &ir.Sched{Steps: steps, Lock: lock, After: behind}
	if lock == 0 {
		s.Lock = heads
	}
	// Results must come from whole steps: the last lag is a multiple of the steps. For two phases ahead in steps of two chunks lags
	// are 0, 1, 2; of four chunks 0, 2, 4; for one phase ahead in steps of two they are 0, 2.
	n := ahead + behind
	last := (n + steps - 1) / steps * steps
	for p := range n + 1 {
		s.Lags = append(s.Lags, p*last/max(n, 1))
	}
	return s
}
