package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Between returns D at [N, i, j]: exp of the sum of g after token j up to token i, times beta of j if it is in the exponent (the
// logarithm of 0 is -Inf, whose exponential is 0). For j after i it is 0, or arbitrary if masks are on words. It is nil without a
// log decay.
//
//	D[i, j] = exp(G_i - G_j)             beta=left, right
//	D[i, j] = exp(G_i - (G_j - ln beta_j))   beta=exponent: saves a product each for A and P, which then include beta of their column
//
// The upper triangle must be masked before exp, not after it: G_i - G_j is positive there and may overflow, and infinity times a zero of a
// mask is NaN. On words the mask is an AND of bits, which also clears infinities, so it comes last, on half the width.
// With transposed pairs (TurnsPairs) the result is at [N, j, i].
func (e *Body) Between(log, beta *ir.Value, s Sums) *ir.Value {
	b, c := e.B, e.C
	if log == nil {
		return nil
	}
	n := log.Type.Shape[0]
	ri, ci := e.Iota(c, c, 0), e.Iota(c, c, 1)
	// segment: the product of [i, m], 1 for m <= i, and [m, j], g_m for m > j, sums g over j < m <= i, with nothing to cancel.
	//
	//	g = [a b c]:   [ 0        .  . ]
	//	               [ b        0  . ]
	//	               [ b+c      c  0 ]
	var d *ir.Value
	if e.V.Decay == gdn.DecaySegment {
		t := ir.T(ir.F32, c, c)
		upto := b.Select(b.Compare(ir.GE, ri, ci), b.Const(t, 1), b.Const(t, 0))
		after := e.Over(n, b.Compare(ir.GT, ri, ci))
		g := e.Column(log, c)
		d = b.MatMul(e.Over(n, upto), b.Select(after, g, b.Like(g, 0)), false, false, ir.PrecF32)
		if e.V.Beta == gdn.BetaExponent {
			d = b.Add(d, e.Row(e.Log(beta), c))
		}
	} else {
		d = e.Differences(s, beta, func(upto, after *ir.Value) *ir.Value {
			if TurnsPairs(e) {
				return b.Sub(e.Row(upto, c), TurnedColumn(b, after, c)).Called("g_diff")
			}
			own := e.Column(upto, c)
			// A row broadcast over a tile is a load, and transposing the tile costs the XLU no more than broadcasting each sum over its row:
			// a step went from 6223 to 6152 cycles.
			if e.V.RowBroadcast == gdn.BroadcastTranspose {
				own = b.Transpose(e.Row(upto, c), 0, 2, 1)
			}
			return b.Sub(own, e.Row(after, c)).Called("g_diff")
		})
	}
	if e.V.Inverse.Mask == gdn.MaskWords {
		return e.Exp(d).Called("decay")
	}
	// Together is arbitrary for a lane after its row, so the triangle is masked too.
	seen := e.Over(n, b.Compare(ir.GE, ri, ci))
	if e.Segments != nil {
		seen = b.And(seen, e.OfSegments(n, func(visit int) *ir.Value { return e.Segments.Together(visit, ri, ci) }))
	}
	return e.Exp(b.Select(seen, d, b.Like(d, Masking))).Called("decay")
}

// Differences sums between(upto, after) over the parts of the log decay, for its sums up to one token and up to another. The latter include
// the logarithm of beta if it is in the exponent.
func (e *Body) Differences(s Sums, beta *ir.Value, between func(upto, after *ir.Value) *ir.Value) (d *ir.Value) {
	b := e.B
	for i, g := range s.Parts {
		after := g
		if i == 0 && e.V.Beta == gdn.BetaExponent {
			after = b.Sub(g, e.Log(beta)).Called("g_after")
		}
		part := between(g, after)
		if d == nil {
			d = part
		} else {
			d = b.Add(d, part)
		}
	}
	return d
}

// Masking is a log decay whose exponential is zero.
const Masking = -1e30

// BetweenTurned returns E at [N, j, i]: exp of the sum of g after token j up to token i, times beta of j; 0 for j after i.
//
// Rows are j and lanes i here, the transpose of Between. It masks itself, since several products of the backward pass read E;
// Between on words leaves the mask to A and P.
func BetweenTurned(e *Body, log, beta *ir.Value, s Sums) *ir.Value {
	b, c := e.B, e.C
	var d *ir.Value
	if e.V.Decay == gdn.DecaySegment {
		d = b.Transpose(e.Between(log, beta, s), 0, 2, 1)
	} else {
		// If sums over lanes use the XLU, with MXUs of 128 rows, transposes as in Between make a backward kernel 6 % faster; with MXUs
		// of 256 rows, 8 to 12 % slower.
		column := e.Column
		if e.V.RowBroadcast == gdn.BroadcastTranspose && e.V.Training.DecaySums == gdn.SumLanes {
			column = func(x *ir.Value, lanes int) *ir.Value { return TurnedColumn(b, x, lanes) }
		}
		d = e.Differences(s, beta, func(upto, after *ir.Value) *ir.Value {
			return b.Sub(e.Row(upto, c), column(after, c)).Called("g_diff")
		})
		if e.V.Inverse.Mask == gdn.MaskSelect {
			d = b.Select(e.Over(d.Type.Shape[0], b.Compare(ir.LE, e.Iota(c, c, 0), e.Iota(c, c, 1))), d, b.Like(d, Masking))
		}
		d = e.Exp(d).Called("decay_t")
	}
	if e.V.Beta != gdn.BetaExponent {
		d = b.Mul(d, e.Column(beta, c)).Called("decay_t")
	}
	d = e.Store(d)
	if e.V.Inverse.Mask == gdn.MaskWords {
		d = e.Upper(d, 0)
	}
	return d
}
