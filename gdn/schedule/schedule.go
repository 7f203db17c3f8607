// Package schedule turns the schedule axes of a variant into the order of a kernel's steps. It changes no program: one built and
// tiled program can take different schedules.
//
// Chunks of a sequence update the state one after the other, by a chain of three products. Nothing in the same chunk can hide their latency, but
// work of the next chunks that needs no state can (codegen/tpu/internal/pipeline draws an example). With phases_before=1 this work is one phase;
// with 2 the inverse has its own phase after it. bwd.phases_after=1 is a phase for work that only reads the gradient of the state.
package schedule

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Carrier is a grid whose steps can be scheduled, usually because it carries a state.
type Carrier struct {
	Grid      string // name of the grid
	Heads     int    // interleaved heads, over all batch rows and chunks of a step
	Reverse   bool   // the grid takes chunks from last to first
	With      string // a stage placed in the state's phase, though it needs no state
	Enter     []int  // windows of the initial states of sequences
	Stateless bool   // no state is carried; the steps run one after another, all heads interleaved
	Decodes   bool   // the grid takes the first sequences of a mixed batch, with the variant v.Decoding()
}

// Of returns the schedules by grid name. Grids that keep their built order are absent.
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

// Ordered reports whether a variant has a schedule for forward grids.
//
// Builders ask before a grid exists. The number of heads does not affect the result, so forward gets 1.
func Ordered(v gdn.Variant) bool { return forward(v, 1) != nil }

// Reversed reports whether a variant has a schedule for grids that take chunks from last to first.
func Reversed(v gdn.Variant) bool { return reverse(v, 1) != nil }

// Attach sets Sched in the grids of a module by name, and fails if a schedule does not fit its grid.
//
// It covers the instructions of the module's body, where builders put grids. A grid without an entry keeps its built order.
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

// forward returns the schedule of a forward grid, or nil to keep the built order. Stages that it does not name are in phase 0 or in the state's phase,
// depending on whether they need the state. So only the solve may need an entry.
func forward(v gdn.Variant, heads int) *ir.Sched {
	s := newSched(v.Forward.Steps, v.Forward.HeadGroup, heads, v.Forward.PhasesBefore, 0)
	if s == nil {
		return nil
	}
	s.Late, s.Grain, s.Fetch = v.Forward.StateDelay, v.Forward.Grain, v.Forward.Prefetch == gdn.PrefetchDMA
	// On v6e, PrologueEnd at .8 of the slot was 2 % faster than at .7, and half a percent faster than at .9.
	if v.Forward.PrologueEnd != 100 {
		s.Ends = slices.Repeat([]int{100}, len(s.Lags))
		s.Ends[0] = v.Forward.PrologueEnd
	}
	if v.Forward.StateWhole {
		s.With = []string{"state"}
	}
	// In the first 400 of 3500 cycles of a step the vector unit was 27 % busy, since products come first. Operands only wait for the gates.
	if v.Forward.Interleave {
		s.Side = []string{"operands"}
	}
	if v.Forward.PhasesBefore == 2 {
		s.Phases = []ir.StagePhase{{Stage: "solve", Phase: 1}}
	}
	return s
}

// gradients are the stages of a reverse grid that need dS but do not produce it. dS passes from chunk to chunk, last to first, as the state does forward.
// These stages only read it, so they can run a step later, next to the chain of the next chunk.
//
// This phase made a backward kernel 3 % faster and cut its spills from 81 to 39 thousand.
var gradients = []string{"dq", "dk", "dg", "output"}

// reverse returns the schedule of a reverse grid, or nil to keep the built order.
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

// newSched returns a schedule with phases ahead of the state and behind it; nil if nothing is to be scheduled.
//
// lags[p] = p last / n, with n = ahead + behind and last = n rounded up to whole steps. lock is the number of interleaved heads; 0 means heads.
func newSched(steps, lock, heads, ahead, behind int) *ir.Sched {
	if ahead+behind == 0 && steps == 1 && lock == 0 {
		return nil
	}
	s := &ir.Sched{Steps: steps, Lock: lock, After: behind}
	if lock == 0 {
		s.Lock = heads
	}
	// Results must come from whole steps, so the last lag is a multiple of steps. Two phases ahead: lags 0, 1, 2 in steps of two chunks,
	// 0, 2, 4 in steps of four. One phase ahead in steps of two: 0, 2.
	n := ahead + behind
	last := (n + steps - 1) / steps * steps
	for p := range n + 1 {
		s.Lags = append(s.Lags, p*last/max(n, 1))
	}
	return s
}
