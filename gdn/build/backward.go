package build

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Training returns a training step as two programs, for callers that compute the loss between them. The forward module
// takes the inputs of the forward spec. It returns its outputs, then the saved values: kept_s, kept_t, kept_u as far as save says, each
// with a kept_x_rest if it is saved as two parts. The backward module takes the inputs of the spec with direction=train, then the saved values, and returns
// the gradients. The direction of s is ignored. It fails if v cannot be built for training s.
//
// With save=none nothing is saved, and the backward module recomputes the states. The numbers equal direction=train in one module, since the grids are equal.
//
//	train, T = 512, by tpu-train      forward    q k v g beta -> o final_state kept_s kept_t kept_u
//	                                  backward   q k v g beta do dfinal_state kept_s kept_t kept_u -> dq dk dv dg dbeta
//	by tpu-train-x3                   kept_u_rest beside kept_u; T in two parts is one matrix, and S is read in one pass
//
// Each saved value is [1, 4, 8, 64, 128] u32 here: batch rows, chunks, value heads, and 128 x 128 bf16 numbers as words of two rows.
func Training(s gdn.Spec, v gdn.Variant) (forward, backward *ir.Module, err error) {
	s.Direction = gdn.Train
	if s.Rule != (gdn.Rule{}) && !s.Rule.Channels() {
		return nil, nil, &gdn.UnsupportedError{Reason: fmt.Sprintf("the two passes of rule=%s are no modules of their own: build direction=train, or take rule=gdn", s.Rule)}
	}
	if err := v.Check(s); err != nil {
		return nil, nil, err
	}
	v = v.Fit(s)
	// The plan is a training step's, since both passes share its variant; the parameters are the forward pass's.
	plain := s
	plain.Direction = gdn.Forward
	forward, b := ir.NewModule("gdn_forward")
	p := newPlan(s, v, b, plain.Inputs())
	in := p.xlaIn()
	r, keep := p.forward(in, v.Training.Save != gdn.SaveNone, true)
	results := p.asTaken(s.Results(), p.xlaOut(in, r))
	var names []string
	for _, o := range s.Results() {
		names = append(names, o.Name)
	}
	for i, o := range keep.list() {
		results, names = append(results, o.value), append(names, keep.names()[i])
	}
	if err = b.Finish(forward, names, results); err == nil {
		err = p.schedule(forward, v)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build the forward pass of %s by %s: %w", s, v, err)
	}

	backward, b = ir.NewModule("gdn_backward")
	inputs := s.Inputs()
	for i, o := range keep.list() {
		inputs = append(inputs, gdn.Param{Name: keep.names()[i], Type: o.value.Type})
	}
	p = newPlan(s, v, b, inputs)
	// The backward module sees the same operands: the same windows, on its own parameters.
	for i, o := range keep.list() {
		o.value = p.args[keep.names()[i]]
	}
	// Nothing was saved: the XLA ops are built again, since the grid that recomputes the states has its own windows, of all chunks in flight.
	if keep.s == nil {
		_, keep = p.forward(p.xlaIn(), true, false)
	}
	names = nil
	for _, g := range gdn.Gradients(s.Differentiable()) {
		names = append(names, g.Name)
	}
	gradients := p.asTaken(gdn.Gradients(s.Differentiable()), p.backward(keep))
	if err = b.Finish(backward, names, gradients); err == nil {
		err = p.schedule(backward, v)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build the backward pass of %s by %s: %w", s, v, err)
	}
	return forward, backward, nil
}

// training emits a forward grid that saves values for the backward grid, and the backward grid. It returns the results of the spec.
//
//	direction=train      save=none    "forward", "recompute", "backward"     outputs, then states once more, then gradients
//	                     save=state.. "forward", "backward"                  the forward grid saves on its way
//	direction=backward   any          "recompute", "backward"                no outputs are requested
func (p *plan) training() []*ir.Value {
	var results []*ir.Value
	var keep kept
	if p.s.Direction == gdn.Train {
		in := p.xlaIn()
		var r gridResult
		r, keep = p.forward(in, p.v.Training.Save != gdn.SaveNone, true)
		results = p.xlaOut(in, r)
	}
	if keep.s == nil {
		_, keep = p.forward(p.xlaIn(), true, false)
	}
	return append(results, p.backward(keep)...)
}

// forward emits the forward grid, optionally with saved values (keep) and the output.
//
// Saved values of all chunks in flight are outputs of the step, indexed by step and head: S before each chunk; T; and U as the update uses it, without the
// length of keys, or W with refine=yes and a decay per channel. Each is rounded for the products that will read it, at their precision (hold).
func (p *plan) forward(in *operands, keep, output bool) (gridResult, kept) {
	name, used := "recompute", append([]*operand{in.k}, in.values()...)
	if output {
		name, used = "forward", append([]*operand{in.q, in.k}, in.values()...)
	}
	var k kept
	r := p.grid(name, in, append(used, in.gates()...), in.state, func(t *tiles) []blockOut {
		e := newChunks(t)
		outs := e.steps(e.stateFree())
		if !keep {
			return outs
		}
		// One output of the grid per part of x; the returned operands are read by the reverse grid.
		hold := func(x *ir.Value, p ir.Precision) (l []*operand) {
			for _, o := range e.hold(x, p) {
				outs, l = append(outs, o), append(l, o.operand)
			}
			return l
		}
		k.s = hold(e.Concat(0, e.rule.Before...), p.v.Numerics.PrecState)
		if p.v.Training.Save >= gdn.SaveInverse {
			if pairedInverse(p.v) {
				k.t = hold(e.paired(e.rule.Inverted), ir.PrecBF16x1)
			} else {
				k.t = hold(e.rule.Inverted, p.v.ApplyPrecision())
			}
		}
		if p.v.Training.Save >= gdn.SaveAll {
			k.u = hold(e.Concat(0, e.rule.Values...), p.v.GradPrecision())
		}
		return outs
	})
	return r, k
}

// backward emits the reverse grid, which takes one chunk after another, and the XLA ops around it. It returns the gradients in the order of
// the spec.
//
// Its plan is the forward plan going down, one chunk at a time; the schedule combines chunks to steps (bwd.steps). Saved values are in blocks of all chunks
// in flight of the forward grid, so their windows are reduced to one. decay_bf16 is the backward kernel's (bwd.decay_bf16), which shares no product with
// the forward kernel.
func (p *plan) backward(keep kept) []*ir.Value {
	down := *p
	down.v.Mapping.Chunks, down.v.Mapping.PersistentRows, down.v.Numerics.DecayBF16, down.down = 1, false, p.v.Training.DecayBF16, true
	in := down.xlaIn()
	down.gradientsIn(in)
	used := append([]*operand{in.q, in.k, in.do}, in.gates()...)
	if keep.u == nil || p.s.Rule.SplitGates() { // U is recomputed from V; gradients of write gates need V in any case
		used = append(used, in.values()...)
	}
	for _, o := range keep.list() { // one chunk at a time, from blocks of all chunks in flight of the forward grid
		o.block = slices.Clone(o.block)
		o.block[slices.Index(o.axes, axisChunk)] = 1
	}
	in.kept = keep
	body := (*reverse).heads
	if p.s.Rule.Channels() {
		body = (*reverse).channels
	}
	return down.gradientsOut(in, down.grid("backward", in, append(used, keep.list()...), in.dstate, takes(newReverse, body)))
}
