package gradient

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// stateStep are the gradients on the way from the state after a chunk to the state before it: see heads.go.
type stateStep struct {
	dos *ir.Value // dO'
	ds  *ir.Value // dS after the chunk
	dr  *ir.Value // dR, and low as products take it
	low *ir.Value
	n   *ir.Value
}

// stateBackward takes dS, which is e.State, over a chunk. pt is P^T, kd is Kd and tt T^T; grown and left [N, C] are e^G and beta e^(GC-G).
func (e *Step) stateBackward(q, k, do, pt, kd, tt, grown, left *ir.Value) stateStep {
	b, scale := e.B, e.Spec.EffectiveScale()
	b.Stage("operands")
	dos := e.Store(e.ByRows(do, b.Scale(grown, scale))) // dO'

	b.Stage("dr")
	ds := e.Store(e.State)
	var du *ir.Value
	switch {
	case e.V.UpdatePrecision() != e.V.Numerics.PrecState: // K is exact, dS is in parts
		du = b.Add(e.Dot(pt, do, false, false, e.V.UpdatePrecision()), b.Mul(e.Dot(e.PerValue(k), ds, false, false, e.V.UpdatePrecision()), e.Column(left, e.Spec.V)))
	case e.V.Out != gdn.OutSeparate:
		du = e.Dot(e.Concat(2, pt, kd), e.Concat(1, do, ds), false, false, e.V.Numerics.PrecState)
	default:
		du = b.Add(e.Dot(pt, do, false, false, e.V.Numerics.PrecIntra), e.Dot(kd, ds, false, false, e.V.Numerics.PrecState))
	}
	dr := e.Dot(tt, e.Store(du), false, false, e.V.ApplyPrecision()) // T^T dU, which is dV
	low := e.Store(dr)
	n := e.Store(e.ByRows(low, b.Neg(grown))) // -e^G dR: what K S would gain

	b.Stage("state")
	decayed := b.Mul(e.State, e.Scalar(grown, e.C-1, e.Spec.K, e.Spec.V)) // e^GC dS
	qt, kt := e.PerValue(e.Turned(q)), e.PerValue(e.Turned(k))
	var added *ir.Value
	switch {
	case e.Spec.NegEigval && e.V.UpdatePrecision() != e.V.Numerics.PrecState: // K^T n is to dS what K^T V' is to S: where beta turns states, errors of both stay
		exact := e.Store(e.ByRows(dr, b.Neg(grown)))
		added = b.Add(e.Dot(qt, dos, false, false, e.V.Numerics.PrecState), e.Dot(kt, exact, false, false, e.V.UpdatePrecision()))
	case e.V.Out != gdn.OutSeparate:
		added = e.Dot(e.Concat(2, qt, kt), e.Concat(1, dos, n), false, false, e.V.Numerics.PrecState)
	default:
		added = b.Add(e.Dot(qt, dos, false, false, e.V.Numerics.PrecState), e.Dot(kt, n, false, false, e.V.Numerics.PrecState))
	}
	e.State = b.Add(decayed, added) // dS of the state before the chunk
	return stateStep{dos, ds, dr, low, n}
}

// stateGradients are dO' S^T and n S^T, [N, C, K], or turned where the variant has tokens of gradients in lanes.
func (e *Step) stateGradients(dos, n, state *ir.Value) (intoQ, intoK *ir.Value) {
	b, p := e.B, e.V.Numerics.PrecState
	inLanes := e.V.Training.Grads == gdn.GradsInLanes
	times := func(x *ir.Value) *ir.Value {
		if inLanes {
			return e.Dot(state, x, false, true, p)
		}
		return e.Dot(x, state, false, true, p)
	}
	if e.V.KQ != gdn.JointJoined {
		return times(dos), times(n)
	}
	axis, both := 1, times(e.Concat(1, dos, n))
	if inLanes {
		axis = 2
	}
	return b.SliceAxis(both, axis, 0, e.C), b.SliceAxis(both, axis, e.C, 2*e.C)
}

// handed is a state as it passes from its phase to one behind it: rounded where products take it so, and no load of the carry,
// which would hold up its update.
func (e *Step) handed(state *ir.Value) *ir.Value {
	if e.V.Numerics.PrecState != ir.PrecBF16x1 {
		return state
	}
	return e.B.Convert(state, ir.BF16)
}
