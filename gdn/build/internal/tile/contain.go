package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Containment. What one sequence, batch row or head is given reaches no other. Where the numbers of two are operands of one product,
// those of one meet zeros of the other; zero times infinity is NaN, and so is zero times NaN. So such operands are made finite first.
// They become huge, so that the poison shows in the outputs and the state that it belongs to; or zero, which takes fewer instructions,
// where it shows in them by another way.

// Finite is words of a part of numbers in bf16 with huge numbers in place of what is infinite or NaN: those lose the lowest bit of
// their exponent, and in a later part the highest, so that the sum of the parts is finite too. Of visits they become 2^112: what overflows
// in a product with them could vanish.
//
// A bf16 is a sign, eight bits of exponent and seven of fraction. An exponent of all ones have infinity and NaN alone:
//
//	0x7f80  infinity    xor 0x0080    0x7f00  2^127
//	0x7fc0  NaN         xor 0x0080    0x7f40  1.5 * 2^127
//	0x7fc0  NaN         xor 0x4000    0x3fc0  1.5, in a later part
func (e *Body) Finite(x *ir.Value, part int) *ir.Value {
	b := e.B
	const lowest = 0x0080_0080 // bit of the exponents of both halves
	bit, places := 0x0080_0080, 8
	switch {
	case part > 0:
		bit, places = 0x4000_4000, 1
	case e.Segments != nil:
		bit, places = 0x0800_0800, 4
	}
	if e.V.Numerics.DecayBF16 >= gdn.DecayBF16Operands {
		// 1 - 1 is 0, and inf - inf is NaN, as is NaN - NaN: an exponent of all ones.
		h := b.Halves(x)
		return b.Binary(ir.OpXor, x, b.And(b.Words(b.Sub(h, h)), b.Like(x, float64(bit))))
	}
	// One more than an exponent of all ones carries into the place of the sign.
	exponent := b.And(x, b.Like(x, 0x7f80_7f80))
	carry := b.And(b.Add(exponent, b.Like(x, lowest)), b.Like(x, 0x8000_8000))
	return b.Binary(ir.OpXor, x, b.Binary(ir.OpShr, carry, b.Like(x, float64(places))))
}

// Vanishing is Finite with next to zero in place of what is infinite or NaN, where there is arithmetic in bf16: the bits of NaN, whichever
// it is, have an exponent of all ones too.
//
// All ones by xor with all ones is an exponent of zeros: at most the largest number below the normal ones.
func (e *Body) Vanishing(x *ir.Value, part int) *ir.Value {
	b := e.B
	if e.V.Numerics.DecayBF16 < gdn.DecayBF16Operands {
		return e.Finite(x, part)
	}
	h := b.Halves(x)
	return b.Binary(ir.OpXor, x, b.Words(b.Sub(h, h)))
}

// huge is what is stored in place of larger numbers, and of NaN: bf16 has it, and twice of it.
const huge = 1e38

// Cleaning is Finite or Vanishing.
type Cleaning func(words *ir.Value, part int) *ir.Value

// Cleaned stores x, an operand of products that take several sequences at once, and makes it finite.
func (e *Body) Cleaned(x *ir.Value, by Cleaning) *ir.Value {
	b := e.B
	if e.V.Numerics.Store == ir.BF16 {
		return b.Halves(by(b.Words(e.Store(x)), 0))
	}
	// NaN compares false as infinity does, so one select has both. It takes the sign too: what is poisoned need only show.
	return e.Store(b.Select(b.Compare(ir.LT, b.Unary(ir.OpAbs, x), b.Like(x, huge)), x, b.Like(x, huge)))
}

// Rounded is what storing x in bf16 takes from it, itself in bf16: a later part of x, cleaned as such, so that it does not cancel the huge number
// that may stand for x.
//
// It takes x, and not what Cleaned made of it, so it does not wait for that. Where bf16 overflows x less infinity is infinite, and is cleaned here.
//
//	x = 1 + 2^-9    stored 1    rounded 2^-9
func Rounded(e *Body, x *ir.Value) *ir.Value {
	b := e.B
	rest := b.Sub(x, b.Convert(b.Convert(x, ir.BF16), ir.F32)).Called("lost")
	return b.Halves(e.Vanishing(b.Words(b.Convert(rest, ir.BF16)), 1))
}

// Fades says whether factors weigh what is stored in bf16 as it is, so that with AtMostOne what is finite stays so.
func Fades(v gdn.Variant) bool {
	return v.Numerics.Store == ir.BF16 && v.Numerics.DecayBF16 >= gdn.DecayBF16Operands
}

// AtMostOne is factors [N, C] of tokens, of which none is above 1 but by rounding, with 1 in place of NaN; and marks, which are NaN there
// then, for what shows it.
//
// x - x is 0, and NaN of NaN: so the mark stays where the factor lost it.
func AtMostOne(e *Body, x, marks *ir.Value) (factors, marked *ir.Value) {
	one := e.B.Like(x, 1)
	return e.B.Select(e.B.Compare(ir.LT, x, one), x, one), e.B.Add(marks, e.B.Sub(x, x))
}

// OfSegments is [N, R, L] of a tile for each visit, the same for all heads; or of one tile, where chunks are of one sequence.
func (e *Body) OfSegments(n int, tile func(visit int) *ir.Value) *ir.Value {
	if e.Segments == nil {
		return e.Over(n, tile(0))
	}
	var l []*ir.Value
	for visit := range e.Segments.Tiles {
		l = append(l, e.Over(n/len(e.Segments.Tiles), tile(visit)))
	}
	return e.B.Concat(0, l...)
}
