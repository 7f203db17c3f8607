package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// gradientsIn brings the gradients of the outputs into the order of the reverse grid. Padding tokens have dO = 0, so they add
// nothing to dS; with zero keys and a log decay of 0, dS passes through them unchanged. An empty sequence whose final state is zero by definition
// passes it no gradient.
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
// It is the adjoint of xlaIn, in reverse order. Gradients of per-head gates are always converted to raw form here, in float32 over all tokens, since the
// gradients of A_log and dt_bias are sums over all tokens.
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

// withState adds the gradient of the initial states, if the spec has them.
func (p *plan) withState(in *operands, r gridResult, results []*ir.Value) []*ir.Value {
	if p.s.Init {
		results = append(results, p.stateOut(in, r.state))
	}
	return results
}

// gateTokens is the inverse of gate and tokens. It returns [B, T, Hv], or [T, Hv] without a batch axis, from [B/batch, chunks/step, Hv/heads, N, C], where N
// is chunks of a step x batch rows x heads.
func (p *plan) gateTokens(in *operands, o *operand) *ir.Value {
	b, v, s := p.b, p.v, p.s
	x := b.Reshape(o.value, s.Batch/v.Mapping.Batch, p.blocks()/v.Mapping.Chunks, s.HeadsV/v.Mapping.Heads, v.Mapping.Chunks, v.Mapping.Batch, v.Mapping.Heads, p.c)
	x = b.Transpose(x, 0, 4, 1, 3, 6, 2, 5)
	return p.trim(in, b.Reshape(x, s.Batch, p.padded(), s.HeadsV))
}

// channelGates brings gradients of gates from the reverse grid to the order and layout of the spec: dg, or dA_log, da and ddt_bias; then dbeta, or
// the gradients of separate erase and write gates; an additive rule has neither.
//
// dA_log has one number per head, so it is summed over channels too. Gradients of gates made by XLA ops are converted to raw form here. A kernel's come as
// a [2, K] sum for each chunk (reverse.channelGradients), which are summed over batch rows and chunks here.
func (p *plan) channelGates(in *operands, outputs []*operand) []*ir.Value {
	s, b := p.s, p.b
	dg, rest := p.tokensOut(in, outputs[0], s.HeadsV), outputs[1:]
	var results []*ir.Value
	switch {
	case s.Gates == gdn.GatesGiven:
		results = append(results, dg)
	case in.aLog != nil: // from a kernel: dg is da here, and parts are [B chunks, Hv, 2, K]
		parts := b.Reshape(rest[0].value, s.Batch*p.nc, s.HeadsV, 2, s.K)
		if p.visiting() { // visits that do not run leave their parts undefined
			parts = b.Select(b.Broadcast(in.single.ran(b), parts.Type.Shape, 0), parts, b.Like(parts, 0))
		}
		parts = b.Sum(parts, 0)
		of := func(i int) *ir.Value { return b.Reshape(b.SliceAxis(parts, 1, i, i+1), s.HeadsV, s.K) }
		results, rest = append(results, b.Sum(of(0), 1), dg, of(1)), rest[1:]
	default:
		// From XLA ops. A_log is per head and dt_bias per channel: over broadcasts either over all tokens, and its adjoint sums over the missing dimensions.
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
