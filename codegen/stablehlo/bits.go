package stablehlo

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// shaped returns a plain type with t's shape.
func shaped(d ir.DType, t ir.Type) ir.Type { return ir.T(d, t.Shape...) }

// bitcast reinterprets a plain tensor as another type.
func (p *printer) bitcast(x string, from, to ir.Type) string {
	if from.Equal(to) {
		return x
	}
	return p.let("stablehlo.bitcast_convert %s : (%s) -> %s", x, TensorType(from), TensorType(to))
}

func (p *printer) bits(op, x, y string, t ir.Type) string {
	return p.let("stablehlo.%s %s, %s : %s", op, x, y, TensorType(t))
}

// upper16 returns the high 16 bits of f32 numbers, as u32 words below 2^16.
func (p *printer) upper16(x string, t ir.Type) string {
	u := shaped(ir.U32, t)
	return p.bits("shift_right_logical", p.bitcast(x, shaped(ir.F32, t), u), p.splat(16, u), u)
}

// bf16Bits returns the bits of bf16 values, given in their carrier type, as u32 words below 2^16.
func (p *printer) bf16Bits(x string, t ir.Type) string {
	if !p.native {
		return p.upper16(x, t)
	}
	return p.convert(p.bitcast(x, t, shaped(ir.U16, t)), shaped(ir.U16, t), shaped(ir.U32, t))
}

// fromBits is the inverse of bf16Bits.
func (p *printer) fromBits(x string, t ir.Type) string {
	u := shaped(ir.U32, t)
	if !p.native {
		return p.bitcast(p.bits("shift_left", x, p.splat(16, u), u), u, shaped(ir.F32, t))
	}
	return p.bitcast(p.convert(x, u, shaped(ir.U16, t)), shaped(ir.U16, t), shaped(ir.BF16, t))
}

func emitBitcast(p *printer, in *ir.Instr, a []string) string {
	from, to := in.Args[0].Type, in.Result().Type
	u16, u32 := shaped(ir.U16, to), shaped(ir.U32, to)
	switch {
	case p.native || (from.DType != ir.BF16) == (to.DType != ir.BF16):
		return p.bitcast(a[0], p.carrier(from), p.carrier(to))
	case from.DType == ir.BF16:
		return p.bitcast(p.convert(p.bf16Bits(a[0], from), u32, u16), u16, to)
	}
	return p.fromBits(p.convert(p.bitcast(a[0], from, u16), u16, u32), to)
}

// join packs two values below 2^16 into one word.
func (p *printer) join(lo, hi string, u ir.Type) string {
	return p.bits("or", lo, p.bits("shift_left", hi, p.splat(16, u), u), u)
}

func emitPack(p *printer, in *ir.Instr, a []string) string {
	t := in.Args[0].Type
	return p.join(p.upper16(p.reduce(a[0], t, ir.BF16), t), p.upper16(p.reduce(a[1], t, ir.BF16), t), in.Result().Type)
}

// paired returns the type [.., r/2, 2, c] of [.., r, c]: rows in pairs.
func paired(d ir.DType, t ir.Type) ir.Type {
	n := t.Rank()
	s := slices.Clone(t.Shape)
	return ir.T(d, append(append(s[:n-2:n-2], t.Shape[n-2]/2, 2), t.Shape[n-1])...)
}

func emitWords(p *printer, in *ir.Instr, a []string) string {
	t, r := in.Args[0].Type, in.Result().Type
	pairs := paired(ir.U32, t)
	x := p.reshape(p.bf16Bits(a[0], t), shaped(ir.U32, t), pairs)
	var half [2]string
	for i := range half {
		lo, hi := make([]int, pairs.Rank()), slices.Clone(pairs.Shape)
		lo[pairs.Rank()-2], hi[pairs.Rank()-2] = i, i+1
		one := slices.Clone(pairs.Shape)
		one[pairs.Rank()-2] = 1
		half[i] = p.reshape(p.slice(x, pairs, ir.T(ir.U32, one...), lo, hi, nil), ir.T(ir.U32, one...), r)
	}
	return p.join(half[0], half[1], r)
}

func emitHalves(p *printer, in *ir.Instr, a []string) string {
	u, r := in.Args[0].Type, in.Result().Type
	pairs := paired(ir.U32, r)
	one := slices.Clone(pairs.Shape)
	one[pairs.Rank()-2] = 1
	half := ir.T(ir.U32, one...)
	lo := p.reshape(p.bits("and", a[0], p.splat(0xffff, u), u), u, half)
	hi := p.reshape(p.bits("shift_right_logical", a[0], p.splat(16, u), u), u, half)
	both := p.let("stablehlo.concatenate %s, %s, dim = %d : (%[4]s, %[4]s) -> %s", lo, hi, pairs.Rank()-2, TensorType(half), TensorType(pairs))
	return p.fromBits(p.reshape(both, pairs, shaped(ir.U32, r)), r)
}
