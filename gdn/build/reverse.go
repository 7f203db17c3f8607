package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/ir"
)

// reverse takes chunks backwards.
type reverse struct {
	gated
	step *gradient.Step
}

func newReverse(t *tiles) *reverse {
	e := &reverse{gated: *newGated(t), step: &gradient.Step{Rule: *t.rule(), State: t.state}}
	l := &e.step.Loads
	l.State = func() *ir.Value { return e.loadKept(e.in.kept.s) }
	if e.in.kept.t != nil {
		l.Inverse = e.loadTurnedInverse
	}
	if e.in.kept.u != nil {
		l.Written = func() *ir.Value { return e.loadKept(e.in.kept.u) }
	}
	l.Values = func() *ir.Value { return e.loadRows(e.in.v) }
	l.Weighed = e.weighedValues
	return e
}

// heads takes a chunk backwards where each head has one decay.
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

func (e *reverse) loadHeads() gradient.HeadChunk {
	e.b.Stage("load")
	q, k := e.loadKey(e.in.q), e.loadKey(e.in.k)
	do := e.loadRows(e.in.do)
	return gradient.HeadChunk{Q: q, K: k, Do: do, Gates: e.loadGates()}
}

// channels takes a chunk backwards where each channel has a decay.
func (e *reverse) channels() []blockOut {
	c, q, k := e.loadChannelChunk()
	g := e.step.Channels(c)
	e.state = e.step.State
	var apart []blockOut
	if g.Reads != nil {
		apart = e.apartGradients(c, &g)
	}
	g.Q, g.K = e.step.PerKey(g.Q), e.step.PerKey(g.K)
	return append(e.channelGradients(c, q, k, g), apart...)
}

// loadChannelChunk loads a chunk, and gives scale Q and K of key heads beside it.
func (e *reverse) loadChannelChunk() (c *gradient.ChannelChunk, q, k *ir.Value) {
	b := e.b.Stage("load")
	q = b.Scale(b.Convert(e.plainKey(e.in.q), ir.F32), e.s.EffectiveScale())
	if e.step.Normalizes() {
		q = gate.ScaleRows(b, e.loadRows(e.in.q), e.s.EffectiveScale())
	}
	k = e.loadKey(e.in.k)
	if e.step.Exact() {
		k = e.plainKey(e.in.k)
	}
	c = &gradient.ChannelChunk{Q: e.perValue(q), K: e.perValue(k), Do: e.Store(e.loadRows(e.in.do))}
	c.Gates = e.loadGates()
	return c, q, k
}

// states takes a chunk backwards, as far as the gradient of the state goes.
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
func (e *reverse) channelGradients(c *gradient.ChannelChunk, keyQ, keyK *ir.Value, g gradient.Gradients) []blockOut {
	b, keys := e.b.Stage("output"), e.s.DType
	dq, dk, dg := g.Q, g.K, g.Decay
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
		a := b.Convert(e.loadRows(e.in.g), ir.F32)
		da, dLog := gate.ChannelGradient(b, dg, c.Channels.Log, a, e.ofHead(e.in.aLog), e.ofHead(e.in.dt), e.s.Bound, channel.Nat(e.v))
		part := func(x *ir.Value) *ir.Value { return b.Reshape(b.Sum(x, 1), x.Type.Shape[0], 1, e.s.K) }
		outs = append(outs, e.tokenRows([]*ir.Value{da}, e.in.g, e.s.GateDType), e.made(b.Concat(1, part(dLog), part(da))))
	}
	if g.Beta != nil {
		outs = append(outs, e.betaRows(g.Beta))
	}
	return outs
}
