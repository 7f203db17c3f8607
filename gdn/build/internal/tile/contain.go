package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Containment: inputs of one sequence, batch row or head must not affect another. If values of two of them are operands of one product,
// values of one are multiplied by zeros of the other; zero times infinity is NaN, and so is zero times NaN. So such operands are made finite first.
// They become huge numbers, so that the fault shows in their own outputs and state; or zero, which takes fewer instructions,
// if it shows there in another way.

// Finite returns words of a part of bf16 numbers with huge numbers in place of infinities and NaN. These lose the lowest bit of
// their exponent, and in a later part the highest, so that the sum of the parts is finite too. In visits they become 2^112, since larger numbers
// could overflow in a product and then vanish.
//
// A bf16 is a sign, eight bits of exponent and seven of fraction. Only infinities and NaN have an exponent of all ones:
//
//	0x7f80  infinity    xor 0x0080    0x7f00  2^127
//	0x7fc0  NaN         xor 0x0080    0x7f40  1.5 * 2^127
//	0x7fc0  NaN         xor 0x4000    0x3fc0  1.5, in a later part
func (e *Body) Finite(x *ir.Value, part int) *ir.Value {
	b := e.B
	const lowest = 0x0080_0080 // a bit of the exponents of both halves
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
	// Adding one to an exponent of all ones carries into the sign bit.
	exponent := b.And(x, b.Like(x, 0x7f80_7f80))
	carry := b.And(b.Add(exponent, b.Like(x, lowest)), b.Like(x, 0x8000_8000))
	return b.Binary(ir.OpXor, x, b.Binary(ir.OpShr, carry, b.Like(x, float64(places))))
}

// Vanishing is Finite with nearly zero in place of infinities and NaN, for targets with bf16 arithmetic: every NaN has an exponent of all
// ones too.
//
// XOR with all ones turns an exponent of all ones into zeros: at most the largest subnormal number.
func (e *Body) Vanishing(x *ir.Value, part int) *ir.Value {
	b := e.B
	if e.V.Numerics.DecayBF16 < gdn.DecayBF16Operands {
		return e.Finite(x, part)
	}
	h := b.Halves(x)
	return b.Binary(ir.OpXor, x, b.Words(b.Sub(h, h)))
}

// huge replaces larger numbers and NaN; bf16 can represent it and twice its value.
const huge = 1e38

// Cleaning is Finite or Vanishing.
type Cleaning func(words *ir.Value, part int) *ir.Value

// Cleaned stores x, an operand of products that combine several sequences, and makes it finite.
func (e *Body) Cleaned(x *ir.Value, by Cleaning) *ir.Value {
	b := e.B
	if e.V.Numerics.Store == ir.BF16 {
		return b.Halves(by(b.Words(e.Store(x)), 0))
	}
	// NaN compares false like infinity, so one select handles both. The sign is lost too, since the fault only has to show.
	return e.Store(b.Select(b.Compare(ir.LT, b.Unary(ir.OpAbs, x), b.Like(x, huge)), x, b.Like(x, huge)))
}

// Rounded returns the error of rounding x to bf16, itself in bf16: a later part of x. It is cleaned as such, so that it does not cancel a huge number
// that replaces x.
//
// It uses x instead of the result of Cleaned, so it does not wait for that. If bf16 overflows, x minus infinity is infinite, and is cleaned here.
//
//	x = 1 + 2^-9    stored 1    rounded 2^-9
func Rounded(e *Body, x *ir.Value) *ir.Value {
	b := e.B
	rest := b.Sub(x, b.Convert(b.Convert(x, ir.BF16), ir.F32)).Called("lost")
	return b.Halves(e.Vanishing(b.Words(b.Convert(rest, ir.BF16)), 1))
}

// Fades reports whether factors multiply stored bf16 values, so that with AtMostOne finite values stay finite.
func Fades(v gdn.Variant) bool {
	return v.Numerics.Store == ir.BF16 && v.Numerics.DecayBF16 >= gdn.DecayBF16Operands
}

// AtMostOne returns factors [N, C] of tokens, at most 1 except for rounding, with 1 in place of NaN; and marks, which become NaN there,
// so that the fault shows.
//
// x - x is 0, or NaN for NaN, so adding it to the mark keeps the fault.
func AtMostOne(e *Body, x, marks *ir.Value) (factors, marked *ir.Value) {
	one := e.B.Like(x, 1)
	return e.B.Select(e.B.Compare(ir.LT, x, one), x, one), e.B.Add(marks, e.B.Sub(x, x))
}

// OfSegments returns [N, R, L] from one tile per visit, the same for all heads; or from one tile if chunks have one sequence.
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
