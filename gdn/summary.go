package gdn

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// A range of tokens takes the state before it to the state after it by an affine map, whatever the rule:
//
//	S_after = M S_before + O,   M [K, K],   O [K, V]
//
// M and O are the range's summary. For the gated delta rule M is the product of e^g (I - beta k k^T) over the tokens. It is also what the rule
// itself does to the identity when all values are zero, and O is what it does to zero. So one run of the rule's own kernel from the state [I | 0], with
// values [0 | v] of width K + V, gives [M | O]; a rule with another decay or update needs nothing else.
//
// A sequence that is split over devices has its states by a scan over summaries, and the gradients of its states by one over the transposed maps:
//
//	dS_before = M^T dS_after + D
//
// where D is the gradient of the state before a range of which only the outputs count. build.Summary gives M and O, build.StateGradient D; package
// parallel puts them together. Yang et al., 2024 (arXiv 2412.06464) has the chunkwise form, of which a range is one more level.

// Names of results.
const (
	TransitionName = "transition" // M
	OffsetName     = "offset"     // O
)

// Summarized is the spec whose kernel makes the summary of ranges of s: values and states have K more columns, in front.
func (s Spec) Summarized() Spec {
	s.Direction, s.V = Forward, s.K+s.V
	s.Init, s.Final, s.State, s.StateDType = true, true, StateKV, ir.F32
	s.Empty, s.Pool, s.InPlace, s.Read, s.Every, s.Scale = EmptyKeep, 0, false, false, 0, 0
	return s
}

// SummaryInputs are the inputs of a summary: those of the forward pass of s but q and the initial state.
func (s Spec) SummaryInputs() []Param {
	s.Direction, s.Pool, s.Init, s.Read, s.Every = Forward, 0, false, false, 0
	var l []Param
	for _, p := range s.Inputs() {
		if p.Name != "q" {
			l = append(l, p)
		}
	}
	return l
}

// SummaryOutputs are the results of a summary, in float32 for each sequence and value head: transition [N, Hv, K, K] and offset [N, Hv, K, V]. The
// layout of the states of s does not matter.
func (s Spec) SummaryOutputs() []Param {
	n := s.Sequences()
	return []Param{{TransitionName, ir.T(ir.F32, n, s.HeadsV, s.K, s.K)}, {OffsetName, ir.T(ir.F32, n, s.HeadsV, s.K, s.V)}}
}

// SummaryVariant is the form of a variant in which it makes summaries: in chunks, in one kernel that carries the state. An error says that a choice of it
// does not suit.
func (v Variant) SummaryVariant(s Spec) (Variant, error) {
	v.Form, v.Flow, v.Out, v.Mapping.Pack = FormVPrime, FlowFused, OutSeparate, PackGather
	if v.Algo != AlgoChunk {
		return v, fmt.Errorf("variant: a summary needs algo=chunk: the token recurrence has none")
	}
	if s.Rows == RowsQKV {
		return v, fmt.Errorf("variant: a summary reads k and v alone: set rows=flat")
	}
	return v, v.Check(s.Summarized())
}

// OfStateGradient is the backward spec whose dinitial_state D is.
func (s Spec) OfStateGradient() Spec {
	s.Direction, s.Init, s.Final = Backward, true, false
	s.State, s.StateDType, s.Empty, s.Pool, s.InPlace = StateKV, ir.F32, EmptyKeep, 0, false
	s.Read, s.Every = false, 0
	return s
}

// StateGradientInputs are the inputs of build.StateGradient.
func (s Spec) StateGradientInputs() []Param {
	var l []Param
	for _, p := range s.OfStateGradient().Inputs() {
		if p.Name != "v" && p.Name != "initial_state" {
			l = append(l, p)
		}
	}
	return l
}
