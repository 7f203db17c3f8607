package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/ir"
)

// A rule with separate erase and write gates has gates b [K] and w [V] of each token in place of beta:
//
//	S <- S + k (w v - S^T (b k))^T
//
// It is gated delta rule 2 of the family (rule=gdn2): what a token erases and what it writes are chosen separately, by channels of the key and of the value.
// So three keys meet in a chunk: b K reads the state, and is the rows of A; K is the columns of A and P, and what is written along; Q is as ever. With
// values w V the rest is the delta rule with beta 1, and so are its gradients: those of b K and of w V go to gates, keys and values at the end.

// loadSplitGate brings a window of such gates, which lie as v does, to [N, C, D] f32, computing them from their raw form where that is the kernel's task.
func (e *gated) loadSplitGate(o *operand, double bool) *ir.Value {
	b := e.b.Stage("gates")
	x := b.Convert(e.loadRows(o), ir.F32)
	if e.in.raw {
		x = gate.Beta(b, x, double)
	}
	return e.own(x)
}

// loadValues brings V, as it is written, to [N, C, V] f32: w V of a rule with a write gate.
func (e *gated) loadValues() *ir.Value { return e.weighedValues(e.loadTokens(e.in.v)) }

// weighedValues is V, as it is loaded, times its gate, in float32. The product is not stored here: where V is subtracted from, V' is what is rounded.
func (e *gated) weighedValues(v *ir.Value) *ir.Value {
	v = e.b.Convert(v, ir.F32)
	if o := e.in.write; o != nil {
		v = e.b.Mul(v, e.loadSplitGate(o, false))
	}
	return v
}

// writes is the write gate of V' [N, C, V], zero in columns that lead; nil in a rule without one. Error feedback asks for it (tile.Body.StoreValues): what rounding
// left of a token goes to a later one in as far as that writes.
func (e *chunks) writes() *ir.Value {
	o := e.in.write
	if o == nil {
		return nil
	}
	x := e.led(e.loadSplitGate(o, false))
	e.b.Stage("state")
	return x
}

// splitGateGradients takes the gradients of what a chunk reads by, b K, and of what it writes, w V, to K, V and the gates, of which it gives outputs.
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

// splitGateOutputs brings the gradients of the gates to the order and layout of the spec: those of b and w, which the kernel or the XLA ops take through the sigmoid,
// or of erase and write where gates are given.
func (p *plan) splitGateOutputs(in *operands, outputs []*operand) []*ir.Value {
	b, s := p.b, p.s
	derase, dwrite := p.tokensOut(in, outputs[0], s.HeadsV), p.tokensOut(in, outputs[1], s.HeadsV)
	if s.Gates == gdn.GatesFused && !in.raw {
		erase, write := p.xlaSplitGates()
		derase, dwrite = b.Convert(gate.BetaGradient(b, erase, derase, s.Top()), s.GateDType), b.Convert(gate.BetaGradient(b, write, dwrite, 1), s.GateDType)
	}
	return []*ir.Value{derase, dwrite}
}

// led has the columns of zeros that are before those of v, [N, C, lead + V], in a summary (build_summary.go); elsewhere there are none. Write gates have
// them too, so that nothing is handed on in those columns.
func (e *tiles) led(x *ir.Value) *ir.Value {
	if e.lead == 0 {
		return x
	}
	return e.b.Concat(2, e.b.Const(ir.T(ir.F32, x.Type.Shape[0], e.c, e.lead), 0), x)
}
