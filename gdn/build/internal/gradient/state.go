package gradient

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// stateStep are the gradients on the way from the state after a chunk to the state before it, as they are named at the head of this package.
type stateStep struct {
	dos *ir.Value // dO'
	ds  *ir.Value // dS after the chunk
	dr  *ir.Value // dR, and low as products take it
	low *ir.Value
	n   *ir.Value
}

// stateBackward takes dS, which is e.State, over a chunk c, of which t has what needs no state; do is dO as products take it, tt T^T.
//
//	dU = P^T dO + Kd dS          [C, V], the only term that waits for dS
//	dR = T^T dU
//	dS <- e^GC dS + Q^T dO' + K^T n
//
// It mirrors the step of the forward pass: three products, one behind the other, from one dS to the next. As there they may stand side by side,
// [P^T, Kd] [dO; dS] and [Q^T, K^T] [dO'; n], which saves the sums. Where the update has a precision of its own (precupdate), dS is in parts and K, in
// bf16, is one: so the weight of Kd goes behind the product, to its rows, and the parts are multiplied by K as it is.
//
// Keys that the kernel normalizes are multiplied by dS as they are given, and dU has 1/|k| behind the product (turned.unit), since nothing bounds what a rounding of them
// does there. Take one key of many lengths, beta 1 and no decay: a token's dR is scale (k . q) dO, a hundredth of dO with K of 128, and what is left of
// k_i dS less k_j dS, of this token and the next. Across k nothing of dS fades. So keys that are rounded behind their norm leave 2^-9 |dS| in dR: the
// gradient of beta was off by up to 2e-1.
func (e *Step) stateBackward(c *HeadChunk, t turned, do, tt *ir.Value) stateStep {
	b, scale, grown := e.B, e.Spec.EffectiveScale(), t.expG
	b.Stage("operands")
	dos := e.Store(e.ByRows(do, b.Scale(grown, scale).Called("growth")).Called("do_grown")) // dO'

	b.Stage("dr")
	ds := e.Store(e.State)
	var du *ir.Value
	switch {
	case e.V.UpdatePrecision() != e.V.Numerics.PrecState: // K is exact, dS is in parts
		du = b.Add(e.Dot(t.pt, do, false, false, e.V.UpdatePrecision()).Called("p_do"), b.Mul(e.Dot(e.PerValue(c.K), ds, false, false, e.V.UpdatePrecision()).Called("k_dstate"), e.Column(t.tail, e.Spec.V)).Called("kd_dstate")).Called("du")
	case e.V.Out != gdn.OutSeparate:
		du = e.Dot(e.Concat(2, t.pt, t.kd).Called("p_kd"), e.Concat(1, do, ds).Called("do_dstate"), false, false, e.V.Numerics.PrecState).Called("du")
	default:
		du = b.Add(e.Dot(t.pt, do, false, false, e.V.Numerics.PrecIntra).Called("p_do"), e.Dot(t.kd, ds, false, false, e.V.Numerics.PrecState).Called("kd_dstate")).Called("du")
	}
	if t.unit != nil {
		du = b.Mul(du, e.ofHeads(t.unit, du)).Called("du")
	}
	dr := e.Dot(tt, e.Store(du), false, false, e.V.ApplyPrecision()).Called("dr") // T^T dU, which is dV
	low := e.Store(dr)
	n := e.Store(e.ByRows(low, b.Neg(grown).Called("neg_growth")).Called("n")) // -e^G dR: what K S would gain

	b.Stage("state")
	decayed := b.Mul(e.State, e.Scalar(grown, e.C-1, e.Spec.K, e.Spec.V)).Called("decayed") // e^GC dS
	qt, kt := e.PerValue(e.Turned(c.Q)), e.PerValue(e.Turned(c.K))
	var added *ir.Value
	switch {
	case e.Spec.NegEigval && e.V.UpdatePrecision() != e.V.Numerics.PrecState:
		// K^T n is to dS what K^T V' is to S. With beta above 1 a token may flip the sign of the value that it replaces, so that nothing fades, and errors of both
		// stay: at cosine .9, beta 2 and 4096 tokens dv was off by 1.4e-2 in one pass, 1.9e-3 in three.
		exact := e.Store(e.ByRows(dr, b.Neg(grown)))
		added = b.Add(e.Dot(qt, dos, false, false, e.V.Numerics.PrecState), e.Dot(kt, exact, false, false, e.V.UpdatePrecision()))
	case e.V.Out != gdn.OutSeparate:
		added = e.Dot(e.Concat(2, qt, kt).Called("qk_t"), e.Concat(1, dos, n).Called("do_n"), false, false, e.V.Numerics.PrecState).Called("added")
	default:
		added = b.Add(e.Dot(qt, dos, false, false, e.V.Numerics.PrecState).Called("q_do"), e.Dot(kt, n, false, false, e.V.Numerics.PrecState).Called("k_n")).Called("added")
	}
	e.State = b.Add(decayed, added).Called("dstate") // dS of the state before the chunk
	return stateStep{dos, ds, dr, low, n}
}

// stateGradients are dO' S^T and n S^T, [N, C, K], or transposed where the variant has tokens of gradients in lanes: S dO'^T, [N, K, C]. Joined they are one
// product of [dO'; n], whose halves are cut from it again.
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
		return times(dos).Called("into_q"), times(n).Called("into_k")
	}
	axis, both := 1, times(e.Concat(1, dos, n).Called("do_n")).Called("into_qk")
	if inLanes {
		axis = 2
	}
	return b.SliceAxis(both, axis, 0, e.C).Called("into_q"), b.SliceAxis(both, axis, e.C, 2*e.C).Called("into_k")
}

// handed is a state as it passes from its phase to one behind it: rounded where products take it so, and no load of the carry,
// which would hold up its update.
//
// What reads the carry itself must do so before the new dS is stored there, and what reads it in a phase behind the state drags all that makes dS into
// that phase. So <S, dS>, a sum over a whole state, takes dS in bf16: the backward kernel of three passes went from 165.2k to 156.4k cycles on v6e, and
// dg of identical keys from 1.2e-3 to 2.2e-3, of 2e-2.
func (e *Step) handed(state *ir.Value) *ir.Value {
	if e.V.Numerics.PrecState != ir.PrecBF16x1 {
		return state
	}
	return e.B.Convert(state, ir.BF16)
}
