package stablehlo

import (
	"github.com/gdngen/gdngen/ir"
)

// split splits x, an operand of type t widened to f32, into parts that are bf16 numbers, the leading one first. A bf16 operand has one
// part.
func (p *printer) split(x string, t ir.Type, parts int) []string {
	if t.DType == ir.BF16 {
		return []string{x}
	}
	wide := shaped(ir.F32, t)
	out := make([]string, parts)
	for i := range out {
		out[i] = p.reduce(x, wide, ir.BF16)
		if i+1 < parts {
			x = p.bits("subtract", x, out[i], wide)
		}
	}
	return out
}

// emitDot multiplies and sums in f32, or in f64 if the result is f64 and operands are not rounded. A product of rounded operands is
// exact in f32.
func emitDot(p *printer, in *ir.Instr, a []string) string {
	x, y, r := in.Args[0].Type, in.Args[1].Type, in.Result().Type
	prec, wide := in.Attrs.Prec, ir.F32
	if r.DType == ir.F64 && prec == ir.PrecF32 {
		wide = ir.F64
	}
	d, sum := in.Attrs.Dot, shaped(wide, r)
	product := func(x, y string, tx, ty ir.Type) string {
		return p.let("stablehlo.dot_general %s, %s, batching_dims = %s x %s, contracting_dims = %s x %s, precision = [HIGHEST, HIGHEST] : (%s, %s) -> %s",
			x, y, list(d.LB), list(d.RB), list(d.LC), list(d.RC), TensorType(tx), TensorType(ty), TensorType(sum))
	}
	if p.native && wide == ir.F32 && x.DType == ir.BF16 && y.DType == ir.BF16 {
		return p.narrow(product(a[0], a[1], x, y), sum, r) // the backend's own product
	}
	tx, ty := shaped(wide, x), shaped(wide, y)
	lhs, rhs := p.convert(a[0], p.carrier(x), tx), p.convert(a[1], p.carrier(y), ty)
	if prec == ir.PrecF32 {
		return p.narrow(product(lhs, rhs, tx, ty), sum, r)
	}
	ls, rs := p.split(lhs, x, prec.Parts()), p.split(rhs, y, prec.Parts())
	if p.native {
		tx, ty = shaped(ir.BF16, x), shaped(ir.BF16, y)
		for i, v := range ls {
			ls[i] = p.convert(v, shaped(ir.F32, x), tx)
		}
		for i, v := range rs {
			rs[i] = p.convert(v, shaped(ir.F32, y), ty)
		}
	}
	total := ""
	for _, q := range prec.Products() {
		if q[0] >= len(ls) || q[1] >= len(rs) {
			continue
		}
		v := product(ls[q[0]], rs[q[1]], tx, ty)
		if total != "" {
			v = p.bits("add", total, v, sum)
		}
		total = v
	}
	return p.narrow(total, sum, r)
}
