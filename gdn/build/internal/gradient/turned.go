package gradient

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// turnedProducts are scale K Q^T and K K^T [N, C, C], for each value head: (Q K^T)^T, and a matrix that is its own transpose.
func (e *Step) turnedProducts(q, k *ir.Value) (kq, kk *ir.Value) {
	b, c := e.B, e.C
	if e.V.KQ == gdn.JointJoined {
		both := e.Dot(k, e.Concat(1, q, k).Called("qk"), false, true, e.V.Numerics.PrecIntra).Called("k_qk")
		kq, kk = b.SliceAxis(both, 2, 0, c).Called("kq"), b.SliceAxis(both, 2, c, 2*c).Called("kk")
	} else {
		kq, kk = e.Dot(k, q, false, true, e.V.Numerics.PrecIntra).Called("kq"), e.Dot(k, k, false, true, e.V.Numerics.PrecIntra).Called("kk")
	}
	return e.PerValue(b.Scale(kq, e.Spec.EffectiveScale()).Called("kq")), e.PerValue(kk)
}

// turnedDecay is E^T of the gates: see tile.BetweenTurned. P^T, X^T and Y^T all have it as a factor.
func (e *Step) turnedDecay(w chunkwise.Gates) *ir.Value {
	e.B.Stage("decay")
	return tile.BetweenTurned(e.Body, w.G, w.Beta, w.Sums)
}

// bothInverses are T^T and T, kept or made again. Gradients take T^T; T is for U, where that is made again too. A decay that is not turned is made for
// this alone, and only where T is.
func (e *Step) bothInverses(kk *ir.Value, w chunkwise.Gates) (tt, t *ir.Value) {
	if e.Loads.Inverse != nil {
		tt = e.Loads.Inverse()
		return tt, e.Turned(tt)
	}
	negA, _ := e.Weights(e.B.Neg(kk), nil, e.Decay(w), w)
	if e.V.Inverse.Mask == gdn.MaskWords {
		t = e.Solver().SolveWords(negA)
	} else {
		t = e.Store(e.Solver().Solve(negA))
	}
	return e.Turned(t), t
}

// inverseAndValues are T^T and U, kept or made again from the state before the chunk: U = T (V - e^G K S). K S is
// made by itself here: Q S, which the forward pass has from the same product, is not needed.
func (e *Step) inverseAndValues(k, kk *ir.Value, w chunkwise.Gates, grown, state *ir.Value) (tt, u *ir.Value) {
	b := e.B
	tt, t := e.bothInverses(kk, w)
	if e.Loads.Written != nil {
		return tt, e.Loads.Written()
	}
	b.Stage("values")
	k = e.PerValue(k)
	var kS *ir.Value
	if e.V.Fold {
		kS = e.Dot(e.Store(e.ByRows(k, grown)), state, false, false, e.V.Numerics.PrecState)
	} else {
		kS = b.Mul(e.Column(grown, e.Spec.V), e.Dot(k, state, false, false, e.V.Numerics.PrecState))
	}
	r := b.Sub(b.Convert(e.Loads.Values(), ir.F32), kS)
	return tt, e.Store(e.Dot(t, e.Store(r), false, false, e.V.ApplyPrecision()))
}
