package tile

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// With split_at=def, operands of bf16x3 products are split where they are computed: x becomes x rounded to bf16 and the remainder rounded.
// This pair is stored between stages. The float32 value is kept for readers that need it, and is never computed
// if there are none.

// With refine=yes only the inverse and values of Held are split; everything else is bf16.
//
// A product of two such pairs, x = x0 + x1 and y = y0 + y1, is x0 y0 + x0 y1 + x1 y0: three bf16 passes. x1 y1 is 2^-18 of the
// result, below the error of the other terms. The passes are one product, whose contracted dimension is three times as long:
//
//	[x0 x1 x0] [y1; y0; y0]
//
// so that the MXU adds them in its float32 accumulators, small terms first, and nothing is stored or added between.

// InParts reports whether a value is stored in parts.
func InParts(e *Body, x *ir.Value) bool {
	return x.Type.DType == ir.F32 && (e.V.Numerics.Split == gdn.SplitDef || e.parts[x] != nil)
}

// Held is Store for operands of products at p: with refine=yes and three passes, in two parts.
func Held(e *Body, x *ir.Value, p ir.Precision) *ir.Value {
	if e.V.Inverse.Refine && p == ir.PrecBF16x3 && x.Type.DType == ir.F32 {
		e.Cut(x)
		return x
	}
	return e.Store(x)
}

// Mapped returns f of a value, where f moves or selects elements, and applies f to its stored parts.
func Mapped(e *Body, x *ir.Value, f func(*ir.Value) *ir.Value) *ir.Value {
	y := f(x)
	if y != x && InParts(e, x) {
		e.parts[y] = nil
		for _, part := range e.Cut(x) {
			e.parts[y] = append(e.parts[y], f(part))
		}
	}
	return y
}

// Split returns n bf16 parts of a value, each the rounded remainder. A bf16 value is its own only part.
//
//	x = 1 + 2^-9 + 2^-20:   x0 = 1, x1 = 2^-9, x2 = 2^-20     eight bits each: x0 ends at 2^-7
func (e *Body) Split(x *ir.Value, n int) []*ir.Value {
	if x.Type.DType == ir.BF16 {
		return []*ir.Value{x}
	}
	b := e.B
	var parts []*ir.Value
	for len(parts) < n {
		part := b.Convert(x, ir.BF16)
		if parts = append(parts, part); len(parts) < n {
			x = b.Sub(x, b.Convert(part, ir.F32)).Called("rest")
		}
	}
	return parts
}

// Cut returns the parts of x for bf16x3, stored from their first use on.
//
// So products of one value share its parts, and the parts pass from stage to stage.
func (e *Body) Cut(x *ir.Value) []*ir.Value {
	if e.parts[x] == nil {
		e.parts[x] = e.Split(x, 2)
	}
	return e.parts[x]
}

// Joined returns the value of parts, and stores the parts with it.
func (e *Body) Joined(parts []*ir.Value) *ir.Value {
	x := parts[0]
	if len(parts) == 2 {
		x = e.B.Add(e.B.Convert(parts[0], ir.F32), e.B.Convert(parts[1], ir.F32))
	}
	e.parts[x] = parts
	return x
}

// Concat joins values, and their stored parts. From bf16 and f32 values it makes f32.
func (e *Body) Concat(axis int, xs ...*ir.Value) *ir.Value {
	given := xs
	if slices.ContainsFunc(xs, func(x *ir.Value) bool { return x.Type.DType != xs[0].Type.DType }) {
		xs = slices.Clone(xs)
		for i, x := range xs {
			xs[i] = e.B.Convert(x, ir.F32)
		}
	}
	out := e.B.Concat(axis, xs...)
	if out.Type.DType == ir.BF16 || !slices.ContainsFunc(given, func(x *ir.Value) bool { return InParts(e, x) }) {
		return out
	}
	parts := make([][]*ir.Value, 2)
	for i, x := range given {
		if e.V.Numerics.Split == gdn.SplitDef {
			x = xs[i]
		}
		own := e.Cut(x)
		if len(own) == 1 { // exact
			own = append(slices.Clone(own), e.B.Like(own[0], 0))
		}
		for i, p := range own {
			parts[i] = append(parts[i], p)
		}
	}
	e.parts[out] = []*ir.Value{e.B.Concat(axis, parts[0]...), e.B.Concat(axis, parts[1]...)}
	return out
}

// Sliced returns entries lo to hi of x, and slices its stored parts.
func (e *Body) Sliced(x *ir.Value, lo, hi int) *ir.Value {
	out := e.B.SliceAxis(x, 0, lo, hi)
	for _, part := range e.parts[x] {
		e.parts[out] = append(e.parts[out], e.B.SliceAxis(part, 0, lo, hi))
	}
	return out
}

// dotParts computes a bf16x3 product as one: the parts are concatenated along the contracted dimension.
func (e *Body) dotParts(x, y *ir.Value, tx, ty bool) *ir.Value {
	return sideBySide(e, tx, ty, [2]*ir.Value{x, y})
}

// DotSum returns the sum of products x y of values stored in parts, as one product.
func DotSum(e *Body, pairs ...[2]*ir.Value) *ir.Value { return sideBySide(e, false, false, pairs...) }

// sideBySide returns the sum of x y over pairs x [N, R, K] and y [N, K, M], or transposed: [N, R, 3 K] by [N, 3 K, M] for each pair in two parts. A bf16
// value has one part, which makes 2 K.
func sideBySide(e *Body, tx, ty bool, pairs ...[2]*ir.Value) *ir.Value {
	n := pairs[0][0].Type.Rank()
	xk, yk := n-1, n-2
	if tx {
		xk = n - 2
	}
	if ty {
		yk = n - 1
	}
	var left, right []*ir.Value
	for _, pair := range pairs {
		xs, ys := e.Cut(pair[0]), e.Cut(pair[1])
		for _, q := range ir.PrecBF16x3.Products() {
			if q[0] < len(xs) && q[1] < len(ys) {
				left, right = append(left, xs[q[0]]), append(right, ys[q[1]])
			}
		}
	}
	return e.B.MatMul(concat(e, xk, left), concat(e, yk, right), tx, ty, ir.PrecBF16x1)
}

// concat joins parts along an axis. An unsplit part may be f32 with bf16 others: the product rounds it.
func concat(e *Body, axis int, parts []*ir.Value) *ir.Value {
	if slices.ContainsFunc(parts, func(p *ir.Value) bool { return p.Type.DType != parts[0].Type.DType }) {
		for i, p := range parts {
			if p.Type.DType != ir.F32 {
				parts[i] = e.B.Convert(p, ir.F32)
			}
		}
	}
	return e.B.Concat(axis, parts...)
}

// Parts returns the stored bf16 parts of x, or nil.
func (e *Body) Parts(x *ir.Value) []*ir.Value { return e.parts[x] }

// Turned transposes rows and lanes of x [N, R, L] to [N, L, R], also of stored parts.
func (e *Body) Turned(x *ir.Value) *ir.Value {
	return Mapped(e, x, func(x *ir.Value) *ir.Value { return e.B.Transpose(x, 0, 2, 1) })
}

// Mirrored returns Y + Y^T in stored form, for products with keys. Y is zero where Y^T is not, so if one pass is enough, only its first part is transposed.
// An OR of words is then the sum, exact and with half the registers of float32. The diagonal must be zero.
func (e *Body) Mirrored(y *ir.Value) *ir.Value {
	b := e.B
	if e.V.Numerics.PrecIntra != ir.PrecBF16x1 || e.V.Numerics.Split != gdn.SplitDef || e.C%2 != 0 {
		return e.Store(b.Add(y, e.Turned(y)))
	}
	y = b.Convert(y, ir.BF16)
	return b.Halves(b.Or(b.Words(y), b.Words(b.Transpose(y, 0, 2, 1))))
}

// Operand returns x as an operand of products at a precision: in one bf16 pass rounded, or its first part if parts are stored.
func (e *Body) Operand(x *ir.Value, p ir.Precision) *ir.Value {
	switch {
	case p != ir.PrecBF16x1:
		return x
	case InParts(e, x):
		return e.Cut(x)[0]
	}
	return e.B.Convert(x, ir.BF16)
}
