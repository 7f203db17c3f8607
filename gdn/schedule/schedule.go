// Package schedule says how the steps of kernels overlap, by the axes of a variant that order instructions. It changes no program: what is
// built and tiled once can have one schedule after another.
package schedule

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Carrier is a grid that carries a state, so that its steps can overlap.
type Carrier struct {
	Grid    string // its name
	Heads   int    // in lockstep, those of all batch rows and chunks of a step
	Reverse bool   // it takes the chunks from the last to the first
}

// Of gives the schedules of grids by their names; those that keep their order have none.
func Of(carriers []Carrier, v gdn.Variant) map[string]*ir.Sched {
	scheds := map[string]*ir.Sched{}
	for _, c := range carriers {
		s := forward(v, c.Heads)
		if c.Reverse {
			s = reverse(v, c.Heads)
		}
		if s != nil {
			scheds[c.Grid] = s
		}
	}
	return scheds
}

// Ordered says whether a variant has a schedule for the grids that take chunks forward.
func Ordered(v gdn.Variant) bool { return forward(v, 1) != nil }

// Attach writes schedules into the grids of a module.
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

// forward is how the steps of a grid that carries the state overlap as a kernel; nil: they follow one another as built.
func forward(v gdn.Variant, heads int) *ir.Sched {
	s := newSched(v.Forward.Steps, v.Forward.HeadGroup, heads, v.Forward.PhasesBefore, 0)
	if s == nil {
		return nil
	}
	s.Late, s.Fetch = v.Forward.StateDelay, v.Forward.Fetch == gdn.FetchCopies
	if v.Forward.PrologueEnd != 100 {
		s.Ends = slices.Repeat([]int{100}, len(s.Lags))
		s.Ends[0] = v.Forward.PrologueEnd
	}
	if v.Forward.Interleave {
		s.Beside = []string{"operands"}
	}
	if v.Forward.PhasesBefore == 2 {
		s.Phases = []ir.StagePhase{{Stage: "solve", Phase: 1}}
	}
	return s
}

// gradients are the stages of a reverse grid that need dS and make none of it. They stand behind the state.
var gradients = []string{"dq", "dk", "dg", "output"}

// reverse is the schedule of a reverse grid.
func reverse(v gdn.Variant, heads int) *ir.Sched {
	s := newSched(v.Backward.Steps, v.Backward.HeadGroup, heads, v.Backward.PhasesBefore, v.Backward.PhasesAfter)
	if s == nil {
		return nil
	}
	s.Late = v.Backward.StateDelay
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
func newSched(steps, lock, heads, ahead, behind int) *ir.Sched {
	if ahead+behind == 0 && steps == 1 && lock == 0 {
		return nil
	}
	s := &ir.Sched{Steps: steps, Lock: lock, After: behind}
	if lock == 0 {
		s.Lock = heads
	}
	// Results must come from whole steps: the last lag is a multiple of the steps.
	n := ahead + behind
	last := (n + steps - 1) / steps * steps
	for p := range n + 1 {
		s.Lags = append(s.Lags, p*last/max(n, 1))
	}
	return s
}
