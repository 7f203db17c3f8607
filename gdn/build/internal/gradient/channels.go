package gradient

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Channels computes the gradients of a chunk of a rule with a decay a channel. With e^G the decay from the state before
// the chunk to each token, Kd = beta e^(GC-G) . K, K~ = e^G . K and Q~ = scale e^G . Q, the forward pass of a chunk is
//
//	U = T (V - K~ S)    W = beta U    O = Q~ S + P U    S <- Diag(e^GC) S + Kd^T U
//
// and its gradients, from dO and the gradient dS of the state after the chunk, are
//
//	dU = P^T dO + Kd dS    dR = T^T dU = dV    dS <- Diag(e^GC) dS + Q~^T dO - K~^T dR
//	X = dO W^T    Y = -dR W^T    dbeta = rows(U . dR) / beta
//	dQ = scale (e^G . (dO S^T) + pairs)    dK = -e^G . (dR S^T) + e^(GC-G) . (W dS^T) + pairs
//
// The terms "pairs" and the gradient of the decay come from channel.Decay. In an additive rule U is V, dR is dU, and
// there is no Y. In a rule with separate erase and write gates V is w V; K~ and the rows of A are made of b K, and have
// a gradient of their own.
//
// The algebra is that of one decay a head (see the package comment) with two differences. The decay is between the
// factors of K K^T and Q K^T, so the gradients X and Y of pairs do not include it; channel.Decay takes them to Q, K and
// the log decays through its factors. And operands of the state are scaled by element, so all ends of the decay are [N,
// C, K] in place of [N, C]:
//
//	one decay a head                          a decay a channel
//	r = rows(dO' S^T . Q + n S^T . K)         Ends.Risen = Q~ . (dO S^T) - K~ . (dR S^T)
//	y = rows(Ud dS^T . K)                     Ends.Rest  = K . e^(GC-G) . (W dS^T)
//	e^GC <S, dS>                              Ends.Whole = e^GC . <S, dS> of each channel, a sum over V alone
//
// In this file W is beta U, the values written; the W of the package comment, of pairs of tokens, has no name here.
//
// The gradients of Q, with the scale, and of K are per value head, and do not include the gradient of b K.
func (e *Step) Channels(c *ChannelChunk) Gradients {
	e.prepare(c)
	state := e.Loads.State()
	u := e.channelValues(c, state)
	after := e.State
	ds := e.channelState(c)

	b := e.B.Stage("dq")
	pairs := channel.Pairs{}
	written, precision := u, e.V.Numerics.PrecState // W
	if e.Exact() {
		precision = e.V.GradPrecision()
	} else {
		written = e.Store(e.ByRows(u, c.Beta))
	}
	byX, byY := e.DotBoth(c.Do, c.low, written, false, e.V.GradPrecision())     // X^T and Y^T: W dO^T and -W dR^T
	intoQ, intoK := e.DotBoth(c.Do, c.low, state, true, e.V.Numerics.PrecState) // dO S^T and -dR S^T
	pairs.TurnedX = tile.Held(e.Body, byX, e.V.GradPrecision())
	pairs.X = e.Turned(pairs.TurnedX)
	risen := c.Channels.Along(c.stateQ, intoQ)
	var dbeta *ir.Value
	if c.tt != nil {
		pairs.TurnedY = e.Store(byY)
		pairs.Y = e.Turned(pairs.TurnedY)
		if c.Beta != nil {
			dbeta = e.channelBeta(c, u)
		}
		risen = b.Add(risen, c.Channels.Along(c.stateK, intoK))
	}
	intoRest := b.Mul(c.Channels.Rest, e.Dot(written, ds, false, true, precision))         // e^(GC-G) . (W dS^T)
	whole := b.Sum(b.Mul(b.Convert(state, ir.F32), b.Convert(e.handed(after), ir.F32)), 2) // <S, dS> of each channel, before the decay of the chunk
	whole = b.Mul(c.Channels.Total, b.Reshape(whole, whole.Type.Shape[0], 1, e.Spec.K))
	g := c.Channels.Gradients(c.Q, c.K, c.reads, pairs, channel.Ends{Risen: risen, Rest: c.Channels.Along(c.K, intoRest), Whole: whole})

	b.Stage("dq")
	dq := b.Add(g.Q, b.Mul(c.Channels.Risen, intoQ)) // of Q with the scale
	b.Stage("dk")
	dk := b.Add(g.K, intoRest)
	all := Gradients{Q: dq, K: dk, V: c.dr, Decay: g.Log, Beta: dbeta}
	switch {
	case c.Erase != nil:
		all.Reads = b.Add(g.Rows, b.Mul(c.Channels.Risen, intoK))
	case c.tt != nil:
		all.K = b.Add(dk, b.Mul(c.Channels.Risen, intoK))
	}
	return all
}

// ChannelState updates dS over a chunk and computes no other gradient: see HeadState.
func (e *Step) ChannelState(c *ChannelChunk) {
	e.prepare(c)
	e.channelState(c)
}

// ChannelChunk is a chunk of a rule with a decay a channel: its inputs, and the operands that prepare makes of them.
type ChannelChunk struct {
	Q, K, Do *ir.Value // scale Q and K [N, C, K] of value heads, and dO [N, C, V]
	Given    *ir.Value // K before the kernel normalizes it, if the rule has a delta update and products are not Exact; else nil
	chunkwise.Gates

	reads                 *ir.Value // by which the state is read: k, or b k
	stateQ, stateK, restK *ir.Value // Q~, K~ and Kd
	p                     *ir.Value // P
	scale                 *ir.Value // with Given: 1/|k| [N, C], in whose units P and Kd are
	t, tt                 *ir.Value // T, where it is made again, and T^T; nil in an additive rule
	dr, low               *ir.Value // dR, and -dR as products take it
	unit, weight          *ir.Value // exact: 1/|k| [N, C], and that times beta, which K has not; nil for ones
}

// Exact reports whether no operand is rounded whose error would add up over equal keys (refine=yes). Keys are then used
// as given, without length and beta. With n = 1/|k|, dU and W are scaled by n beta instead, dR and R by n. P, dU, U, W
// and X are in two bf16 parts.
//
//	P with n K in its columns, times beta U   = P (n beta U)            W is n beta U here
//	V - (n K~) S                              = V - n (K~ S)
//	dU = (P with n K)^T dO + (n Kd) dS        = n (P^T dO + Kd dS)      and beta beside n
//	(n K~)^T dR                               = K~^T (n dR)             low is -n dR
//
// Equal keys make equal errors: rounding a key once more changes it by the same for every token, and the errors add up
// over the chunk.
func (e *Step) Exact() bool { return e.V.Inverse.Refine }

// prepare makes what needs neither the values of a chunk nor a state: Q~, K~ and Kd, P, and T^T, which is loaded where it was kept. As in the forward
// pass P and A come from the levels of channel.Decay; A is made where T is to be, and not otherwise.
func (e *Step) prepare(c *ChannelChunk) {
	b := e.B
	own := c.Gates
	if e.Exact() {
		b.Stage("gates")
		if e.Normalizes() {
			c.unit = b.Unary(ir.OpRsqrt, gate.Squares(b, c.K))
		}
		c.weight, own.Beta = e.Weighed(c.unit, c.Beta), nil
	}
	c.reads = cmp.Or(e.Reading(c.Gates, c.K), c.K)
	e.Sums(&c.Gates)
	b.Stage("operands")
	d, met := c.Channels, c.K
	var length *ir.Value
	if c.Given != nil {
		squares := gate.Squares(b, c.Given)
		c.scale, met = b.Unary(ir.OpRsqrt, squares), c.Given
		length = b.Mul(squares, c.scale)
	}
	c.stateQ, c.stateK, c.restK = d.Times(c.Q, d.Risen), d.OfKeys(c.reads, d.Risen), e.Store(e.ByRows(d.OfKeys(met, d.Rest), own.Beta))

	b.Stage("products")
	again := e.Spec.Rule.Writes() && e.Loads.Inverse == nil
	var rows *ir.Value
	if again {
		rows = c.reads
	}
	kk, qk := d.Products(c.Q, c.K, rows)
	switch {
	case e.Exact():
		qk = tile.Held(e.Body, qk, e.V.ApplyPrecision())
	case length != nil:
		qk = b.Mul(qk, e.Row(length, e.C))
	}
	_, c.p = e.Weights(nil, qk, nil, own)
	switch {
	case again:
		if c.weight != nil {
			kk = b.Mul(tile.OnRows(e.Body, kk, c.unit), e.Row(c.weight, e.C))
		}
		negA, _ := e.Weights(b.Neg(kk), nil, nil, own)
		c.t = e.Solver().Invert(negA)
		c.tt = e.Turned(c.t)
	case e.Spec.Rule.Writes():
		c.tt = e.Loads.Inverse()
	}
}

// channelState takes dS, which is e.State, over a chunk, and gives it as products take it. dU is one product, [P^T, Kd] [dO; dS], and so is what the state
// gains, [Q~; K~]^T [dO; -dR], of 2C tokens. Without an inverse dR is dU, and no K~ has read the state.
func (e *Step) channelState(c *ChannelChunk) *ir.Value {
	b := e.B.Stage("dr")
	ds := e.Store(e.State)
	p := e.V.ApplyPrecision()
	if !e.Exact() {
		c.dr = tile.OnRows(e.Body, e.Dot(e.Concat(2, e.Turned(c.p), c.restK), e.Concat(1, c.Do, ds), false, false, e.V.Numerics.PrecState), c.scale)
	} else {
		c.dr = tile.OnRows(e.Body, tile.DotSum(e.Body, [2]*ir.Value{e.Turned(c.p), c.Do}, [2]*ir.Value{c.restK, ds}), c.weight)
	}
	if c.tt != nil {
		c.dr = e.Dot(c.tt, tile.Held(e.Body, c.dr, p), false, false, p)
		c.low = b.Neg(e.Store(tile.OnRows(e.Body, c.dr, c.unit)))
	}

	b.Stage("state")
	decayed := b.Mul(e.State, b.Broadcast(b.Transpose(c.Channels.Total, 0, 2, 1), e.State.Type.Shape, 0, 1, 2))
	left, right := c.stateQ, c.Do
	if c.tt != nil {
		left, right = e.Concat(1, left, c.stateK), e.Concat(1, right, c.low)
	}
	e.State = b.Add(decayed, e.Dot(left, right, true, false, e.V.Numerics.PrecState))
	return ds
}

// channelValues is U, or W where nothing is rounded, kept or made again from the state before the chunk; in an additive rule U is V, which is loaded
// and no more.
func (e *Step) channelValues(c *ChannelChunk, state *ir.Value) *ir.Value {
	if e.Loads.Written != nil {
		return e.Loads.Written()
	}
	e.B.Stage("values")
	v := e.Loads.Values()
	u := v
	if c.tt != nil {
		if c.t == nil {
			c.t = e.Turned(c.tt)
		}
		r := e.B.Sub(e.Loads.Weighed(v), tile.OnRows(e.Body, e.Dot(c.stateK, state, false, false, e.V.Numerics.PrecState), c.unit))
		u = e.Solver().Applied(c.t, e.Store(r), false)
	}
	if e.Exact() {
		u = tile.OnRows(e.Body, e.B.Convert(u, ir.F32), c.weight)
	}
	return tile.Held(e.Body, u, e.V.GradPrecision())
}

// channelBeta is dbeta, [N, C]: rows(U . dR) / beta, or where nothing is rounded of W, rows(W . dR) / (n beta) / beta.
func (e *Step) channelBeta(c *ChannelChunk, u *ir.Value) *ir.Value {
	b := e.B
	along := func(u, dr *ir.Value) *ir.Value { return b.Sum(b.Mul(b.Convert(u, ir.F32), dr), 2) }
	if !e.Exact() {
		return b.Div(along(u, c.dr), c.Beta)
	}
	// W and dR both have a beta that may be as low as its floor: float32 does not hold their product, 1e-40. Times 1e20
	// dR is of ordinary size where beta is lowest, and far from the end of float32 where it is 1.
	u, dr, beta := e.Operand(u, ir.PrecBF16x1), b.Scale(c.dr, 1/BetaFloor), b.Scale(c.Beta, 1/BetaFloor)
	return b.Div(b.Div(along(u, dr), c.weight), beta)
}
