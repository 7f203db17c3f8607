package passes

import "github.com/gdngen/gdngen/ir"

// Precision makes the splits of bf16x3 and bf16x6 dots visible: each operand becomes bf16 parts, each product a bf16x1 dot
// of parts, added in the order of Precision.Products, the smallest first: x is about x0 + x1, each the bf16 nearest to what the ones before leave, so
//
//	bf16x3:  x y = x0 y1 + x1 y0 + x0 y0                                two parts, off by 2^-16 or so
//	bf16x6:  x y = x0 y2 + x2 y0 + x1 y1 + x0 y1 + x1 y0 + x0 y0        three parts: all 24 bits of a float32
//
// The interpreter computes the same bits before and after. Splits of an operand that several dots share are merged by cse, so a value
// that three products read is cut once.
func Precision(m *ir.Module) (*ir.Module, error) {
	return Transform(m, func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Op != ir.OpDot || in.Attrs.Prec.Parts() < 2 {
			return nil, false
		}
		x, y := split(r.Builder, args[0], in.Attrs.Prec.Parts()), split(r.Builder, args[1], in.Attrs.Prec.Parts())
		var sum *ir.Value
		for _, q := range in.Attrs.Prec.Products() {
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

// split cuts a value into n bf16 parts, each what remains rounded. A bf16 value is its own only part.
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
			rest = b.Sub(rest, b.Convert(hi, ir.F32))
		}
	}
	return parts
}
