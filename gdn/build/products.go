package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// productKey brings keys or queries of the chunks in flight, [N of key heads, C, K], as products take them.
func (e *gated) productKey(o *operand) *ir.Value {
	if e.normalizes() {
		return e.plainKey(o)
	}
	return e.loadKey(o)
}

// normalizes says whether products take queries and keys that the kernel is to normalize as they are.
func (e *gated) normalizes() bool {
	return e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel && e.v.Algo == gdn.AlgoChunk
}

// norms takes the lengths of queries and keys that products take as they are, so that no key is rounded anew. With n = 1/|k| and
// D the decay,
//
//	A_ij = D_ij n_i (K K^T)_ij n_j   V' = T(V - n e^G K S)   X = n V'
//	O = (e^G Q S + (D . Q K^T) X) / |q|   S <- e^G S + (K e^(G_C - G))^T X
//
// From K K^T [N, C, C], for key heads or for value heads, it makes that of keys of length 1, nil where there is none; where there is a
// decay a channel it is negated, and with beta=right times beta of the column.
func (e *gated) norms(w *work, kk *ir.Value) *ir.Value {
	b := e.b
	squared := gate.Squares(b, w.k)
	w.inverse = b.Unary(ir.OpRsqrt, squared)
	w.length = b.Mul(squared, w.inverse)
	if w.q != nil {
		w.query = b.Unary(ir.OpRsqrt, gate.Squares(b, w.q))
		if e.v.Scale == gdn.ScaleOutput {
			w.query = b.Scale(w.query, e.s.EffectiveScale())
		}
	}
	if kk == nil {
		return nil
	}
	across := w.inverse
	if w.channels != nil {
		across = b.Keep(b.Reshape(e.perValue(b.Reshape(across, across.Type.Shape[0], 1, e.c)), kk.Type.Shape[0], e.c))
		if e.v.Beta == gdn.BetaRight && w.beta != nil {
			across = b.Mul(across, w.beta)
		}
		across = b.Neg(across)
	} else { // the squares of the columns stand on the diagonal
		across = e.Diagonal(kk)
		across = b.Unary(ir.OpRsqrt, b.Add(across, b.Like(across, gdn.L2Eps)))
	}
	along := e.Column(w.inverse, e.c)
	if !e.v.Share {
		along = e.perValue(along)
	}
	return b.Mul(b.Mul(kk, e.Row(across, e.c)), along)
}

// loadKey brings keys or queries of the chunks in flight, [N of key heads, C, K].
func (e *gated) loadKey(o *operand) *ir.Value {
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		b := e.b.Stage("load")
		return gate.NormRows(b, e.loadRows(o))
	}
	return e.plainKey(o)
}

// plainKey is loadKey without normalization.
func (e *gated) plainKey(o *operand) *ir.Value {
	b := e.b.Stage("load")
	x := e.loadRows(o)
	low := e.s.DType == ir.BF16 && (e.v.Numerics.PrecIntra != ir.PrecF32 || e.v.Numerics.PrecState != ir.PrecF32)
	if !low {
		x = b.Convert(x, ir.F32)
	}
	return x
}

// products are K K^T, and scale Q K^T where there is a q, for each value head.
func (e *gated) products(q, k *ir.Value) (kk, qk *ir.Value) {
	b := e.b.Stage("products")
	if !e.v.Share {
		k = e.perValue(k)
		if q != nil {
			q = e.perValue(q)
		}
	}
	switch {
	case q == nil:
		kk = e.Dot(k, k, false, true, e.v.Numerics.PrecIntra)
	case e.v.KQ == gdn.JointJoined:
		if q.Type.DType != k.Type.DType {
			q, k = b.Convert(q, ir.F32), b.Convert(k, ir.F32)
		}
		both := e.Dot(b.Concat(1, k, q), k, false, true, e.v.Numerics.PrecIntra)
		kk, qk = b.SliceAxis(both, 1, 0, e.c), b.SliceAxis(both, 1, e.c, 2*e.c)
	default:
		kk = e.Dot(k, k, false, true, e.v.Numerics.PrecIntra)
		qk = e.Dot(q, k, false, true, e.v.Numerics.PrecIntra)
	}
	if qk != nil {
		qk = e.scaled(qk)
		if e.v.Share {
			qk = e.perValue(qk)
		}
	}
	return kk, qk
}

// negated is -K K^T for each value head, of keys at their length.
func (e *gated) negated(w *work, kk *ir.Value) *ir.Value {
	if e.normalizes() {
		kk = e.norms(w, kk)
	}
	kk = e.b.Neg(kk)
	if e.v.Share {
		return e.perValue(kk)
	}
	return kk
}

// scaled is what is made of q, times the scale unless the output takes it.
func (e *gated) scaled(x *ir.Value) *ir.Value {
	if e.v.Scale == gdn.ScaleOutput {
		return x
	}
	return e.b.Scale(x, e.s.EffectiveScale())
}

// weights are -A, strictly lower triangular, and P, from the products and the decay. With beta=right both carry beta of
// their column.
func (e *gated) weights(negKK, qk, d *ir.Value, w gates) (negA, p *ir.Value) {
	b, c := e.b.Stage("decay"), e.c
	n := e.entries()
	if d != nil {
		n = d.Type.Shape[0]
	}
	inner, masks := d, d != nil // the decay of later tokens is 0
	if e.v.Beta == gdn.BetaRight && w.beta != nil {
		d = e.Weighed(d, e.Row(w.beta, c))
		inner = d
	} else if e.v.Beta == gdn.BetaLeft && negKK != nil {
		inner = e.Weighed(d, e.Column(w.beta, c))
	}
	if e.v.Inverse.Mask == gdn.MaskWords {
		if negKK != nil {
			negA = e.Times(negKK, inner)
		}
		if qk != nil {
			p = e.Lower(e.Times(qk, d))
		}
		return negA, p
	}
	if negKK != nil {
		strict := e.Over(n, b.Compare(ir.GT, e.Iota(c, c, 0), e.Iota(c, c, 1)))
		negA = b.Convert(e.Times(negKK, inner), ir.F32)
		negA = b.Select(strict, negA, b.Like(negA, 0))
	}
	if qk != nil {
		p = e.Times(qk, d)
		if !masks {
			seen := e.Over(n, b.Compare(ir.GE, e.Iota(c, c, 0), e.Iota(c, c, 1)))
			p = b.Select(seen, p, b.Like(p, 0))
		}
		p = e.Store(p)
	}
	return negA, p
}

// queryProducts is scale Q K^T for each value head.
func (e *gated) queryProducts(q, k *ir.Value) *ir.Value {
	e.b.Stage("products")
	return e.perValue(e.scaled(e.Dot(q, k, false, true, e.v.Numerics.PrecIntra)))
}
