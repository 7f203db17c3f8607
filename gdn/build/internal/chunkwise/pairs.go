package chunkwise

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Pairs computes T if wantT, P if wantP and there are queries, and the norms of keys and queries. A caller does not
// want what an earlier grid computed: T and P with flow=split, T with flow=solve. An additive rule has no T.
func (e *Chunks) Pairs(w *Work, wantT, wantP bool) {
	w.reads = e.Reading(w.Gates, w.K)
	if wantT || wantP {
		var q, negA, negKK, qk *ir.Value
		if wantP {
			q = w.Q
		}
		switch {
		case w.Channels != nil:
			negA, w.P = e.channelPairs(w, q, wantT)
		case wantT:
			var kk *ir.Value
			kk, qk = e.products(q, w.K)
			negKK = e.negated(w, kk)
		default:
			qk = e.queryProducts(q, w.K)
		}
		if w.Channels == nil {
			negA, w.P = e.Weights(negKK, qk, e.Decay(w.Gates), w.Gates)
		}
		if wantT {
			w.T = e.Solver().Invert(negA)
		}
	}
	e.B.Stage("load")
	if e.Normalizes() && w.inverse == nil {
		e.norms(w, nil)
	}
}

// channelPairs are -A and P of a decay a channel: K K^T, or that of what reads in place of its rows, and scale Q K^T with the decay of each pair, for
// each value head, as Weights makes them. Without a q there is no P, and no A unless it is wanted.
//
// The sum over channels of k_ic k_jc e^(L_ic - L_jc) is no product of K K^T and a weight of the pair, so the decay is in the products
// (internal/channel), and Weights is given no D. It is asked twice, since the rows of A and P may have beta of their column by different means: with
// keys normalized here, A has it in the lengths of its columns (norms), and P as ever.
func (e *Rule) channelPairs(w *Work, q *ir.Value, wanted bool) (negA, p *ir.Value) {
	b := e.B.Stage("products")
	k := b.Keep(e.PerValue(w.K)) // levels take halves of its rows
	if q != nil {
		q = b.Keep(e.PerValue(q))
	}
	var rows *ir.Value
	if wanted {
		rows = cmp.Or(w.reads, k)
	}
	kk, qk := w.Channels.Products(q, k, rows)
	if wanted {
		own := w.Gates
		if !e.Normalizes() {
			kk = b.Neg(kk)
		} else if kk = e.norms(w, kk); e.V.Beta == gdn.BetaRight {
			own.Beta = nil // the lengths of columns have it
		}
		negA, _ = e.Weights(kk, nil, nil, own)
	}
	if qk != nil {
		_, p = e.Weights(nil, e.scaled(qk), nil, w.Gates)
	}
	return negA, p
}

// squares sums the squares of each row, if whoever loaded the rows has not.
func (e *Rule) squares(x *ir.Value) *ir.Value {
	if s := e.Squared[x]; s != nil {
		return s
	}
	return gate.Squares(e.B, x)
}

// norms takes the lengths of queries and keys that products take as they are, so that no key is rounded anew. With n = 1/|k| and
// D the decay,
//
//	A_ij = D_ij n_i (K K^T)_ij n_j   V' = T(V - n e^G K S)   X = n V'
//	O = (e^G Q S + (D . Q K^T) X) / |q|   S <- e^G S + (K e^(G_C - G))^T X
//
// From K K^T [N, C, C], for key heads or for value heads, it makes that of keys of length 1, nil where there is none; where there is a
// decay a channel it is negated, and with beta=right times beta of the column.
//
// X = n V' is stored, since the output and the update multiply it by unnormalized K: |k| undoes n where V' itself is wanted (length).
// An output has 1/|q| last, with the scale if the output takes that. The state is that of keys of length 1: it has no part in this.
func (e *Rule) norms(w *Work, kk *ir.Value) *ir.Value {
	b := e.B
	squared := e.squares(w.K)
	w.inverse = b.Unary(ir.OpRsqrt, squared).Called("unit")
	w.length = b.Mul(squared, w.inverse).Called("length")
	if w.Q != nil {
		w.query = b.Unary(ir.OpRsqrt, e.squares(w.Q)).Called("unit_q")
		if e.V.Scale == gdn.ScaleOutput {
			w.query = b.Scale(w.query, e.Spec.EffectiveScale()).Called("unit_q")
		}
	}
	if kk == nil {
		return nil
	}
	across := w.inverse
	if w.Channels != nil {
		across = b.Keep(b.Reshape(e.PerValue(b.Reshape(across, across.Type.Shape[0], 1, e.C)), kk.Type.Shape[0], e.C))
		if e.V.Beta == gdn.BetaRight && w.Beta != nil {
			across = b.Mul(across, w.Beta)
		}
		across = b.Neg(across)
	} else {
		// The squares of the columns are on the diagonal of K K^T, and a sum over rows gives them as a row. What was summed over the lanes of K is a
		// column, which would have to be transposed.
		across = e.Diagonal(kk)
		across = b.Unary(ir.OpRsqrt, b.Add(across, b.Like(across, gdn.L2Eps)))
	}
	along := e.Column(w.inverse, e.C)
	if !e.V.Share {
		along = e.PerValue(along)
	}
	return b.Mul(b.Mul(kk, e.Row(across, e.C)).Called("kk"), along).Called("kk")
}

// products are K K^T and, where there is a q, scale Q K^T [N, C, C], the latter for each value head, the former of key heads with share=yes.
//
// With share=no they are made for every value head, though those of a key head have the same. Joined they are one product with the rows of K as
// weights, [K; Q] K^T [2C, C]: an MXU loads K once.
func (e *Rule) products(q, k *ir.Value) (kk, qk *ir.Value) {
	b := e.B.Stage("products")
	if !e.V.Share {
		k = e.PerValue(k)
		if q != nil {
			q = e.PerValue(q)
		}
	}
	switch {
	case q == nil:
		kk = e.Dot(k, k, false, true, e.V.Numerics.PrecIntra).Called("kk")
	case e.V.KQ == gdn.JointJoined:
		if q.Type.DType != k.Type.DType {
			q, k = b.Convert(q, ir.F32), b.Convert(k, ir.F32)
		}
		if tile.TurnsPairs(e.Body) { // K Q^T
			both := e.Dot(k, b.Concat(1, k, q).Called("kq"), false, true, e.V.Numerics.PrecIntra).Called("k_kq")
			kk, qk = b.SliceAxis(both, 2, 0, e.C).Called("kk"), b.SliceAxis(both, 2, e.C, 2*e.C).Called("kq")
			break
		}
		both := e.Dot(b.Concat(1, k, q).Called("kq"), k, false, true, e.V.Numerics.PrecIntra).Called("kq_k")
		kk, qk = b.SliceAxis(both, 1, 0, e.C).Called("kk"), b.SliceAxis(both, 1, e.C, 2*e.C).Called("qk")
	default:
		kk = e.Dot(k, k, false, true, e.V.Numerics.PrecIntra).Called("kk")
		qk = e.Dot(q, k, false, true, e.V.Numerics.PrecIntra).Called("qk")
	}
	if qk != nil {
		qk = e.scaled(qk)
		if e.V.Share {
			qk = e.PerValue(qk)
		}
	}
	return kk, qk
}

// negated is -K K^T for each value head, of keys at their length. The sign goes to what is of key heads, where there are fewer of it: solvers take -A.
func (e *Rule) negated(w *Work, kk *ir.Value) *ir.Value {
	if e.Normalizes() {
		kk = e.norms(w, kk)
	}
	kk = e.B.Neg(kk).Called("neg_kk")
	if e.V.Share {
		return e.PerValue(kk)
	}
	return kk
}

// Weights returns -A, strictly lower triangular, and P, from the products and the decay. With beta=right both include
// beta of their column.
//
//	inner_ij = D_ij, D_ij beta_i or D_ij beta_j      what A takes: beta=left has it in the rows of A alone, not in P
//	-A = strict(inner . -K K^T)    P = tril(d . scale Q K^T)
//
// negKK and qk may be nil, and so may d, if a rule has no decay or the products already include it: then D is 1
// everywhere. Without d P is masked here; with d it need not be, since Between made D zero for later tokens. A is
// always masked, since its diagonal |k_i|^2 must go too.
//
// With masks on words D is not masked (Between), so products with it are arbitrary above the diagonal, infinities
// included. The solver accepts such a -A (SolveWords); P is masked here, since products read all of it.
func (e *Rule) Weights(negKK, qk, d *ir.Value, w Gates) (negA, p *ir.Value) {
	b, c := e.B.Stage("decay"), e.C
	n := e.entries()
	if d != nil {
		n = d.Type.Shape[0]
	}
	inner, masks := d, d != nil // the decay of later tokens is 0, so products with it are
	if e.V.Beta == gdn.BetaRight && w.Beta != nil {
		d = e.Weighed(d, e.Row(w.Beta, c))
		inner = d
	} else if e.V.Beta == gdn.BetaLeft && negKK != nil {
		inner = e.Weighed(d, e.Column(w.Beta, c))
	}
	if e.V.Inverse.Mask == gdn.MaskWords {
		if negKK != nil {
			negA = e.Times(negKK, inner).Called("neg_a")
		}
		if qk != nil {
			p = e.Lower(e.Times(qk, d).Called("p"))
		}
		return negA, p
	}
	if negKK != nil {
		strict := e.Over(n, b.Compare(ir.GT, e.Iota(c, c, 0), e.Iota(c, c, 1)))
		negA = b.Convert(e.Times(negKK, inner), ir.F32)
		negA = b.Select(strict, negA, b.Like(negA, 0)).Called("neg_a")
	}
	if qk != nil {
		p = e.Times(qk, d).Called("p")
		if !masks {
			seen := e.Over(n, b.Compare(ir.GE, e.Iota(c, c, 0), e.Iota(c, c, 1)))
			p = b.Select(seen, p, b.Like(p, 0)).Called("p")
		}
		p = e.Store(p)
	}
	return negA, p
}

// queryProducts is scale Q K^T for each value head, without K K^T: of an additive rule, and where an earlier grid made T.
func (e *Rule) queryProducts(q, k *ir.Value) *ir.Value {
	e.B.Stage("products")
	return e.PerValue(e.scaled(e.Dot(q, k, false, true, e.V.Numerics.PrecIntra).Called("qk")))
}

// entries is N, what a step has interleaved: chunks in flight x batch rows x value heads, in this order.
func (e *Rule) entries() int { return e.V.Mapping.Chunks * e.V.Mapping.Batch * e.V.Mapping.Heads }
