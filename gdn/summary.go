package gdn

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
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
// where D is the gradient of the state before a range of which only the outputs count. BuildSummary gives M and O, BuildStateGradient D; package
// parallel puts them together. Yang et al., 2024 (arXiv 2412.06464) has the chunkwise form, of which a range is one more level.

// Names of results.
const (
	TransitionName = "transition" // M
	OffsetName     = "offset"     // O
)

// summarized is the spec whose kernel makes the summary of ranges of s: values and states have K more columns, in front.
func (s Spec) summarized() Spec {
	s.Direction, s.V = Forward, s.K+s.V
	s.Init, s.Final, s.State, s.StateDType = true, true, StateKV, ir.F32
	s.Empty, s.Pool, s.InPlace, s.Scale = EmptyKeep, 0, false, 0
	return s
}

// SummaryInputs are the inputs of a summary: those of the forward pass of s but q and the initial state.
func (s Spec) SummaryInputs() []Param {
	s.Direction, s.Pool, s.Init = Forward, 0, false
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
	v.Form, v.Flow, v.Out = FormVPrime, FlowFused, OutSeparate
	if v.Pack == PackAligned || v.Pack == PackStream || v.Pack == PackMasked {
		v.Pack = PackGather
	}
	if v.Algo != AlgoChunk {
		return v, fmt.Errorf("variant: a summary needs algo=chunk: the token recurrence has none")
	}
	return v, v.Check(s.summarized())
}

// BuildSummary makes the program of the summary of a range of tokens: parameters are s.SummaryInputs, results s.SummaryOutputs. The direction of
// s does not matter. Products with M are of the precision that v has for products with the state; M itself stays in float32.
func BuildSummary(s Spec, v Variant) (*ir.Module, error) {
	v, err := v.SummaryVariant(s)
	if err != nil {
		return nil, err
	}
	wide := s.summarized()
	m, b := ir.NewModule("summary")
	p := newPlan(wide, v.Fit(wide), b, s.SummaryInputs())
	p.lead = s.K
	var results []*ir.Value
	err = p.guarded(func() {
		p.args["initial_state"] = identityFirst(b, wide)
		in := p.glueIn()
		r := p.grid("summary", in, append([]*operand{in.k, in.v}, in.gates()...), in.state, (*gen).fused)
		state := b.Stage("glue").Reshape(r.state, wide.Sequences(), wide.HeadsV, s.K, s.K+s.V)
		results = []*ir.Value{b.SliceAxis(state, 3, 0, s.K), b.SliceAxis(state, 3, s.K, s.K+s.V)}
	})
	if err == nil {
		err = b.Finish(m, []string{TransitionName, OffsetName}, results)
	}
	if err != nil {
		return nil, fmt.Errorf("build the summary of %s by %s: %w", s, v, err)
	}
	return m, nil
}

// identityFirst is the state [I | 0] of every sequence and head.
func identityFirst(b *ir.Builder, s Spec) *ir.Value {
	one := ir.T(ir.I32, s.K, s.V)
	eye := b.Select(b.Compare(ir.EQ, b.Iota(one, 0), b.Iota(one, 1)), b.Const(ir.T(ir.F32, one.Shape...), 1), b.Const(ir.T(ir.F32, one.Shape...), 0))
	return b.Broadcast(eye, s.stateType().Shape, 2, 3)
}

// BuildStateGradient makes the program of D, the gradient of the state before a range of tokens when only the outputs of the range count. Parameters
// are q, k, the gates and do of s, and cu_seqlens where sequences are packed; the result is dinitial_state [N, Hv, K, V] in float32. Neither v nor a
// state is read, since both add to the outputs what no gradient of the state needs. The direction of s does not matter.
func BuildStateGradient(s Spec, v Variant) (*ir.Module, error) {
	s = s.ofStateGradient()
	if err := v.Check(s); err != nil {
		return nil, err
	}
	m, b := ir.NewModule("state_gradient")
	p := newPlan(s, v.Fit(s), b, s.StateGradientInputs())
	p.v.Chunks, p.v.Low, p.down = 1, p.v.BackLow, true
	var result *ir.Value
	err := p.guarded(func() {
		in := p.glueIn()
		p.gradientsIn(in)
		r := p.grid("state_gradient", in, append([]*operand{in.q, in.k, in.do}, in.gates()...), in.dstate, (*gen).stateGradient)
		result = p.stateOut(in, r.state)
	})
	if err == nil {
		err = b.Finish(m, []string{"dinitial_state"}, []*ir.Value{result})
	}
	if err != nil {
		return nil, fmt.Errorf("build the gradient of the state of %s by %s: %w", s, v, err)
	}
	return m, nil
}

// ofStateGradient is the backward spec whose dinitial_state D is.
func (s Spec) ofStateGradient() Spec {
	s.Direction, s.Init, s.Final = Backward, true, false
	s.State, s.StateDType, s.Empty, s.Pool, s.InPlace = StateKV, ir.F32, EmptyKeep, 0, false
	return s
}

// StateGradientInputs are the inputs of BuildStateGradient.
func (s Spec) StateGradientInputs() []Param {
	var l []Param
	for _, p := range s.ofStateGradient().Inputs() {
		if p.Name != "v" && p.Name != "initial_state" {
			l = append(l, p)
		}
	}
	return l
}

// stateGradient takes a chunk backwards, as far as the gradient of the state goes: see the head of backward.go.
func (e *gen) stateGradient() []blockOut {
	b := e.b.Stage("load")
	q, k := e.loadKey(e.in.q), e.loadKey(e.in.k)
	do := e.loadRows(e.in.do)
	w := e.loadGates()
	e.sums(&w)
	b.Stage("gates")
	grown := e.exp(w.sum)
	left := b.Mul(e.exp(w.left), w.beta)
	b.Stage("products")
	kq, kk := e.turnedProducts(q, k)
	f := e.turnedDecay(w)
	b.Stage("decay")
	pt, kd := e.store(e.times(kq, f)), e.store(e.byRows(e.perValue(k), left))
	tt, _ := e.bothInverses(kk, w)
	e.stateBackward(q, k, e.store(do), pt, kd, tt, grown, left)
	return nil
}

// ReferenceSummary is the summary in float64, token by token; inputs are those of s.SummaryInputs. Results have element type F64.
func ReferenceSummary(s Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	wide := s.summarized()
	all := maps.Clone(inputs)
	for _, p := range wide.Inputs() {
		switch p.Name {
		case "q":
			all["q"] = array.New(p.Type.DType, p.Type.Shape...)
		case "v":
			if v := inputs["v"]; v != nil {
				all["v"] = array.FromFloat64s(p.Type.DType, p.Type.Shape, columns(v.Float64s(), s.V, wide.V, s.K))
			}
		case "initial_state":
			eye := make([]float64, p.Type.Size())
			for i := range eye {
				if i%wide.V == i/wide.V%s.K {
					eye[i] = 1
				}
			}
			all["initial_state"] = array.FromFloat64s(ir.F32, p.Type.Shape, eye)
		}
	}
	made, err := Reference(wide, all)
	if err != nil {
		return nil, err
	}
	out, states := map[string]*array.Array{}, made["final_state"].Float64s()
	for _, p := range s.SummaryOutputs() {
		first, width := 0, s.K
		if p.Name == OffsetName {
			first, width = s.K, s.V
		}
		var l []float64
		for row := range slices.Chunk(states, wide.V) {
			l = append(l, row[first:first+width]...)
		}
		out[p.Name] = array.FromFloat64s(ir.F64, p.Type.Shape, l)
	}
	return out, nil
}

// columns puts rows of one width into rows of zeros of another, from a column on.
func columns(x []float64, width, into, at int) []float64 {
	var y []float64
	for row := range slices.Chunk(x, width) {
		wide := make([]float64, into)
		copy(wide[at:], row)
		y = append(y, wide...)
	}
	return y
}

// ReferenceStateGradient is D in float64; inputs are those of s.StateGradientInputs. The result has element type F64.
func ReferenceStateGradient(s Spec, inputs map[string]*array.Array) (*array.Array, error) {
	s = s.ofStateGradient()
	all := maps.Clone(inputs)
	for _, p := range s.Inputs() {
		if p.Name == "v" || p.Name == "initial_state" {
			all[p.Name] = array.New(p.Type.DType, p.Type.Shape...)
		}
	}
	made, err := Reference(s, all)
	return made["dinitial_state"], err
}
