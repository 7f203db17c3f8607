package inverse

import (
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// With refine=yes one Newton step (Schulz 1933) corrects the inverse X of I - B, which one bf16 pass computed from
// B rounded to bf16:
//
//	R = I - (I - B) X    E = X R    T = X + E
//
// The error of T is the square of X's: 1e-4 for a relative error of 1e-2 in X. B has two bf16 parts here, high and low, joined
// in one product. X and E are the two parts of T, and joined wherever T is used. None of these products depends on a state.

// refined returns T for B [N, C, C], whose upper part is arbitrary, and X in bf16.
//
// One step squares the residual: I - (I - B) (X + X R) = R - (I - R) R = R^2.
func (e *Solver) refined(x, neg *ir.Value) *ir.Value {
	b := e.B.Stage("solve")
	high := b.Convert(neg, ir.BF16)
	low := b.Convert(b.Sub(neg, b.Convert(high, ir.F32)), ir.BF16)
	before := func(row, lane *ir.Value) *ir.Value { return b.Compare(ir.LT, lane, row) }
	below := e.Over(x.Type.Shape[0], e.WordsWhere(e.C, e.C, before))
	if e.Segments != nil {
		below = e.OwnWords(x, before)
	}
	strict := func(x *ir.Value) *ir.Value {
		words := b.And(b.Words(x), below)
		if e.Segments != nil {
			words = e.Finite(words, 0)
		}
		return words
	}
	// The diagonal of B is set to -1, so that the product is (B - I) X; the diagonal of R is zero.
	left := b.Concat(2, b.Halves(b.Or(strict(high), e.Over(x.Type.Shape[0], e.minusOnes()))), b.Halves(strict(low)))
	rest := b.MatMul(left, b.Concat(1, x, x), false, false, ir.PrecBF16x1)
	rest = b.Halves(strict(b.Convert(rest, ir.BF16)))
	return e.Joined([]*ir.Value{x, b.Convert(b.MatMul(x, rest, false, false, ir.PrecBF16x1), ir.BF16)})
}

// minusOnes returns bf16 -1 on the diagonal, as words.
func (e *Solver) minusOnes() *ir.Value {
	return e.wordTile(func(lane, row *ir.Value) *ir.Value { return e.B.Compare(ir.EQ, lane, row) }, 0xbf80)
}

// wordTile returns a [C, C] tile of words, with the given bits where a condition on lane and row holds.
func (e *Solver) wordTile(holds func(lane, row *ir.Value) *ir.Value, bits int) *ir.Value {
	b, c := e.B, e.C
	lane, r := e.Iota(c/2, c, 1), e.Iota(c/2, c, 0)
	t := ir.T(ir.U32, c/2, c)
	even := b.Add(r, r)
	low := b.Select(holds(lane, even), b.Const(t, float64(bits)), b.Const(t, 0))
	high := b.Select(holds(lane, e.Plus(even, 1)), b.Const(t, float64(bits<<16)), b.Const(t, 0))
	return b.Or(low, high)
}

// Applied returns T r, or r T^T for transposed values [N, V, C]; r is in stored form.
//
//	[X E] [r; r] = X r + E r,   transposed: [r r] [X E]^T
func (e *Solver) Applied(t, r *ir.Value, turned bool) *ir.Value {
	b, parts, p := e.B, e.Parts(t), e.V.ApplyPrecision()
	held := e.V.Inverse.Refine && p == ir.PrecBF16x1 // only T has parts
	switch {
	case !held && turned:
		return e.Dot(r, t, false, !tile.TurnsPairs(e.Body), p)
	case !held:
		return e.Dot(t, r, false, false, p)
	case turned:
		return b.MatMul(b.Concat(2, r, r), b.Concat(2, parts...), false, true, ir.PrecBF16x1)
	}
	return b.MatMul(b.Concat(2, parts...), b.Concat(1, r, r), false, false, ir.PrecBF16x1)
}
