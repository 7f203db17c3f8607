package inverse

import (
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// With refine=yes the inverse X of I - B, made in one bf16 pass from B rounded to bf16, takes back what rounding cost it by one step of
// Newton's iteration (Schulz 1933):
//
//	R = I - (I - B) X    E = X R    T = X + E
//
// The error of T is that of X by itself: where X is off by 1e-2, T is by 1e-4. B has two bf16 parts here, high and low, which stand side by
// side in one product; X and E are the two parts of T, and stand side by side wherever T is taken. None of these products waits for a state.

// refined is T of B [N, C, C], whose upper part may hold anything, and X in bf16.
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
	// The diagonal of B is -1 here, so that the product is (B - I) X; that of R is zero.
	left := b.Concat(2, b.Halves(b.Or(strict(high), e.Over(x.Type.Shape[0], e.minusOnes()))), b.Halves(strict(low)))
	rest := b.MatMul(left, b.Concat(1, x, x), false, false, ir.PrecBF16x1)
	rest = b.Halves(strict(b.Convert(rest, ir.BF16)))
	return e.Joined([]*ir.Value{x, b.Convert(b.MatMul(x, rest, false, false, ir.PrecBF16x1), ir.BF16)})
}

// minusOnes is -1 in bf16 on the diagonal, on words.
func (e *Solver) minusOnes() *ir.Value {
	return e.wordTile(func(lane, row *ir.Value) *ir.Value { return e.B.Compare(ir.EQ, lane, row) }, 0xbf80)
}

// wordTile is a [C, C] tile on words, with bits where a condition on lane and row holds.
func (e *Solver) wordTile(holds func(lane, row *ir.Value) *ir.Value, bits int) *ir.Value {
	b, c := e.B, e.C
	lane, r := e.Iota(c/2, c, 1), e.Iota(c/2, c, 0)
	t := ir.T(ir.U32, c/2, c)
	even := b.Add(r, r)
	low := b.Select(holds(lane, even), b.Const(t, float64(bits)), b.Const(t, 0))
	high := b.Select(holds(lane, e.Plus(even, 1)), b.Const(t, float64(bits<<16)), b.Const(t, 0))
	return b.Or(low, high)
}

// Applied is T r, or r T^T of turned values [N, V, C]; r is as it is stored.
//
//	[X E] [r; r] = X r + E r,   turned: [r r] [X E]^T
func (e *Solver) Applied(t, r *ir.Value, turned bool) *ir.Value {
	b, parts, p := e.B, e.Parts(t), e.V.ApplyPrecision()
	held := e.V.Inverse.Refine && p == ir.PrecBF16x1 // T alone is in parts
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
