package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// channels takes a chunk backwards where each channel has a decay. With e^G what is left of the state before the chunk at each token, Kd what
// is left of K after it, times beta, and K~ = e^G . K, Q~ = scale e^G . Q, the forward pass of a chunk is
//
//	U = T (V - K~ S)    W = beta U    O = Q~ S + P U    S <- Diag(e^GC) S + Kd^T U
//
// and its gradients, from dO and the gradient dS of the state after the chunk, are
//
//	dU = P^T dO + Kd dS    dR = T^T dU = dV    dS <- Diag(e^GC) dS + Q~^T dO - K~^T dR
//	X = dO W^T    Y = -dR W^T    dbeta = rows(U . dR) / beta
//	dQ = scale (e^G . (dO S^T) + pairs)    dK = -e^G . (dR S^T) + e^(GC-G) . (W dS^T) + pairs
//
// where Q has the scale, and pairs and the gradient of the decay are those of channel.Decay. In an additive rule U is V, dR is dU, and there is no Y.
// In a rule that erases and writes apart V is w V; K~ and the rows of A are of b K, and have a gradient of their own.
func (e *gradient) channels() []blockOut {
	c := e.loadChannelChunk()
	state := e.loadKept(e.in.kept.s)
	u := e.channelValues(c, state)
	after := e.state
	ds := e.channelState(c)

	b := e.b.Stage("dq")
	pairs := channel.Pairs{}
	written, precision := u, e.v.Numerics.PrecState // W
	if e.exact() {
		precision = e.v.GradPrecision()
	} else {
		written = e.Store(e.ByRows(u, c.beta))
	}
	byX, byY := e.DotBoth(c.do, c.low, written, false, e.v.GradPrecision())     // X^T and Y^T: W dO^T and -W dR^T
	intoQ, intoK := e.DotBoth(c.do, c.low, state, true, e.v.Numerics.PrecState) // dO S^T and -dR S^T
	pairs.TurnedX = tile.Held(e.Body, byX, e.v.GradPrecision())
	pairs.X = e.Turned(pairs.TurnedX)
	risen := c.channels.Along(c.stateQ, intoQ)
	var dbeta *ir.Value
	if c.tt != nil {
		pairs.TurnedY = e.Store(byY)
		pairs.Y = e.Turned(pairs.TurnedY)
		if c.beta != nil {
			dbeta = e.channelBeta(c, u)
		}
		risen = b.Add(risen, c.channels.Along(c.stateK, intoK))
	}
	intoRest := b.Mul(c.channels.Rest, e.Dot(written, ds, false, true, precision))         // e^(GC-G) . (W dS^T)
	whole := b.Sum(b.Mul(b.Convert(state, ir.F32), b.Convert(e.handed(after), ir.F32)), 2) // <S, dS> of each channel, before the decay of the chunk
	whole = b.Mul(c.channels.Total, b.Reshape(whole, whole.Type.Shape[0], 1, e.s.K))
	g := c.channels.Gradients(c.q, c.k, c.reads, pairs, channel.Ends{Risen: risen, Rest: c.channels.Along(c.k, intoRest), Whole: whole})

	b.Stage("dq")
	dq := b.Add(g.Q, b.Mul(c.channels.Risen, intoQ)) // of Q with the scale
	b.Stage("dk")
	dk := b.Add(g.K, intoRest)
	var apart []blockOut
	switch {
	case c.erase != nil:
		dk, apart = e.apartGradients(c, dk, b.Add(g.Rows, b.Mul(c.channels.Risen, intoK)))
	case c.tt != nil:
		dk = b.Add(dk, b.Mul(c.channels.Risen, intoK))
	}
	return append(e.channelGradients(c, e.perKey(dq), e.perKey(dk), g.Log, dbeta), apart...)
}

// channelChunk is what the gradient of the state needs of a chunk, and what it makes there.
type channelChunk struct {
	gates
	keyQ, keyK            *ir.Value // scale Q and K [N, C, K]
	q, k, do              *ir.Value // those of value heads, and dO [N, C, V]
	reads                 *ir.Value // by which the state is read: k, or b k
	stateQ, stateK, restK *ir.Value // Q~, K~ and Kd
	p                     *ir.Value // P
	t, tt                 *ir.Value // T, where it is made again, and T^T; nil in an additive rule
	dr, low               *ir.Value // dR, and -dR as products take it
	unit, weight          *ir.Value // exact: 1/|k| [N, C], and that times beta, which K has not; nil for ones
}

// exact says whether nothing is rounded that keys alike would sum (refine=yes). Keys stay as they are given, without length and beta: with n = 1/|k|
// those are weights of rows, n beta of dU and W, and n of dR and R. Then P, dU, U, W and X are in two bf16 parts.
func (e *gradient) exact() bool { return e.v.Inverse.Refine }

// loadChannelChunk loads a chunk and makes what needs neither its values nor a state.
func (e *gradient) loadChannelChunk() *channelChunk {
	b := e.b.Stage("load")
	q := b.Scale(b.Convert(e.plainKey(e.in.q), ir.F32), e.s.EffectiveScale())
	if e.normalizes() {
		q = gate.ScaleRows(b, e.loadRows(e.in.q), e.s.EffectiveScale())
	}
	k := e.loadKey(e.in.k)
	if e.exact() {
		k = e.plainKey(e.in.k)
	}
	c := &channelChunk{keyQ: q, keyK: k, q: e.perValue(q), k: e.perValue(k), do: e.Store(e.loadRows(e.in.do))}
	c.gates = e.loadGates()
	own := c.gates
	if e.exact() {
		b.Stage("gates")
		if e.normalizes() {
			c.unit = b.Unary(ir.OpRsqrt, gate.Squares(b, c.k))
		}
		c.weight, own.beta = e.Weighed(c.unit, c.beta), nil
	}
	c.reads = cmp.Or(e.reading(c.gates, c.k), c.k)
	e.sums(&c.gates)
	b.Stage("operands")
	d := c.channels
	c.stateQ, c.stateK, c.restK = d.Times(c.q, d.Risen), d.OfKeys(c.reads, d.Risen), e.Store(e.ByRows(d.OfKeys(c.k, d.Rest), own.beta))

	b.Stage("products")
	again := e.s.Rule.Writes() && e.in.kept.t == nil
	var rows *ir.Value
	if again {
		rows = c.reads
	}
	kk, qk := d.Products(c.q, c.k, rows)
	if e.exact() {
		qk = tile.Held(e.Body, qk, e.v.ApplyPrecision())
	}
	_, c.p = e.weights(nil, qk, nil, own)
	switch {
	case again:
		if c.weight != nil {
			kk = b.Mul(tile.OnRows(e.Body, kk, c.unit), e.Row(c.weight, e.c))
		}
		negA, _ := e.weights(b.Neg(kk), nil, nil, own)
		c.t = e.solver().Invert(negA)
		c.tt = e.Turned(c.t)
	case e.s.Rule.Writes():
		c.tt = e.loadTurnedInverse()
	}
	return c
}

// channelState takes dS, which is e.state, over a chunk, and gives it as products take it.
func (e *gradient) channelState(c *channelChunk) *ir.Value {
	b := e.b.Stage("dr")
	ds := e.Store(e.state)
	p := e.v.ApplyPrecision()
	if !e.exact() {
		c.dr = e.Dot(e.Concat(2, e.Turned(c.p), c.restK), e.Concat(1, c.do, ds), false, false, e.v.Numerics.PrecState)
	} else {
		c.dr = tile.OnRows(e.Body, tile.DotSum(e.Body, [2]*ir.Value{e.Turned(c.p), c.do}, [2]*ir.Value{c.restK, ds}), c.weight)
	}
	if c.tt != nil {
		c.dr = e.Dot(c.tt, tile.Held(e.Body, c.dr, p), false, false, p)
		c.low = b.Neg(e.Store(tile.OnRows(e.Body, c.dr, c.unit)))
	}

	b.Stage("state")
	decayed := b.Mul(e.state, b.Broadcast(b.Transpose(c.channels.Total, 0, 2, 1), e.state.Type.Shape, 0, 1, 2))
	left, right := c.stateQ, c.do
	if c.tt != nil {
		left, right = e.Concat(1, left, c.stateK), e.Concat(1, right, c.low)
	}
	e.state = b.Add(decayed, e.Dot(left, right, true, false, e.v.Numerics.PrecState))
	return ds
}

// channelValues is U, or W where nothing is rounded, kept or made again from the state before the chunk; in an additive rule U is V.
func (e *gradient) channelValues(c *channelChunk, state *ir.Value) *ir.Value {
	if l := e.in.kept.u; l != nil {
		return e.loadKept(l)
	}
	e.b.Stage("values")
	v := e.loadRows(e.in.v)
	u := v
	if c.tt != nil {
		if c.t == nil {
			c.t = e.Turned(c.tt)
		}
		r := e.b.Sub(e.weighedValues(v), tile.OnRows(e.Body, e.Dot(c.stateK, state, false, false, e.v.Numerics.PrecState), c.unit))
		u = e.solver().Applied(c.t, e.Store(r), false)
	}
	if e.exact() {
		u = tile.OnRows(e.Body, e.b.Convert(u, ir.F32), c.weight)
	}
	return tile.Held(e.Body, u, e.v.GradPrecision())
}

// channelBeta is dbeta, of U or, where nothing is rounded, of W.
func (e *gradient) channelBeta(c *channelChunk, u *ir.Value) *ir.Value {
	b := e.b
	along := func(u, dr *ir.Value) *ir.Value { return b.Sum(b.Mul(b.Convert(u, ir.F32), dr), 2) }
	if !e.exact() {
		return b.Div(along(u, c.dr), c.beta)
	}
	// W and dR both have a beta that may be as low as its floor: float32 does not hold their product.
	u, dr, beta := e.Operand(u, ir.PrecBF16x1), b.Scale(c.dr, 1/betaFloor), b.Scale(c.beta, 1/betaFloor)
	return b.Div(b.Div(along(u, dr), c.weight), beta)
}

// channelGradients are the outputs of the reverse grid. Of raw gates that are the kernel's task it gives the gradient of a, and of A_log and
// dt_bias a chunk's part.
func (e *gradient) channelGradients(c *channelChunk, dq, dk, dg, dbeta *ir.Value) []blockOut {
	b, keys := e.b.Stage("output"), e.s.DType
	if e.normalizes() {
		dq = gate.ScaleRowsGradient(b, e.loadRows(e.in.q), c.keyQ, dq, e.s.EffectiveScale())
		if e.exact() {
			dk = gate.LengthGradient(b, e.loadRows(e.in.k), dk)
		} else {
			dk = gate.ScaleRowsGradient(b, e.loadRows(e.in.k), c.keyK, dk, 1)
		}
	} else {
		dq = b.Scale(dq, e.s.EffectiveScale())
		if e.s.L2Norm { // what the norm takes away from them would leave the rounding
			keys = ir.F32
		}
	}
	outs := []blockOut{
		e.tokenRows([]*ir.Value{dq}, e.in.q, keys), e.tokenRows([]*ir.Value{dk}, e.in.k, keys), e.tokenRows([]*ir.Value{c.dr}, e.in.v, e.s.DType),
	}
	if e.in.aLog == nil {
		outs = append(outs, e.tokenRows([]*ir.Value{dg}, e.in.g, ir.F32))
	} else {
		a := b.Convert(e.loadRows(e.in.g), ir.F32)
		da, dLog := gate.ChannelGradient(b, dg, c.channels.Log, a, e.ofHead(e.in.aLog), e.ofHead(e.in.dt), e.s.Bound, channel.Nat(e.v))
		part := func(x *ir.Value) *ir.Value { return b.Reshape(b.Sum(x, 1), x.Type.Shape[0], 1, e.s.K) }
		outs = append(outs, e.tokenRows([]*ir.Value{da}, e.in.g, e.s.GateDType), e.made(b.Concat(1, part(dLog), part(da))))
	}
	if dbeta != nil {
		outs = append(outs, e.betaRows(dbeta))
	}
	return outs
}

// channelGates brings gradients of gates, outputs of the reverse grid, to the order and layout of the spec.
func (p *plan) channelGates(in *operands, outputs []*operand) []*ir.Value {
	s, b := p.s, p.b
	dg, rest := p.tokensOut(in, outputs[0], s.HeadsV), outputs[1:]
	var results []*ir.Value
	switch {
	case s.Gates == gdn.GatesGiven:
		results = append(results, dg)
	case in.aLog != nil:
		parts := b.Sum(b.Reshape(rest[0].value, s.Batch*p.nc, s.HeadsV, 2, s.K), 0)
		of := func(i int) *ir.Value { return b.Reshape(b.SliceAxis(parts, 1, i, i+1), s.HeadsV, s.K) }
		results, rest = append(results, b.Sum(of(0), 1), dg, of(1)), rest[1:]
	default:
		last := dg.Type.Rank() - 1
		over := func(x *ir.Value) *ir.Value {
			dims := []int{last - 1, last}
			return b.Broadcast(x, dg.Type.Shape, dims[:x.Type.Rank()]...)
		}
		da, dLog := gate.DecayGradient(b, dg, p.rawGate("a"), over(p.args["A_log"]), over(p.args["dt_bias"]), s.Bound)
		lead := []int{0, 1}[:last-1]
		results = append(results, b.Sum(b.Sum(dLog, last), lead...), b.Convert(da, s.GateDType), b.Sum(da, lead...))
	}
	if s.Rule.Apart() {
		return append(results, p.apartGates(in, rest)...)
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
