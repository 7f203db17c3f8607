package passes

import "github.com/gdngen/gdngen/ir"

// Precision expands bf16x3 and bf16x6 dots: each operand becomes bf16 parts, and each product a bf16x1 dot of parts, added in the order of
// Precision.Products, smallest first. x is about x0 + x1, where each part is the remainder of the previous ones, rounded to bf16:
//
//	bf16x3:  x y = x0 y1 + x1 y0 + x0 y0                                two parts, off by 2^-16 or so
//	bf16x6:  x y = x0 y2 + x2 y0 + x1 y1 + x0 y1 + x1 y0 + x0 y0        three parts: all 24 bits of a float32
//
// The interpreter computes the same bits before and after. CSE merges splits of an operand that several dots share, so a value
// read by three products is split once.
//
//	%3 = dot %1, %2 {prec=bf16x3} : f32[8,8]
//
//	%4 = convert %1 : bf16       x0        %7 = convert %2 : bf16       y0
//	%5 = %1 - convert %4                   %8 = %2 - convert %7
//	%6 = convert %5 : bf16       x1        %9 = convert %8 : bf16       y1
//	%3 = dot %4, %9 + dot %6, %7 + dot %4, %7      each {prec=bf16x1}
func Precision(m *ir.Module) (*ir.Module, error) {
	return Transform(m, func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Op != ir.OpDot || in.Attrs.Prec.Parts() < 2 {
			return nil, false
		}
		x, y := split(r.Builder, args[0], in.Attrs.Prec.Parts()), split(r.Builder, args[1], in.Attrs.Prec.Parts())
		var sum *ir.Value
		for _, q := range in.Attrs.Prec.Products() {
			// A bf16 operand has one part, so a bf16x3 product with it is two dots, and exact in that operand.
			if q[0] >= len(x) || q[1] >= len(y) {
				continue
			}
			p := r.Dot(x[q[0]], y[q[1]], *CloneAttrs(in.Attrs).Dot, ir.PrecBF16x1)
			if sum == nil {
				sum = p
			} else {
				sum = r.Add(sum, p)
			}
		}
		return []*ir.Value{r.Convert(sum, in.Result().Type.DType)}, true
	})
}

// split returns n bf16 parts of a value, each the rounded remainder. A bf16 value is its own only part.
func split(b *ir.Builder, x *ir.Value, n int) []*ir.Value {
	if x.Type.DType == ir.BF16 {
		return []*ir.Value{x}
	}
	rest := b.Convert(x, ir.F32)
	var parts []*ir.Value
	for i := range n {
		hi := b.Convert(rest, ir.BF16)
		parts = append(parts, hi)
		if i < n-1 {
			// Exact in float32, since hi is the remainder rounded to its leading bits: only the remainder after the last part is lost.
			rest = b.Sub(rest, b.Convert(hi, ir.F32))
		}
	}
	return parts
}
