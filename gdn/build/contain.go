package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Containment. What one sequence, batch row or head is given reaches no other. Where the numbers of two are operands of one product,
// those of one meet zeros of the other; zero times infinity is NaN, and so is zero times NaN. So such operands are made finite first.
// They become huge, so that the poison shows in the outputs and the state that it belongs to.

// finite is words of bf16 with huge numbers in place of what is infinite or NaN: those lose the lowest bit of their exponent.
func (e *solver) finite(x *ir.Value) *ir.Value {
	b := e.b
	const lowest = 0x0080_0080 // of the exponents of both halves
	if e.v.Low >= gdn.LowOperands {
		// 1 - 1 is 0, and inf - inf is NaN, as is NaN - NaN: an exponent of all ones.
		h := b.Halves(x)
		return b.Binary(ir.OpXor, x, b.And(b.Words(b.Sub(h, h)), b.Like(x, lowest)))
	}
	// One more than an exponent of all ones carries into the place of the sign.
	exponent := b.And(x, b.Like(x, 0x7f80_7f80))
	carry := b.And(b.Add(exponent, b.Like(x, lowest)), b.Like(x, 0x8000_8000))
	return b.Binary(ir.OpXor, x, b.Binary(ir.OpShr, carry, b.Like(x, 8)))
}

// ofPairs is words that are weights of merges of blocks of w lanes: finite where two heads share the product.
func (e *solver) ofPairs(x *ir.Value, w int) *ir.Value {
	if e.shares(w, x.Type.Shape[0]) {
		return e.finite(x)
	}
	return x
}

// shares says whether merges of blocks of w lanes of n heads take two heads in a product.
func (e *solver) shares(w, n int) bool { return w <= e.v.MergePairs && n%2 == 0 }
