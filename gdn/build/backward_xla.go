package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// gradientsIn brings the gradients of the outputs into the order that the reverse grid reads. Tokens that fill up chunks have a dO of 0, so they add
// nothing to dS; with keys of 0 and a log decay of 0 it passes through them as it is. An empty sequence whose final state is zero whatever the initial one
// was gives that no gradient.
func (p *plan) gradientsIn(in *operands) {
	s, b := p.s, p.b
	b.Stage("glue")
	in.do = p.rows(p.tokens(p.lanes(p.args["do"]), in.slotting, 0), p.valueHeads(), p.headBlock(), p.headAxes())
	x := p.args["dfinal_state"]
	if x != nil && s.Empty == gdn.EmptyZero {
		x = p.clearEmpty(x)
	}
	in.dstate = p.stateOperand(x)
}

// gradientsOut brings the gradients of the reverse grid to the order and layout of the spec, through gates and norms that
// the kernel does not compute.
//
// It undoes xlaIn from its end: what the XLA ops made of a tensor on the way in, it takes the gradient through on the way out. Gates of heads are taken to
// their raw form here in any case, in float32 of all tokens: the sums for A_log and dt_bias run over those.
func (p *plan) gradientsOut(in *operands, r gridResult) []*ir.Value {
	s, b := p.s, p.b
	b.Stage("glue")
	dq, dk := p.tokensOut(in, r.outputs[0], s.HeadsK), p.tokensOut(in, r.outputs[1], s.HeadsK)
	if s.L2Norm && p.v.Fuse == gdn.PlaceXLA {
		dq = b.Convert(gate.NormRowsGradient(b, p.args["q"], dq), s.DType)
		dk = b.Convert(gate.NormRowsGradient(b, p.args["k"], dk), s.DType)
	}
	results := []*ir.Value{dq, dk, p.tokensOut(in, r.outputs[2], s.HeadsV)}
	if s.Rule.Channels() {
		return p.withState(in, r, append(results, p.channelGates(in, r.outputs[3:])...))
	}
	dg, dbeta := p.gateTokens(in, r.outputs[3]), p.gateTokens(in, r.outputs[4])
	if s.Gates == gdn.GatesFused {
		results = append(results, gate.RawGradients(b, p.args, dg, dbeta, s.NegEigval, s.GateDType)...)
	} else {
		results = append(results, dg, dbeta)
	}
	return p.withState(in, r, results)
}

// withState adds the gradient of the initial states, where the spec has them.
func (p *plan) withState(in *operands, r gridResult, results []*ir.Value) []*ir.Value {
	if p.s.Init {
		results = append(results, p.stateOut(in, r.state))
	}
	return results
}

// gateTokens is the inverse of gate and tokens: [B, T, Hv], or [T, Hv] without a batch axis, out of [B/batch, chunks/step, Hv/heads, N, C] in which N is
// chunks of a step, batch rows and heads.
func (p *plan) gateTokens(in *operands, o *operand) *ir.Value {
	b, v, s := p.b, p.v, p.s
	x := b.Reshape(o.value, s.Batch/v.Mapping.Batch, p.blocks()/v.Mapping.Chunks, s.HeadsV/v.Mapping.Heads, v.Mapping.Chunks, v.Mapping.Batch, v.Mapping.Heads, p.c)
	x = b.Transpose(x, 0, 4, 1, 3, 6, 2, 5)
	return p.trim(in, b.Reshape(x, s.Batch, p.padded(), s.HeadsV))
}

// channelGates brings gradients of gates, outputs of the reverse grid, to the order and layout of the spec: dg, or dA_log, da and ddt_bias; then dbeta, or
// of a rule with separate erase and write gates those of its gates; an additive rule has neither.
//
// dA_log is a number a head: its gradient sums over channels as well. Raw gates of the XLA ops are taken to their raw form here, where those of a kernel came
// as a [2, K] for each chunk (reverse.channelGradients), which are summed over batch rows and chunks.
func (p *plan) channelGates(in *operands, outputs []*operand) []*ir.Value {
	s, b := p.s, p.b
	dg, rest := p.tokensOut(in, outputs[0], s.HeadsV), outputs[1:]
	var results []*ir.Value
	switch {
	case s.Gates == gdn.GatesGiven:
		results = append(results, dg)
	case in.aLog != nil: // a kernel's: dg is da here, and parts are [B chunks, Hv, 2, K]
		parts := b.Reshape(rest[0].value, s.Batch*p.nc, s.HeadsV, 2, s.K)
		if p.visiting() { // visits that need not run leave theirs undefined
			parts = b.Select(b.Broadcast(in.single.ran(b), parts.Type.Shape, 0), parts, b.Like(parts, 0))
		}
		parts = b.Sum(parts, 0)
		of := func(i int) *ir.Value { return b.Reshape(b.SliceAxis(parts, 1, i, i+1), s.HeadsV, s.K) }
		results, rest = append(results, b.Sum(of(0), 1), dg, of(1)), rest[1:]
	default:
		// Of the XLA ops. A_log is of heads and dt_bias of channels: over spreads either over all tokens, and what it sums runs over the dimensions that it lacks.
		last := dg.Type.Rank() - 1
		over := func(x *ir.Value) *ir.Value {
			dims := []int{last - 1, last}
			return b.Broadcast(x, dg.Type.Shape, dims[:x.Type.Rank()]...)
		}
		aLog, bias := gate.Held(b, over(p.args["A_log"]), over(p.args["dt_bias"]), s.Bound)
		da, dLog := gate.DecayGradient(b, dg, p.rawGate("a"), aLog, bias, s.Bound)
		lead := []int{0, 1}[:last-1]
		results = append(results, b.Sum(b.Sum(dLog, last), lead...), b.Convert(da, s.GateDType), b.Sum(da, lead...))
	}
	if s.Rule.SplitGates() {
		return append(results, p.splitGateOutputs(in, rest)...)
	}
	if s.Rule.Writes() {
		dbeta := p.gateTokens(in, rest[0])
		if s.Gates == gdn.GatesFused {
			dbeta = b.Convert(gate.RawBetaGradient(b, p.rawGate("b"), dbeta, s.NegEigval), s.GateDType)
		}
		results = append(results, dbeta)
	}
	return results
}
