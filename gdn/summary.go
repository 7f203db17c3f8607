package gdn

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// Whatever the rule, a range of tokens maps the state before it to the state after it by an affine map:
//
//	S_after = M S_before + O,   M [K, K],   O [K, V]
//
// M and O are the range's summary. For the gated delta rule M is the product of e^g (I - beta k k^T) over the tokens. The rule applied to the identity
// with zero values gives M; applied to the zero state it gives O. So one run of the rule's own kernel from the state [I | 0], with
// values [0 | v] of width K + V, gives [M | O]. This holds for any decay and update.
//
// For a sequence split over devices, a scan over summaries gives its states. A scan over the transposed maps gives the gradients of the states:
//
//	dS_before = M^T dS_after + D
//
// where D is the gradient of the state before the range if only the range's outputs count. build.Summary computes M and O, build.StateGradient D, package
// parallel the scans. The chunkwise form of Yang et al., 2024 (arXiv 2412.06464) is the same recursion one level below.

// Names of the results of a summary.
const (
	TransitionName = "transition" // M
	OffsetName     = "offset"     // O
)

// Summarized returns the spec whose kernel computes the summaries of s: values and states have K more columns, in front.
func (s Spec) Summarized() Spec {
	s.Direction, s.V = Forward, s.K+s.V
	s.Init, s.Final, s.State, s.StateDType = true, true, StateKV, ir.F32
	s.Empty, s.Pool, s.InPlace, s.Read, s.Every, s.Scale = EmptyKeep, 0, false, false, 0, 0
	return s
}

// SummaryInputs returns the inputs of a summary: the forward inputs of s without q and initial_state.
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

// SummaryOutputs returns the results of a summary, float32 per sequence and value head: transition [N, Hv, K, K] and offset [N, Hv, K, V].
// The state layout of s does not matter.
func (s Spec) SummaryOutputs() []Param {
	n := s.Sequences()
	return []Param{{TransitionName, ir.T(ir.F32, n, s.HeadsV, s.K, s.K)}, {OffsetName, ir.T(ir.F32, n, s.HeadsV, s.K, s.V)}}
}

// SummaryVariant returns v changed so that it can compute summaries: chunkwise, in one kernel that carries the state. It fails if v is not chunkwise, s
// has rows=qkv, or the result does not pass Check.
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

// OfStateGradient returns the backward spec whose output dinitial_state is D.
func (s Spec) OfStateGradient() Spec {
	s.Direction, s.Init, s.Final = Backward, true, false
	s.State, s.StateDType, s.Empty, s.Pool, s.InPlace = StateKV, ir.F32, EmptyKeep, 0, false
	s.Read, s.Every = false, 0
	return s
}

// StateGradientInputs returns the inputs of build.StateGradient: the backward inputs without v and initial_state.
func (s Spec) StateGradientInputs() []Param {
	var l []Param
	for _, p := range s.OfStateGradient().Inputs() {
		if p.Name != "v" && p.Name != "initial_state" {
			l = append(l, p)
		}
	}
	return l
}
