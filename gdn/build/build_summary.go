package build

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Summary returns the program of the summary of a range of tokens: parameters are s.SummaryInputs, results s.SummaryOutputs. The direction of s is
// ignored. Products with M use v's precision of products with the state; M itself stays in float32. It fails if v cannot compute summaries.
//
// The rule's own kernel computes the map S to M S + O (gdn/summary.go), from states of K + V columns, [I | 0] before the range, and values whose
// first K columns are zero (tiles.led). Columns of a state do not interact: the first K pass like a state with zero values, and become M I; the last V
// begin at zero, and become O.
//
//	K = 2, V = 1:   1 0 | 0       m00 m01 | o0
//	                0 1 | 0  ->   m10 m11 | o1
//
// There is no q, so a chunk makes no P and no output.
func Summary(s gdn.Spec, v gdn.Variant) (*ir.Module, error) {
	v, err := v.SummaryVariant(s)
	if err != nil {
		return nil, err
	}
	wide := s.Summarized()
	m, b := ir.NewModule("summary")
	v = v.Fit(wide)
	p := newPlan(wide, v, b, s.SummaryInputs())
	p.lead = s.K
	var results []*ir.Value
	err = p.guarded(func() {
		p.args["initial_state"] = tile.IdentityFirst(b, wide.K, wide.StateType())
		in := p.xlaIn()
		r := p.grid("summary", in, slices.Concat([]*operand{in.k}, in.values(), in.gates()), in.state, takes(newChunks, (*chunks).fused))
		state := b.Stage("glue").Reshape(r.state, wide.Sequences(), wide.HeadsV, s.K, s.K+s.V)
		results = []*ir.Value{b.SliceAxis(state, 3, 0, s.K), b.SliceAxis(state, 3, s.K, s.K+s.V)}
	})
	if err == nil {
		err = b.Finish(m, []string{gdn.TransitionName, gdn.OffsetName}, results)
	}
	if err == nil {
		err = p.schedule(m, v)
	}
	if err != nil {
		return nil, fmt.Errorf("build the summary of %s by %s: %w", s, v, err)
	}
	return m, nil
}

// StateGradient returns the program of D, the gradient of the state before a range of tokens if only the range's outputs count. Parameters
// are q, k, the gates and do of s, and cu_seqlens for packed sequences; the result is dinitial_state [N, Hv, K, V] in float32. It reads neither v nor a
// state, since neither affects this gradient. The direction of s is ignored.
//
// It is the reverse grid with dS = 0 after the range, without outputs: its carry after the first chunk is D. Nothing was saved, so T is recomputed.
func StateGradient(s gdn.Spec, v gdn.Variant) (*ir.Module, error) {
	s = s.OfStateGradient()
	if err := v.Check(s); err != nil {
		return nil, err
	}
	m, b := ir.NewModule("state_gradient")
	v = v.Fit(s)
	p := newPlan(s, v, b, s.StateGradientInputs())
	// The plan of a reverse grid, as in plan.backward, without a forward grid.
	p.v.Mapping.Chunks, p.v.Numerics.DecayBF16, p.down = 1, p.v.Training.DecayBF16, true
	var result *ir.Value
	err := p.guarded(func() {
		in := p.xlaIn()
		p.gradientsIn(in)
		r := p.grid("state_gradient", in, append([]*operand{in.q, in.k, in.do}, in.gates()...), in.dstate, takes(newReverse, (*reverse).states))
		result = p.stateOut(in, r.state)
	})
	if err == nil {
		err = b.Finish(m, []string{"dinitial_state"}, []*ir.Value{result})
	}
	if err == nil {
		err = p.schedule(m, v)
	}
	if err != nil {
		return nil, fmt.Errorf("build the gradient of the state of %s by %s: %w", s, v, err)
	}
	return m, nil
}
