package gradient

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// The backward pass walks the chunks from the last to the first and carries dS, the gradient of the state. With beta in the
// columns, E_ij = exp(G_i - G_j) beta_j for i >= j, and S the state before the chunk, the forward pass of a chunk is
//
//	N = strict(K K^T . E)   P = scale tril(Q K^T . E)   T = (I + N)^-1   U = T (V - e^G K S)   V' = beta U
//	O = scale e^G Q S + P U                             S <- e^GC S + Kd^T U,  Kd = beta e^(GC-G) K
//
// and from dO and the gradient dS of the state after the chunk its gradients are
//
//	dU = P^T dO + Kd dS     dR = T^T dU = dV     dO' = scale e^G dO     n = -e^G dR     dS <- e^GC dS + Q^T dO' + K^T n
//	X = scale dP . E, dP = dO U^T                Y = dN . E, dN = -strict(dR U^T)       (summed over the value heads of a key head)
//	dQ = dO' S^T + X K      dK = n S^T + Ud dS^T + X^T Q + (Y + Y^T) K,  Ud = beta e^(GC-G) U
//	dbeta = rows(U . dR) / beta
//	dg_t = sum over i >= t of (rows_i W - columns_i W + r_i) + sum over j < t of y_j + e^GC <S, dS>,
//	W = dP . P + dN . N     r = rows(dO' S^T . Q + n S^T . K)     y = rows(Ud dS^T . K)
//
// The sums of rows and of columns of W cancel for the most part, so both must be of the same, once rounded, W. Or else: dR = T^T dU
// is (I + N)^T dR = dU, from which follows columns_j W + y_j = z_j, z = rows(U . dR), and
//
//	dg_t = sum over i >= t of r_i + sum over j < t of (z_j - rows_j W) + e^GC <S, dS>,
//
// without sums of columns and y. That is as accurate as the inverse and dU are: better than the first form on correlated keys where they
// are, and worse where decay is strong and they are not, since it sums over tokens whose parts in dg cancel.
//
// z is the diagonal of U dR^T. Matrices of tokens x tokens are held transposed: then only T, Q, K, X and Y are ever turned, and
// sums of rows of W are sums of registers.

// HeadChunk is a chunk of a rule with one decay a head: Q and K [N of key heads, C, K] as products take them, dO [N, C, V], and the gates.
type HeadChunk struct {
	Q, K, Do *ir.Value
	chunkwise.Gates
}

// turned are what a chunk has without its state, with matrices of tokens x tokens held transposed.
type turned struct {
	grown, left *ir.Value // e^G and beta e^(GC-G) [N, C]
	kq, kk      *ir.Value // (Q K^T)^T, scaled, and K K^T, which is its own transpose
	f           *ir.Value // E^T
	pt, kd      *ir.Value // P^T and Kd
}

// turn makes what needs no state.
func (e *Step) turn(c *HeadChunk) (t turned) {
	e.Sums(&c.Gates)
	b := e.B.Stage("gates")
	t.grown = e.Exp(c.Sum)
	t.left = b.Mul(e.Exp(c.Left), c.Beta)

	b.Stage("products")
	t.kq, t.kk = e.turnedProducts(c.Q, c.K)
	t.f = e.turnedDecay(c.Gates)
	b.Stage("decay")
	t.pt = e.Store(e.Times(t.kq, t.f))
	t.kd = e.Store(e.ByRows(e.PerValue(c.K), t.left))
	return t
}

// HeadState takes dS over a chunk, and makes no other gradient.
func (e *Step) HeadState(c HeadChunk) {
	t := e.turn(&c)
	tt, _ := e.bothInverses(t.kk, c.Gates)
	e.stateBackward(c.Q, c.K, e.Store(c.Do), t.pt, t.kd, tt, t.grown, t.left)
}

// Heads takes a chunk backwards. Its gradients of Q and K are of key heads, those of Q and K before they are normalized.
func (e *Step) Heads(c HeadChunk) Gradients {
	b, scale := e.B, e.Spec.EffectiveScale()
	t := e.turn(&c)
	q, k, kq, kk, f, grown, left := c.Q, c.K, t.kq, t.kk, t.f, t.grown, t.left
	state := e.Loads.State()
	tt, u := e.inverseAndValues(k, kk, c.Gates, grown, state)
	do := e.Store(c.Do)

	step := e.stateBackward(q, k, do, t.pt, t.kd, tt, grown, left)
	dos, ds, dr, low, n := step.dos, step.ds, step.dr, step.low, step.n

	b.Stage("dq")
	joined := e.V.KQ == gdn.JointJoined
	var dp, dn *ir.Value
	if joined && e.V.GradPrecision() == e.V.Numerics.PrecIntra {
		both := e.Dot(u, e.Concat(1, do, low), false, true, e.V.Numerics.PrecIntra)
		dp, dn = b.SliceAxis(both, 2, 0, e.C), b.SliceAxis(both, 2, e.C, 2*e.C)
	} else {
		dp, dn = e.Dot(u, do, false, true, e.V.GradPrecision()), e.Dot(u, low, false, true, e.V.GradPrecision()) // dP^T, and -dN^T with its diagonal, z
	}
	xf := e.Store(e.Times(dp, f))                         // X^T, without the scale
	yf := e.Store(e.StrictlyUpper(e.Times(b.Neg(dn), f))) // Y^T
	wt := b.Add(e.Times(xf, kq), e.Times(yf, kk))         // W^T
	if e.V.Training.DecayBy == gdn.DecayByTokens {
		wt = e.Summand(wt)
	}
	z := e.Diagonal(dn)                             // rows(U . dR)
	intoQ, intoK := e.stateGradients(dos, n, state) // dO' S^T and n S^T
	r := e.alongKeys(intoQ, q, intoK, k)
	xt := e.Store(b.Scale(e.PerKey(xf), scale))
	x := e.Turned(xt)
	var dq *ir.Value
	if e.V.Training.Grads == gdn.GradsInLanes {
		dq = b.Add(e.PerKey(intoQ), e.Dot(e.Turned(k), xt, false, false, e.V.GradPrecision()))
	} else {
		dq = b.Add(e.PerKey(intoQ), e.Dot(x, k, false, false, e.V.GradPrecision()))
	}

	dk, fromState := e.keyGradient(keyParts{q: q, k: k, u: u, x: x, xt: xt, yf: yf, ds: ds, left: left, into: intoK})
	var along *ir.Value // what is summed to y
	if e.V.Training.DecayBy == gdn.DecayByTokens {
		along = e.alongKeys(fromState, k, nil, nil)
	}

	b.Stage("dg")
	after, before := e.decaySums(wt, r, z, along)
	whole := b.Sum(b.Sum(b.Convert(e.Times(state, e.handed(ds)), ir.F32), 1), 1)
	dg := e.DecayGradient(after, before, b.Mul(b.Reshape(b.SliceAxis(grown, 1, e.C-1, e.C), whole.Type.Shape...), whole))
	dg = e.Alive(c.G, dg)
	dbeta := b.Div(z, c.Beta)

	b.Stage("output")
	if e.V.Training.Grads == gdn.GradsInLanes {
		dq, dk = b.Transpose(b.Convert(dq, e.Spec.DType), 0, 2, 1), b.Transpose(b.Convert(dk, e.Spec.DType), 0, 2, 1)
	}
	return Gradients{Q: dq, K: dk, V: dr, Decay: dg, Beta: dbeta}
}

// keyParts are what the gradient of K is made of.
type keyParts struct {
	q, k, u *ir.Value
	x, xt   *ir.Value // X and X^T
	yf      *ir.Value // Y, of value heads
	ds      *ir.Value
	left    *ir.Value // exp of the decay that is left, times beta
	into    *ir.Value // what K has from the state before
}

// keyGradient is dK of key heads, and what of it comes from the state after, of value heads.
func (e *Step) keyGradient(p keyParts) (dk, fromState *ir.Value) {
	b := e.B.Stage("dk")
	y := e.Mirrored(e.PerKey(p.yf))
	ud := e.Store(e.ByRows(e.Operand(p.u, e.V.Numerics.PrecState), p.left))
	var own [2][2]*ir.Value // X^T Q and (Y + Y^T) K
	if e.V.Training.Grads == gdn.GradsInLanes {
		fromState = e.Dot(p.ds, ud, false, true, e.V.Numerics.PrecState)
		own = [2][2]*ir.Value{{e.Turned(p.q), e.Operand(p.x, e.V.Numerics.PrecIntra)}, {e.Turned(p.k), y}}
	} else {
		fromState = e.Dot(ud, p.ds, false, true, e.V.Numerics.PrecState)
		own = [2][2]*ir.Value{{e.Operand(p.xt, e.V.Numerics.PrecIntra), p.q}, {y, p.k}}
	}
	dk = b.Add(e.PerKey(p.into), e.PerKey(fromState))
	if e.V.KQ == gdn.JointJoined {
		return b.Add(dk, e.Dot(e.Concat(2, own[0][0], own[1][0]), e.Concat(1, own[0][1], own[1][1]), false, false, e.V.Numerics.PrecIntra)), fromState
	}
	return b.Add(dk, b.Add(e.Dot(own[0][0], own[0][1], false, false, e.V.Numerics.PrecIntra), e.Dot(own[1][0], own[1][1], false, false, e.V.Numerics.PrecIntra))), fromState
}

// decaySums are what passes a token on its way to those after it, and to those before, [N, C].
func (e *Step) decaySums(wt, r, z, along *ir.Value) (after, before *ir.Value) {
	b := e.B
	rows := b.Sum(b.Convert(wt, ir.F32), 1)
	switch {
	case e.V.Training.DecayBy == gdn.DecayByInverse && e.V.Training.Grads == gdn.GradsInLanes:
		return r, b.Sub(z, rows)
	case e.V.Training.DecayBy == gdn.DecayByInverse:
		return e.SumLanes(tile.Lanes{{X: r, Sign: 1}})[0], b.Sub(z, rows)
	case e.V.Training.Grads == gdn.GradsInLanes:
		return b.Add(b.Add(rows, r), e.SumLanes(tile.Lanes{{X: wt, Sign: -1}})[0]), along
	}
	sums := e.SumLanes(tile.Lanes{{X: r, Sign: 1}, {X: wt, Sign: -1}}, tile.Lanes{{X: along, Sign: 1}})
	return b.Add(rows, sums[0]), sums[1]
}

// alongKeys multiplies rows of x by those of the keys or queries y, and of x1 by y1 where they are given, for sums over their
// lanes. Where tokens are in lanes these are sums over rows, [N, C], made here.
func (e *Step) alongKeys(x, y, x1, y1 *ir.Value) *ir.Value {
	b := e.B
	inLanes := e.V.Training.Grads == gdn.GradsInLanes
	times := func(x, y *ir.Value) *ir.Value {
		if inLanes {
			y = e.Turned(y)
		}
		return e.Times(x, e.PerValue(y))
	}
	sum := times(x, y)
	if x1 != nil {
		sum = b.Add(sum, times(x1, y1))
	}
	if inLanes {
		return b.Sum(b.Convert(sum, ir.F32), 1)
	}
	return e.Summand(sum)
}
