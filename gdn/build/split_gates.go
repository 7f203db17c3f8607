package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/ir"
)

// With separate erase and write gates, each token has gates b [K] and w [V] instead of beta:
//
//	S <- S + k (w v - S^T (b k))^T
//
// This is gated delta rule 2 (rule=gdn2): a token chooses separately what to erase, by key channels, and what to write, by value channels.
// A chunk has three kinds of keys: b K reads the state and gives the rows of A; K gives the columns of A and P, and is written; Q is unchanged. With
// values w V the rest is the delta rule with beta 1, also for gradients. Gradients of b K and of w V are converted to gates, keys and values at the end.

// loadSplitGate loads such a gate, in v's layout, as [N, C, D] f32. It computes it from its raw form if that is the kernel's task.
func (e *gated) loadSplitGate(o *operand, double bool) *ir.Value {
	b := e.b.Stage("gates")
	x := b.Convert(e.loadRows(o), ir.F32)
	if e.in.raw {
		x = gate.Beta(b, x, double)
	}
	return e.own(x)
}

// loadValues loads V as [N, C, V] f32, times the write gate if the rule has one.
func (e *gated) loadValues() *ir.Value { return e.weighedValues(e.loadTokens(e.in.v)) }

// weighedValues returns loaded V times its gate, in float32. The product is not rounded to storage here: V' is, after V enters a subtraction.
func (e *gated) weighedValues(v *ir.Value) *ir.Value {
	v = e.b.Convert(v, ir.F32)
	if o := e.in.write; o != nil {
		v = e.b.Mul(v, e.loadSplitGate(o, false))
	}
	return v
}

// writes returns the write gate of V' [N, C, V], zero in the leading columns; nil without one. Error feedback needs it (tile.Body.StoreValues): a token's
// rounding error is passed to a later token in proportion to that token's gate.
func (e *chunks) writes() *ir.Value {
	o := e.in.write
	if o == nil {
		return nil
	}
	x := e.led(e.loadSplitGate(o, false))
	e.b.Stage("state")
	return x
}

// splitGateGradients converts the gradients of b K and w V to gradients of K, V and the gates, and returns the gates' as outputs.
func (e *reverse) splitGateGradients(c *gradient.ChannelChunk, to *gradient.Gradients) []blockOut {
	b := e.b.Stage("output")
	write := e.loadSplitGate(e.in.write, false)
	v := b.Convert(e.loadTokens(e.in.v), ir.F32)
	b.Stage("output")
	derase, dwrite := b.Mul(to.Reads, b.Convert(c.K, ir.F32)), b.Mul(to.V, v)
	to.K, to.V = b.Add(to.K, b.Mul(to.Reads, c.Erase)), b.Mul(to.V, write)
	dtype := ir.F32
	if e.in.raw {
		derase, dwrite = gate.BetaGradient(b, c.Erase, derase, e.s.Top()), gate.BetaGradient(b, write, dwrite, 1)
		dtype = e.s.GateDType
	}
	return []blockOut{e.tokenRows([]*ir.Value{derase}, e.in.erase, dtype), e.tokenRows([]*ir.Value{dwrite}, e.in.write, dtype)}
}

// splitGateOutputs brings the gradients of the gates to the order and layout of the spec: of raw b and w, with the sigmoid's derivative from the kernel or
// XLA ops, or of given erase and write.
func (p *plan) splitGateOutputs(in *operands, outputs []*operand) []*ir.Value {
	b, s := p.b, p.s
	derase, dwrite := p.tokensOut(in, outputs[0], s.HeadsV), p.tokensOut(in, outputs[1], s.HeadsV)
	if s.Gates == gdn.GatesFused && !in.raw {
		erase, write := p.xlaSplitGates()
		derase, dwrite = b.Convert(gate.BetaGradient(b, erase, derase, s.Top()), s.GateDType), b.Convert(gate.BetaGradient(b, write, dwrite, 1), s.GateDType)
	}
	return []*ir.Value{derase, dwrite}
}

// led prepends the zero columns of a summary to v, [N, C, lead + V] (build_summary.go); elsewhere there are none. Write gates get
// them too, so that error feedback is zero in those columns.
func (e *tiles) led(x *ir.Value) *ir.Value {
	if e.lead == 0 {
		return x
	}
	return e.b.Concat(2, e.b.Const(ir.T(ir.F32, x.Type.Shape[0], e.c, e.lead), 0), x)
}
