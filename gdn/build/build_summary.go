package build

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Summary makes the program of the summary of a range of tokens: parameters are s.SummaryInputs, results s.SummaryOutputs. The direction of
// s does not matter. Products with M are of the precision that v has for products with the state; M itself stays in float32.
//
// The map of a range, S to M S + O (gdn/summary.go), is found by the rule's own kernel on states of K + V columns, [I | 0] before the range, and values whose
// first K columns are zeros (tiles.led). Columns of a state do not meet: the first K pass as a state would whose values are zero, and become M I; the last V
// begin with zeros, and become O.
//
//	K = 2, V = 1:   1 0 | 0       m00 m01 | o0
//	                0 1 | 0  ->   m10 m11 | o1
//
// There is no q, so a chunk makes no P and gives no output.
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

// StateGradient makes the program of D, the gradient of the state before a range of tokens when only the outputs of the range count. Parameters
// are q, k, the gates and do of s, and cu_seqlens where sequences are packed; the result is dinitial_state [N, Hv, K, V] in float32. Neither v nor a
// state is read, since both add to the outputs what no gradient of the state needs. The direction of s does not matter.
//
// It is the reverse grid with dS = 0 behind the range, without outputs: what it carries out of the first chunk is D. Nothing was kept, so T is made again.
func StateGradient(s gdn.Spec, v gdn.Variant) (*ir.Module, error) {
	s = s.OfStateGradient()
	if err := v.Check(s); err != nil {
		return nil, err
	}
	m, b := ir.NewModule("state_gradient")
	v = v.Fit(s)
	p := newPlan(s, v, b, s.StateGradientInputs())
	// The plan of a reverse grid, as plan.backward has it; there is no forward one.
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
