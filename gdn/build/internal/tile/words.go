package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// With mask=words, triangular and block masks are ANDs on u32 words of two bf16 rows. That is half the work of a select, and
// it clears infinities and NaN too. So decay needs no mask before its exponential: overflow above the diagonal
// is cleared here.

// Masked zeroes x [N, R, C], in bf16 or its parts, where keep(row, lane) does not hold, and stores it.
func (e *Body) Masked(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	return e.MaskedIn(x, func(_ int, row, lane *ir.Value) *ir.Value { return keep(row, lane) })
}

// MaskedIn is Masked with a condition that also depends on the visit.
func (e *Body) MaskedIn(x *ir.Value, keep func(visit int, row, lane *ir.Value) *ir.Value) *ir.Value {
	b, s := e.B, x.Type.Shape
	if e.V.Inverse.Mask != gdn.MaskWords {
		x = b.Convert(x, ir.F32)
		holds := e.OfSegments(s[0], func(visit int) *ir.Value { return keep(visit, e.Iota(s[1], s[2], 0), e.Iota(s[1], s[2], 1)) })
		return e.Store(b.Select(holds, x, b.Like(x, 0)))
	}
	return e.AndWords(x, e.OfSegments(s[0], func(visit int) *ir.Value {
		return e.WordsWhere(s[1], s[2], func(row, lane *ir.Value) *ir.Value { return keep(visit, row, lane) })
	}))
}

// AndWords zeroes x, in bf16 or its parts, where a mask on words is zero.
func (e *Body) AndWords(x, mask *ir.Value) *ir.Value {
	var parts []*ir.Value
	for _, words := range e.Words(x) {
		parts = append(parts, e.B.Halves(e.B.And(words, mask).Called(ir.NameOf(x))))
	}
	return e.Joined(parts)
}

// WordsWhere returns words with all ones in the halves where keep holds, for a [rows, lanes] tile. Row r of words holds rows 2r (low) and
// 2r + 1 (high).
//
//	lane <= row, four rows:   row 0  ffffffff ffff0000 .        .           rows 0 and 1
//	                          row 1  ffffffff ffffffff ffffffff ffff0000    rows 2 and 3
func (e *Body) WordsWhere(rows, lanes int, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	b := e.B
	r, l := e.Iota(rows/2, lanes, 0), e.Iota(rows/2, lanes, 1)
	t := ir.T(ir.U32, rows/2, lanes)
	zero := b.Const(t, 0)
	even := b.Add(r, r).Called("even")
	low := b.Select(keep(even, l), b.Const(t, 0xffff), zero).Called("low")
	high := b.Select(keep(e.Plus(even, 1).Called("odd"), l), b.Const(t, 0xffff0000), zero).Called("high")
	return b.Or(low, high).Called("mask")
}

// Lower zeroes x [N, C, C], in bf16 or its parts, above the diagonal and for pairs of tokens of two sequences.
func (e *Body) Lower(x *ir.Value) *ir.Value {
	upto := func(row, lane *ir.Value) *ir.Value { return e.B.Compare(ir.LE, lane, row) }
	if TurnsPairs(e) {
		upto = func(row, lane *ir.Value) *ir.Value { return e.B.Compare(ir.GE, lane, row) }
	}
	if e.Segments == nil || e.V.Inverse.Mask != gdn.MaskWords {
		return e.Masked(x, upto)
	}
	return e.AndWords(x, e.OwnWords(x, upto))
}

// TurnsPairs reports whether matrices of token pairs (D, A, T and P) are transposed: rows are the earlier tokens, lanes the later ones. Visits use T^T and
// P^T as weights, and an MXU of 256 rows takes twice as long to load transposed weights. The work is symmetric except for masks and the order of merges,
// so no transpose is needed. Forms with column decays in f32 are for MXUs of 128 rows, which load transposed weights as fast: they would lose 2 % up
// to 1024 tokens.
func TurnsPairs(e *Body) bool {
	v := e.V
	return e.Segments != nil && v.Mapping.Pack == gdn.PackAligned && v.Forward.Prefetch == gdn.PrefetchDMA && v.Beta == gdn.BetaExponent && v.Decay != gdn.DecaySegment &&
		v.RowBroadcast == gdn.BroadcastTranspose && v.KQ == gdn.JointJoined && v.Inverse.Mask == gdn.MaskWords && !v.Inverse.Refine && v.Numerics.DecayBF16 == gdn.DecayBF16All
}

// OwnWords returns a mask on words of x [N, C, C]: all ones where the tokens of lane and row are in the same sequence
// and keep (nil: true) holds.
func (e *Body) OwnWords(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	return e.OfSegments(x.Type.Shape[0], func(visit int) *ir.Value {
		own := e.WordsWhere(e.C, e.C, func(row, lane *ir.Value) *ir.Value {
			if TurnsPairs(e) {
				row, lane = lane, row
			}
			return e.Segments.Together(visit, row, lane)
		})
		if keep != nil {
			own = e.B.And(own, e.WordsWhere(e.C, e.C, keep)).Called("mask")
		}
		return own
	})
}

// Upper zeroes element (row, lane) of x [N, C, C], in bf16 or its parts, unless lane >= row + by.
func (e *Body) Upper(x *ir.Value, by int) *ir.Value {
	b, c := e.B, e.C
	r, l := e.Iota(c/2, c, 0), e.Iota(c/2, c, 1)
	t := ir.T(ir.U32, c/2, c)
	zero := b.Const(t, 0)
	even := b.Add(r, r).Called("even")
	low := b.Select(b.Compare(ir.GE, l, e.Plus(even, by)), b.Const(t, 0xffff), zero).Called("low")
	high := b.Select(b.Compare(ir.GE, l, e.Plus(even, by+1).Called("odd")), b.Const(t, 0xffff0000), zero).Called("high")
	return e.AndWords(x, e.Over(x.Type.Shape[0], b.Or(low, high).Called("mask")))
}

// Words returns x in bf16, or its parts, as words.
func (e *Body) Words(x *ir.Value) []*ir.Value {
	var out []*ir.Value
	for _, part := range e.WordParts(x) {
		out = append(out, e.B.Words(part))
	}
	return out
}

func (e *Body) WordParts(x *ir.Value) []*ir.Value {
	if InParts(e, x) {
		return e.Cut(x)
	}
	return []*ir.Value{e.B.Convert(x, ir.BF16)}
}

// StrictlyUpper zeroes x [N, j, i] except for i > j.
func (e *Body) StrictlyUpper(x *ir.Value) *ir.Value {
	if e.V.Inverse.Mask == gdn.MaskWords {
		return e.Upper(x, 1)
	}
	return e.B.Convert(e.Keep(e.B.Convert(x, ir.F32), e.B.Compare(ir.LT, e.Iota(e.C, e.C, 0), e.Iota(e.C, e.C, 1))), x.Type.DType)
}
