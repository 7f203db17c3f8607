package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/ir"
)

// reverse takes chunks backwards: it loads what internal/gradient takes of a chunk, and describes the gradients as outputs. Those of q, k and v lie as the
// tensors do, so that an output window of a step is the input window of the same chunk; those of gates of heads lie as beta does, in float32.
type reverse struct {
	gated
	step *gradient.Step
}

// newReverse gives the step what was kept as functions, which load it where it is first needed. What was not kept has none.
func newReverse(t *tiles) *reverse {
	e := &reverse{gated: *newGated(t), step: &gradient.Step{Rule: *t.rule(), State: t.state}}
	l := &e.step.Loads
	l.State = func() *ir.Value { return e.loadKept(e.in.kept.s) }
	// Functions that are nil say that something is made again: the operand is there or not once a grid is made.
	if e.in.kept.t != nil {
		l.Inverse = e.loadTurnedInverse
	}
	if e.in.kept.u != nil {
		l.Written = func() *ir.Value { return e.loadKept(e.in.kept.u) }
	}
	l.Values = func() *ir.Value { return e.loadTokens(e.in.v) }
	l.Weighed = e.weighedValues
	return e
}

// heads takes a chunk backwards where each head has one decay.
//
// Where the kernel normalizes q and k, the gradients so far are those of rows of length 1, which are taken to the rows as they lie: q and k are loaded once
// more for that, which is no other load, since equal instructions become one.
func (e *reverse) heads() []blockOut {
	g := e.step.Heads(e.loadHeads())
	e.state = e.step.State
	b := e.b.Stage("output")
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		g.Q, g.K = gate.NormRowsGradient(b, e.loadRows(e.in.q), g.Q), gate.NormRowsGradient(b, e.loadRows(e.in.k), g.K)
	}
	return []blockOut{
		e.tokenRows([]*ir.Value{g.Q}, e.in.q, e.s.DType), e.tokenRows([]*ir.Value{g.K}, e.in.k, e.s.DType), e.tokenRows([]*ir.Value{g.V}, e.in.v, e.s.DType),
		e.betaRows(g.Decay), e.betaRows(g.Beta),
	}
}

// loadHeads loads a chunk: q and k of key heads, dO as it lies, and the gates.
func (e *reverse) loadHeads() gradient.HeadChunk {
	e.b.Stage("load")
	q, k := e.loadKey(e.in.q), e.loadKey(e.in.k)
	c := gradient.HeadChunk{Q: q, K: k, Do: e.loadTokens(e.in.do)}
	if e.step.Normalizes() {
		c.Given = e.plainKey(e.in.k)
	}
	c.Gates = e.loadGates()
	return c
}

// channels takes a chunk backwards where each channel has a decay. Nothing is shared between the value heads of a key head before its end, as each has decays
// of its own in its keys: q and k are repeated for them, and their gradients summed.
func (e *reverse) channels() []blockOut {
	c, q, k := e.loadChannelChunk()
	g := e.step.Channels(c)
	e.state = e.step.State
	var apart []blockOut
	if g.Reads != nil {
		apart = e.splitGateGradients(c, &g)
	}
	g.Q, g.K = e.step.PerKey(g.Q), e.step.PerKey(g.K)
	return append(e.channelGradients(c, q, k, g), apart...)
}

// loadChannelChunk loads a chunk, and gives scale Q and K of key heads beside it.
//
// Q has the scale, and in float32: it meets decays as elements, not as an operand of a product. K is as the spec has it, at length 1 where the kernel
// normalizes, unless its length is to stand beside products (Step.Exact).
func (e *reverse) loadChannelChunk() (c *gradient.ChannelChunk, q, k *ir.Value) {
	b := e.b.Stage("load")
	q = b.Scale(b.Convert(e.plainKey(e.in.q), ir.F32), e.s.EffectiveScale())
	if e.step.Normalizes() {
		q = gate.ScaleRows(b, e.loadTokens(e.in.q), e.s.EffectiveScale())
	}
	k = e.loadKey(e.in.k)
	if e.step.Exact() {
		k = e.plainKey(e.in.k)
	}
	c = &gradient.ChannelChunk{Q: e.perValue(q), K: e.perValue(k), Do: e.Store(e.loadTokens(e.in.do))}
	if e.step.Normalizes() && e.s.Rule.Writes() && !e.step.Exact() {
		c.Given = e.perValue(e.plainKey(e.in.k))
	}
	c.Gates = e.loadGates()
	return c, q, k
}

// states takes a chunk backwards, as far as the gradient of the state goes: the body of StateGradient, which has no output but that.
func (e *reverse) states() []blockOut {
	if e.channelwise() {
		c, _, _ := e.loadChannelChunk()
		e.step.ChannelState(c)
	} else {
		e.step.HeadState(e.loadHeads())
	}
	e.state = e.step.State
	return nil
}

// channelGradients are the outputs of the reverse grid. Of raw gates that are the kernel's task it gives the gradient of a, and of A_log and
// dt_bias a chunk's part.
//
//	dq, dk, dv    as q, k and v lie
//	dg            given, or raw in the glue: as v lies, K wide, in float32
//	da, and       raw in the kernel: the same, and [2, K] for each chunk, whose rows are sums over its tokens: of what A_log is to sum, and of da for
//	  sums        dt_bias. channelGates adds up those of all chunks
//	dbeta         as beta lies, where the rule has one
//
// The gradient of A_log and dt_bias is a sum over all tokens of all batch rows. A grid's programs give no such sum, so each gives its chunk's.
func (e *reverse) channelGradients(c *gradient.ChannelChunk, keyQ, keyK *ir.Value, g gradient.Gradients) []blockOut {
	b, keys := e.b.Stage("output"), e.s.DType
	dq, dk, dg := g.Q, g.K, e.own(g.Decay)
	if e.step.Normalizes() {
		dq = gate.ScaleRowsGradient(b, e.loadRows(e.in.q), keyQ, dq, e.s.EffectiveScale())
		if e.step.Exact() {
			dk = gate.LengthGradient(b, e.loadRows(e.in.k), dk)
		} else {
			dk = gate.ScaleRowsGradient(b, e.loadRows(e.in.k), keyK, dk, 1)
		}
	} else {
		dq = b.Scale(dq, e.s.EffectiveScale())
		if e.s.L2Norm { // what the norm takes away from them would leave the rounding
			keys = ir.F32
		}
	}
	outs := []blockOut{
		e.tokenRows([]*ir.Value{dq}, e.in.q, keys), e.tokenRows([]*ir.Value{dk}, e.in.k, keys), e.tokenRows([]*ir.Value{g.V}, e.in.v, e.s.DType),
	}
	if e.in.aLog == nil {
		outs = append(outs, e.tokenRows([]*ir.Value{dg}, e.in.g, ir.F32))
	} else {
		a := b.Convert(e.loadTokens(e.in.g), ir.F32)
		aLog, dt := gate.Held(b, e.ofHead(e.in.aLog), e.ofHead(e.in.dt), e.s.Bound)
		da, dLog := gate.ChannelGradient(b, dg, c.Channels.Log, a, aLog, dt, e.s.Bound, channel.Nat(e.v))
		part := func(x *ir.Value) *ir.Value { return b.Reshape(b.Sum(x, 1), x.Type.Shape[0], 1, e.s.K) }
		outs = append(outs, e.tokenRows([]*ir.Value{da}, e.in.g, e.s.GateDType), e.made(b.Concat(1, part(dLog), part(da))))
	}
	if g.Beta != nil {
		outs = append(outs, e.betaRows(g.Beta))
	}
	return outs
}
