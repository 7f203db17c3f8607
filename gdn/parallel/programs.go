package parallel

import (
	"fmt"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
)

// Programs are the modules that each device runs. Parameters and results have the names in package gdn: of the part's spec, SummaryInputs and
// StateGradientInputs.
type Programs struct {
	Part gdn.Spec // spec of one part, with states [N, Hv, K, V] in float32 as input and output

	Summary       *ir.Module // transition M and offset O of a part
	StateGradient *ir.Module // D as dinitial_state
	Forward       *ir.Module // outputs of a part from the state before it
	Backward      *ir.Module // gradients of a part's inputs

	Compose, ComposeBack *ir.Module // see BuildCompose
	Carry, CarryBack     *ir.Module // see BuildCarry
}

// New returns the programs for a sequence of s in n parts of equal length. forward is the variant of forward and summary, backward the variant of gradients;
// nil omits the gradient programs. The direction of s is ignored. It fails if n does not divide the tokens or a variant cannot be built.
func New(s gdn.Spec, n int, forward gdn.Variant, backward *gdn.Variant) (*Programs, error) {
	part, err := partOf(s, n)
	if err != nil {
		return nil, err
	}
	p := &Programs{Part: part}
	back := part
	back.Direction = gdn.Backward
	type program struct {
		at    **ir.Module
		build func() (*ir.Module, error)
	}
	programs := []program{
		{&p.Summary, func() (*ir.Module, error) { return build.Summary(part, forward) }},
		{&p.Compose, func() (*ir.Module, error) { return BuildCompose(part, false) }},
		{&p.Carry, func() (*ir.Module, error) { return BuildCarry(part, false) }},
		{&p.Forward, func() (*ir.Module, error) { return build.Module(part, forward) }},
	}
	if backward != nil {
		programs = append(programs,
			program{&p.StateGradient, func() (*ir.Module, error) { return build.StateGradient(part, *backward) }},
			program{&p.ComposeBack, func() (*ir.Module, error) { return BuildCompose(part, true) }},
			program{&p.CarryBack, func() (*ir.Module, error) { return BuildCarry(part, true) }},
			program{&p.Backward, func() (*ir.Module, error) { return build.Module(back, *backward) }})
	}
	for _, m := range programs {
		if *m.at, err = m.build(); err != nil {
			return nil, fmt.Errorf("parallel: %d parts of %s: %w", n, s, err)
		}
	}
	return p, nil
}

// partOf returns the spec of one of n parts.
func partOf(s gdn.Spec, n int) (gdn.Spec, error) {
	switch {
	case n < 1:
		return s, fmt.Errorf("parallel: %d parts: want one or more", n)
	case s.Tokens%n != 0:
		return s, fmt.Errorf("parallel: %d tokens are not %d parts of equal length: pad them (a padded token has beta 0 and log decay 0)", s.Tokens, n)
	case s.Seqs > 0 || s.Pool > 0 || s.InPlace || s.Every > 0:
		return s, fmt.Errorf("parallel: %s: one sequence a batch row is split: leave out seqs, pool, inplace and every", s)
	case s.Conv > 0:
		return s, fmt.Errorf("parallel: %s: a part needs the last tokens of the one before it (Halo): convolve before, and leave out conv", s)
	case s.Init && (s.State != gdn.StateKV || s.StateDType != ir.F32):
		return s, fmt.Errorf("parallel: %s: states pass between parts as [N, Hv, K, V] in float32: leave out state and statedtype", s)
	}
	s.Direction, s.Tokens = gdn.Forward, s.Tokens/n
	s.Init, s.Final, s.State, s.StateDType = true, true, gdn.StateKV, ir.F32
	return s, nil
}

// types returns the types of M and of a state of a part.
func types(s gdn.Spec) (transition, state ir.Type) {
	l := s.SummaryOutputs()
	return l[0].Type, l[1].Type
}

// product returns M x for each sequence and head, or M^T x, in float32.
func product(b *ir.Builder, m, x *ir.Value, turned bool) *ir.Value {
	axis := 3
	if turned {
		axis = 2
	}
	return b.Dot(m, x, ir.DotDims{LB: []int{0, 1}, RB: []int{0, 1}, LC: []int{axis}, RC: []int{2}}, ir.PrecF32)
}

// BuildCompose returns the module that composes the maps of two neighbours. Inputs: first_transition [N, Hv, K, K] and first_offset [N, Hv, K, V] of the
// earlier tokens, then last_transition and last_offset. Results: transition and offset of both together,
//
//	M = M_last M_first,   O = M_last O_first + O_last.
//
// For gradients (back) the range is traversed from its end, and the offsets are D:
//
//	D = M_first^T D_last + D_first.
func BuildCompose(s gdn.Spec, back bool) (*ir.Module, error) {
	transition, state := types(s)
	m, b := ir.NewModule("compose")
	b.Stage("compose")
	first, firstOffset := b.Param("first_"+gdn.TransitionName, transition), b.Param("first_"+gdn.OffsetName, state)
	last, lastOffset := b.Param("last_"+gdn.TransitionName, transition), b.Param("last_"+gdn.OffsetName, state)
	offset := b.Add(product(b, last, firstOffset, false), lastOffset)
	if back {
		offset = b.Add(product(b, first, lastOffset, true), firstOffset)
	}
	return m, b.Finish(m, []string{gdn.TransitionName, gdn.OffsetName}, []*ir.Value{product(b, last, first, false), offset})
}

// BuildCarry returns the module that carries a state over a range: from transition, offset and state to M S + O, or for gradients (back) M^T dS + D.
func BuildCarry(s gdn.Spec, back bool) (*ir.Module, error) {
	transition, state := types(s)
	m, b := ir.NewModule("carry")
	b.Stage("carry")
	over, offset := b.Param(gdn.TransitionName, transition), b.Param(gdn.OffsetName, state)
	return m, b.Finish(m, []string{"state"}, []*ir.Value{b.Add(product(b, over, b.Param("state", state), back), offset)})
}
