package gradient

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// One decay a head. Two forms of dg stand to choice (decaygrad). With sums over rows and columns of W it is as at the head of this package. The columns
// can be had otherwise: dR = T^T dU is (I + N)^T dR = dU, whose product with U, summed over a row, is
//
//	z_j = U_j . dR_j = U_j . dU_j - sum over i of N_ij (dR_i . U_j) = columns_j(dP . P) + y_j + columns_j(dN . N) = columns_j W + y_j
//
// and since all rows of W sum to what all its columns do,
//
//	dg_t = sum over i >= t of r_i + sum over j < t of (z_j - rows_j W) + e^GC <S, dS>
//
// without sums of columns and y, both of which are sums over lanes. That is as accurate as the inverse and dU are: better than the first form on
// correlated keys where they are, and worse where decay is strong and they are not, since it sums over tokens whose parts in dg cancel.
//
// # Turned matrices
//
// Matrices of tokens x tokens are held transposed, token j in the rows and i in the lanes: X^T is dP^T . E^T, and dP^T = U dO^T is as easy to make as dP.
// Then what is summed over i, columns of W, is summed over lanes, and what is summed over j, rows of W, over the rows of a tile, which is a sum of
// registers. z is the diagonal of U dR^T, that of the product that makes -dN^T. Only T, Q, K, X and Y are ever transposed:
//
//	P^T dO, T^T dU     as held                       X K         X, turned once per key head
//	X^T Q              as held                       (Y + Y^T) K symmetric (tile.Body.Mirrored)
//
// With grads=lanes dQ and dK are transposed too, [K, C], until they are done: r and y, sums over channels, are then sums of registers as well, and
// tokens lie along the lanes, where dg wants them.

// HeadChunk is a chunk of a rule with one decay a head: Q and K [N of key heads, C, K] as products take them, dO [N, C,
// V], and the gates. If the kernel normalizes keys, Given are the keys before that.
type HeadChunk struct {
	Q, K, Do *ir.Value
	Given    *ir.Value
	chunkwise.Gates
}

// turned has the values of a chunk that do not depend on its state, of value heads; matrices of tokens x tokens are transposed.
type turned struct {
	expG, tail *ir.Value // e^G and beta e^(GC-G) [N, C]
	kq, kk     *ir.Value // (Q K^T)^T, scaled, and K K^T, which is its own transpose
	f          *ir.Value // E^T
	pt, kd     *ir.Value // P^T and Kd, in units of unit where that is not nil
	unit       *ir.Value // 1/|k| [N of key heads, C]
}

// turn computes the values that need no state.
func (e *Step) turn(c *HeadChunk) (t turned) {
	e.Sums(&c.Gates)
	b := e.B.Stage("gates")
	t.expG = e.Exp(c.Sum).Called("growth")
	t.tail = b.Mul(e.Exp(c.Tail), c.Beta).Called("left")

	b.Stage("products")
	t.kq, t.kk = e.turnedProducts(c.Q, c.K)
	t.f = e.turnedDecay(c.Gates)
	b.Stage("decay")
	kq, keys := t.kq, c.K
	if c.Given != nil && e.V.UpdatePrecision() == e.V.Numerics.PrecState {
		squares := gate.Squares(b, c.Given)
		t.unit = b.Unary(ir.OpRsqrt, squares).Called("unit")
		kq, keys = b.Mul(kq, e.ofHeads(b.Mul(squares, t.unit), kq)).Called("kq_given"), c.Given
	}
	t.pt = e.Store(e.Times(kq, t.f).Called("p_t"))
	t.kd = e.Store(e.ByRows(e.PerValue(keys), t.tail).Called("kd"))
	return t
}

// ofHeads spreads x [N of key heads, C] over the lanes of y, for each of its heads.
func (e *Step) ofHeads(x, y *ir.Value) *ir.Value {
	x = e.Column(x, y.Type.Shape[2])
	if x.Type.Shape[0] < y.Type.Shape[0] {
		x = e.PerValue(x)
	}
	return x
}

// HeadState updates dS over a chunk and computes no other gradient: for a range of tokens of which only the effect on
// earlier states counts, as on devices that share a sequence. It reads neither values nor the state, on which dS does
// not depend.
func (e *Step) HeadState(c HeadChunk) {
	t := e.turn(&c)
	tt, _ := e.bothInverses(t.kk, c.Gates)
	e.stateBackward(&c, t, e.Store(c.Do), tt)
}

// Heads computes the gradients of a chunk. Gradients of Q and K are per key head, with respect to c.Q and c.K:
// normalized, if the kernel normalizes.
//
// dS is computed first, since the chunk before waits for it (stateBackward). The rest follows, and a schedule may put
// it into a phase of its own (bwd.phases_after).
func (e *Step) Heads(c HeadChunk) Gradients {
	b, scale := e.B, e.Spec.EffectiveScale()
	t := e.turn(&c)
	q, k, kq, kk, f, grown, left := c.Q, c.K, t.kq, t.kk, t.f, t.expG, t.tail
	state := e.Loads.State()
	tt, u := e.inverseAndValues(k, kk, c.Gates, grown, state)
	do := e.Store(c.Do)

	step := e.stateBackward(&c, t, do, tt)
	dos, ds, dr, low, n := step.dos, step.ds, step.dr, step.low, step.n

	b.Stage("dq")
	joined := e.V.KQ == gdn.JointJoined
	var dp, dn *ir.Value
	if joined && e.V.GradPrecision() == e.V.Numerics.PrecIntra {
		both := e.Dot(u, e.Concat(1, do, low).Called("do_dr"), false, true, e.V.Numerics.PrecIntra).Called("dpn_t")
		dp, dn = b.SliceAxis(both, 2, 0, e.C), b.SliceAxis(both, 2, e.C, 2*e.C)
	} else {
		dp, dn = e.Dot(u, do, false, true, e.V.GradPrecision()).Called("dp_t"), e.Dot(u, low, false, true, e.V.GradPrecision()).Called("dn_t") // dP^T, and -dN^T with its diagonal, z
	}
	xf := e.Store(e.Times(dp, f).Called("x_t"))                                               // X^T, without the scale
	yf := e.Store(e.StrictlyUpper(e.Times(b.Neg(dn), f).Called("y_t")))                       // Y^T
	wt := b.Add(e.Times(xf, kq).Called("x_qk"), e.Times(yf, kk).Called("y_kk")).Called("w_t") // W^T
	if e.V.Training.DecayBy == gdn.DecayByTokens {
		wt = e.Summand(wt)
	}
	z := e.Diagonal(dn).Called("z")                 // rows(U . dR)
	intoQ, intoK := e.stateGradients(dos, n, state) // dO' S^T and n S^T
	r := e.alongKeys(intoQ, q, intoK, k)
	xt := e.Store(b.Scale(e.PerKey(xf), scale).Called("x_key_t"))
	x := e.Turned(xt)
	var dq *ir.Value
	if e.V.Training.Grads == gdn.GradsInLanes {
		dq = b.Add(e.PerKey(intoQ), e.Dot(e.Turned(k), xt, false, false, e.V.GradPrecision()).Called("x_k")).Called("dq")
	} else {
		dq = b.Add(e.PerKey(intoQ), e.Dot(x, k, false, false, e.V.GradPrecision()).Called("x_k")).Called("dq")
	}

	// What K has from the state after it is y, too, once it is multiplied by K and summed.
	dk, fromState := e.keyGradient(keyParts{q: q, k: k, u: u, x: x, xt: xt, yf: yf, ds: ds, tail: left, into: intoK})
	var along *ir.Value // what is summed to y
	if e.V.Training.DecayBy == gdn.DecayByTokens {
		along = e.alongKeys(fromState, k, nil, nil)
	}

	b.Stage("dg")
	after, before := e.decaySums(wt, r, z, along)
	// e^GC <S, dS> is one number for all tokens of the chunk: the log decay of each weighs all that is left of S.
	whole := b.Sum(b.Sum(b.Convert(e.Times(state, e.handed(ds)).Called("inner"), ir.F32), 1).Called("inner"), 1).Called("inner")
	dg := e.DecayGradient(after, before, b.Mul(b.Reshape(b.SliceAxis(grown, 1, e.C-1, e.C), whole.Type.Shape...), whole).Called("through"))
	dg = e.Alive(c.G, dg)
	dbeta := b.Div(z, c.Beta).Called("dbeta")

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
	tail    *ir.Value // exp of the decay that is left, times beta
	into    *ir.Value // what K has from the state before
}

// keyGradient is dK of key heads, and what of it comes from the state after, Ud dS^T, of value heads.
//
//	dK = n S^T + Ud dS^T + X^T Q + (Y + Y^T) K       the last two are one product where joined: [X^T, Y + Y^T] [Q; K], [C, 2C] [2C, K]
//
// What has a decay or a state is of value heads and summed over those of a key head first; products with Q and K are then one for all of them. In
// lanes all terms are transposed: [Q^T K^T] [X; Y + Y^T].
func (e *Step) keyGradient(p keyParts) (dk, fromState *ir.Value) {
	b := e.B.Stage("dk")
	y := e.Mirrored(e.PerKey(p.yf))
	ud := e.Store(e.ByRows(e.Operand(p.u, e.V.Numerics.PrecState), p.tail).Called("ud"))
	var own [2][2]*ir.Value // X^T Q and (Y + Y^T) K
	if e.V.Training.Grads == gdn.GradsInLanes {
		fromState = e.Dot(p.ds, ud, false, true, e.V.Numerics.PrecState).Called("from_state")
		own = [2][2]*ir.Value{{e.Turned(p.q), e.Operand(p.x, e.V.Numerics.PrecIntra)}, {e.Turned(p.k), y}}
	} else {
		fromState = e.Dot(ud, p.ds, false, true, e.V.Numerics.PrecState).Called("from_state")
		own = [2][2]*ir.Value{{e.Operand(p.xt, e.V.Numerics.PrecIntra), p.q}, {y, p.k}}
	}
	dk = b.Add(e.PerKey(p.into), e.PerKey(fromState)).Called("dk_state")
	if e.V.KQ == gdn.JointJoined {
		return b.Add(dk, e.Dot(e.Concat(2, own[0][0], own[1][0]).Called("xy"), e.Concat(1, own[0][1], own[1][1]).Called("qk"), false, false, e.V.Numerics.PrecIntra).Called("xy_qk")).Called("dk"), fromState
	}
	return b.Add(dk, b.Add(e.Dot(own[0][0], own[0][1], false, false, e.V.Numerics.PrecIntra), e.Dot(own[1][0], own[1][1], false, false, e.V.Numerics.PrecIntra))), fromState
}

// decaySums are what passes a token on its way to those after it, and to those before, [N, C]: of tokens rows - columns + r and y, by the inverse r and
// z - rows (see the head of this file). DecayGradient sums the first from each token on, the second up to it.
//
// Sums over lanes are dear: all that a form needs are asked for at once, so that they share a product or a transpose (tile.Body.SumLanes). In lanes r and
// along are summed already (alongKeys).
func (e *Step) decaySums(wt, r, z, along *ir.Value) (after, before *ir.Value) {
	b := e.B
	rows := b.Sum(b.Convert(wt, ir.F32), 1).Called("rows")
	switch {
	case e.V.Training.DecayBy == gdn.DecayByInverse && e.V.Training.Grads == gdn.GradsInLanes:
		return r, b.Sub(z, rows).Called("before")
	case e.V.Training.DecayBy == gdn.DecayByInverse:
		return e.SumLanes(tile.Lanes{{X: r, Sign: 1}})[0], b.Sub(z, rows)
	case e.V.Training.Grads == gdn.GradsInLanes:
		return b.Add(b.Add(rows, r), e.SumLanes(tile.Lanes{{X: wt, Sign: -1}})[0]).Called("after"), along
	}
	sums := e.SumLanes(tile.Lanes{{X: r, Sign: 1}, {X: wt, Sign: -1}}, tile.Lanes{{X: along, Sign: 1}})
	return b.Add(rows, sums[0]).Called("after"), sums[1].Called("before")
}

// alongKeys multiplies rows of x by those of the keys or queries y, and of x1 by y1 where they are given, for sums over their
// lanes: r of dO' S^T by Q and n S^T by K, y of Ud dS^T by K. Where tokens are in lanes these are sums over rows, [N, C], made here.
func (e *Step) alongKeys(x, y, x1, y1 *ir.Value) *ir.Value {
	b := e.B
	inLanes := e.V.Training.Grads == gdn.GradsInLanes
	times := func(x, y *ir.Value) *ir.Value {
		if inLanes {
			y = e.Turned(y)
		}
		return e.Times(x, e.PerValue(y)).Called("along")
	}
	sum := times(x, y)
	if x1 != nil {
		sum = b.Add(sum, times(x1, y1)).Called("along_sum")
	}
	if inLanes {
		return b.Sum(b.Convert(sum, ir.F32), 1)
	}
	return e.Summand(sum)
}
