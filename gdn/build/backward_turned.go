package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// perKey sums over the value heads of each key head.
func (e *tiles) perKey(x *ir.Value) *ir.Value { return tile.Summed(e.b, x, e.gb) }

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

// turnedDecay is E of the gates: see tile.BetweenTurned.
func (e *gradient) turnedDecay(w gates) *ir.Value {
	e.b.Stage("decay")
	return tile.BetweenTurned(e.Body, w.g, w.beta, w.Sums)
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
