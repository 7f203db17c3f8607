package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Containment. What one sequence, batch row or head is given reaches no other. Where the numbers of two are operands of one product,
// those of one meet zeros of the other; zero times infinity is NaN, and so is zero times NaN. So such operands are made finite first.
// They become huge, so that the poison shows in the outputs and the state that it belongs to.

// finite is words of a part of numbers in bf16 with huge numbers in place of what is infinite or NaN: those lose the lowest bit of
// their exponent, and in a later part the highest, so that the sum of the parts is finite too.
func (e *solver) finite(x *ir.Value, part int) *ir.Value {
	b := e.b
	const lowest = 0x0080_0080 // bit of the exponents of both halves
	bit, places := 0x0080_0080, 8
	if part > 0 {
		bit, places = 0x4000_4000, 1
	}
	if e.v.Low >= gdn.LowOperands {
		// 1 - 1 is 0, and inf - inf is NaN, as is NaN - NaN: an exponent of all ones.
		h := b.Halves(x)
		return b.Binary(ir.OpXor, x, b.And(b.Words(b.Sub(h, h)), b.Like(x, float64(bit))))
	}
	// One more than an exponent of all ones carries into the place of the sign.
	exponent := b.And(x, b.Like(x, 0x7f80_7f80))
	carry := b.And(b.Add(exponent, b.Like(x, lowest)), b.Like(x, 0x8000_8000))
	return b.Binary(ir.OpXor, x, b.Binary(ir.OpShr, carry, b.Like(x, float64(places))))
}

// huge is what is stored in place of larger numbers, and of NaN: bf16 has it, and twice of it.
const huge = 1e38

// cleaned stores x, an operand of products that take several sequences at once, and makes it finite.
func (e *solver) cleaned(x *ir.Value) *ir.Value {
	b := e.b
	if e.v.Store == ir.BF16 {
		return b.Halves(e.finite(b.Words(e.store(x)), 0))
	}
	return e.store(b.Select(b.Compare(ir.LT, b.Unary(ir.OpAbs, x), b.Like(x, huge)), x, b.Like(x, huge)))
}

// contained is words of a part of merged blocks of w lanes, finite where those of another head or sequence meet them in a product.
func (e *solver) contained(x *ir.Value, part, w int) *ir.Value {
	switch {
	case e.visits != nil:
		return e.finite(x, part)
	case e.shares(w, x.Type.Shape[0]):
		return e.finite(x, 0)
	}
	return x
}

// shares says whether merges of blocks of w lanes of n heads take two heads in a product.
func (e *solver) shares(w, n int) bool { return w <= e.v.MergePairs && n%2 == 0 }

// ofVisits is [N, R, L] of a tile for each visit, the same for all heads; or of one tile, where chunks are of one sequence.
func (e *tiles) ofVisits(n int, tile func(visit int) *ir.Value) *ir.Value {
	if e.visits == nil {
		return e.over(n, tile(0))
	}
	var l []*ir.Value
	for visit := range e.visits.Tiles {
		l = append(l, e.over(n/len(e.visits.Tiles), tile(visit)))
	}
	return e.b.Concat(0, l...)
}
