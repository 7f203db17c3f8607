package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// perKey sums over the value heads of each key head.
func (e *tiles) perKey(x *ir.Value) *ir.Value {
	if e.gb == 1 {
		return x
	}
	b, s := e.b, x.Type.Shape
	x = b.Reshape(b.Convert(x, ir.F32), s[0]/e.gb, e.gb, s[1], s[2])
	var sum *ir.Value
	for i := range e.gb {
		part := b.Reshape(b.SliceAxis(x, 1, i, i+1), s[0]/e.gb, s[1], s[2])
		if sum == nil {
			sum = part
		} else {
			sum = b.Add(sum, part)
		}
	}
	return sum
}

// turnedProducts are scale K Q^T and K K^T, for each value head.
func (e *gradient) turnedProducts(q, k *ir.Value) (kq, kk *ir.Value) {
	b, c := e.b, e.c
	if e.v.KQ == gdn.JointJoined {
		both := e.Dot(k, e.Concat(1, q, k), false, true, e.v.Numerics.PrecIntra)
		kq, kk = b.SliceAxis(both, 2, 0, c), b.SliceAxis(both, 2, c, 2*c)
	} else {
		kq, kk = e.Dot(k, q, false, true, e.v.Numerics.PrecIntra), e.Dot(k, k, false, true, e.v.Numerics.PrecIntra)
	}
	return e.perValue(b.Scale(kq, e.s.EffectiveScale())), e.perValue(kk)
}

// turnedDecay is E at [N, j, i]: exp of the sum of g after token j up to token i, times beta of j; 0 for j after i.
func (e *gradient) turnedDecay(w gates) *ir.Value {
	b, c := e.b.Stage("decay"), e.c
	var d *ir.Value
	if e.v.Decay == gdn.DecaySegment {
		d = b.Transpose(e.decay(w), 0, 2, 1)
	} else {
		d = e.differences(b, w, func(upto, after *ir.Value) *ir.Value { return b.Sub(e.Row(upto, c), e.Column(after, c)) })
		if e.v.Inverse.Mask == gdn.MaskSelect {
			d = b.Select(e.Over(d.Type.Shape[0], b.Compare(ir.LE, e.Iota(c, c, 0), e.Iota(c, c, 1))), d, b.Like(d, masked))
		}
		d = e.Exp(d)
	}
	if e.v.Beta != gdn.BetaExponent {
		d = b.Mul(d, e.Column(w.beta, c))
	}
	d = e.Store(d)
	if e.v.Inverse.Mask == gdn.MaskWords {
		d = e.Upper(d, 0)
	}
	return d
}

// bothInverses are T^T and T, kept or made again.
func (e *gradient) bothInverses(kk *ir.Value, w gates) (tt, t *ir.Value) {
	if e.in.kept.t != nil {
		tt = e.loadTurnedInverse()
		return tt, e.Turned(tt)
	}
	negA, _ := e.weights(e.b.Neg(kk), nil, e.decay(w), w)
	if e.v.Inverse.Mask == gdn.MaskWords {
		t = e.solver().SolveWords(negA)
	} else {
		t = e.Store(e.solver().Solve(negA))
	}
	return e.Turned(t), t
}

// inverseAndValues are T^T and U, kept or made again from the state before the chunk.
func (e *gradient) inverseAndValues(k, kk *ir.Value, w gates, grown, state *ir.Value) (tt, u *ir.Value) {
	b := e.b
	tt, t := e.bothInverses(kk, w)
	if l := e.in.kept.u; l != nil {
		return tt, e.loadKept(l)
	}
	b.Stage("values")
	k = e.perValue(k)
	var kS *ir.Value
	if e.v.Fold {
		kS = e.Dot(e.Store(e.ByRows(k, grown)), state, false, false, e.v.Numerics.PrecState)
	} else {
		kS = b.Mul(e.Column(grown, e.s.V), e.Dot(k, state, false, false, e.v.Numerics.PrecState))
	}
	r := b.Sub(b.Convert(e.loadRows(e.in.v), ir.F32), kS)
	return tt, e.Store(e.Dot(t, e.Store(r), false, false, e.v.ApplyPrecision()))
}
