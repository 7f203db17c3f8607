package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/ir"
)

// reverse takes chunks backwards: it loads the inputs of internal/gradient, and describes the gradients as outputs. Gradients of q, k and v have the
// tensors' layout, so that a step's output window is the input window of the same chunk. Gradients of per-head gates have beta's layout, in float32.
type reverse struct {
	gated
	step *gradient.Step
}

// newReverse sets functions that load saved values when they are first needed; nil for values that are not saved.
func newReverse(t *tiles) *reverse {
	e := &reverse{gated: *newGated(t), step: &gradient.Step{Rule: *t.rule(), State: t.state}}
	l := &e.step.Loads
	l.State = func() *ir.Value { return e.loadKept(e.in.kept.s) }
	// A nil function means that the value is recomputed; the grid's operands decide this when it is built.
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

// heads takes a chunk backwards with one decay per head.
//
// If the kernel normalizes q and k, these gradients are by the normalized rows, and are converted to gradients by the original rows. q and k are loaded
// again for that, but CSE merges equal loads.
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

// loadHeads loads a chunk: q and k of key heads, unscaled dO, and the gates.
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

// channels takes a chunk backwards with per-channel decays. The value heads of a key head share nothing until the end, as each applies its own decays
// to the keys: q and k are repeated for them, and their gradients summed.
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

// loadChannelChunk loads a chunk, and also returns scale Q and K of key heads.
//
// Q includes the scale, in float32, since decays multiply its elements outside of products. K has the spec's type, with length 1 if the kernel
// normalizes, unless the length is applied to products (Step.Exact).
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

// states takes a chunk backwards for the gradient of the state only: the body of StateGradient, without other outputs.
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

// channelGradients returns the outputs of the reverse grid. For raw gates transformed in the kernel it returns the gradient of a, and per chunk the sums
// for A_log and dt_bias.
//
//	dq, dk, dv    layout of q, k and v
//	dg            given, or raw by XLA ops: layout of v, K wide, in float32
//	da, and       raw in the kernel: the same, and [2, K] per chunk: sums over its tokens of A_log's terms, and of da for
//	  sums        dt_bias. channelGates adds up the chunks
//	dbeta         layout of beta, if the rule has one
//
// The gradients of A_log and dt_bias are sums over all tokens of all batch rows. Programs of a grid cannot form such a sum, so each returns its chunk's.
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
		if e.s.L2Norm { // otherwise rounding would leave the components that the norm's gradient removes
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
