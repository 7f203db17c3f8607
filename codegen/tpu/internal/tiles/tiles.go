// Package tiles is shared by both passes to TPU kernels: the shape of a tile, the u32 words of two bf16 rows, and the block that a
// window shows at a point of a grid.
package tiles

import "github.com/gdngen/gdngen/ir"

// RowsLanes splits a logical shape into leading dimensions and a tile shape: its last two dimensions. A vector is one row, a scalar [1,
// 1].
func RowsLanes(shape []int) (lead []int, rows, lanes int) {
	switch n := len(shape); n {
	case 0:
		return nil, 1, 1
	case 1:
		return nil, 1, shape[0]
	default:
		return shape[:n-2], shape[n-2], shape[n-1]
	}
}

// Explicit returns ts, the result types of an instruction, if a copy of it must name them because they do not follow from its operands;
// else nil.
func Explicit(op ir.Op, ts []ir.Type) []ir.Type {
	if ir.Ops[op].Explicit {
		return ts
	}
	return nil
}

// HalfOf returns w and which if x is float32 [rows, lanes] and one bf16 row of each word of w: the inverse of half. A word holds two
// rows of bf16, and a bf16 is the high half of a float32, so
//
//	which = 0   the low half, an even row:    bitcast(w << 16)
//	which = 1   the high half, an odd row:    bitcast(w & 0xffff0000)
//
// are both rows as exact float32. Only the instructions show that a tile was made like this. Code that joins two halves, or converts
// them to bf16, looks for this form and uses the words instead.
func HalfOf(x *ir.Value) (w *ir.Value, which int, ok bool) {
	if x.Def == nil || x.Def.Op != ir.OpBitcast || x.Type.DType != ir.F32 || x.Def.Args[0].Def == nil {
		return nil, 0, false
	}
	return HalfBits(x.Def.Args[0].Def)
}

// HalfBits returns the words that an instruction takes a half of, before the bitcast to float32, and which half.
func HalfBits(in *ir.Instr) (w *ir.Value, which int, ok bool) {
	if in.Op != ir.OpShl && in.Op != ir.OpAnd || in.Result().Type.DType != ir.U32 {
		return nil, 0, false
	}
	by := in.Args[1].Def
	switch {
	case by == nil || by.Op != ir.OpConst:
	case in.Op == ir.OpShl && by.Attrs.Value == 16:
		return in.Args[0], 0, true
	case in.Op == ir.OpAnd && by.Attrs.Value == 0xffff0000:
		return in.Args[0], 1, true
	}
	return nil, 0, false
}

// LookUp emits an index along the sequential axis at the point c+shift, as the compiler computes it for a window: add x.Shift, clamp to
// 0..Max, reverse if Down, divide by Every, add Const, look up in the table. Points out of range are clamped, so a fetch for a step that
// never comes reads a valid block.
func LookUp(b *ir.Builder, x ir.Index, c *ir.Value, shift int, tables []*ir.Value) *ir.Value {
	zero := b.Const(ir.T(ir.I32), 0)
	i := b.Max(b.Add(c, b.Const(ir.T(ir.I32), float64(shift+x.Shift))), zero)
	if x.Max >= 0 {
		i = b.Min(i, b.Const(ir.T(ir.I32), float64(x.Max)))
	}
	if x.Down {
		i = b.Sub(b.Const(ir.T(ir.I32), float64(x.Max)), i)
	}
	if x.Every > 1 {
		i = b.Div(i, b.Const(ir.T(ir.I32), float64(x.Every)))
	}
	if x.Const != 0 {
		i = b.Add(i, b.Const(ir.T(ir.I32), float64(x.Const)))
	}
	if x.Table < 0 {
		return i
	}
	if last := tables[x.Table].Type.Shape[0] - 1; x.Max < 0 || x.Max+x.Const > last {
		i = b.Min(i, b.Const(ir.T(ir.I32), float64(last)))
	}
	return b.Load(tables[x.Table], nil, []int{0}, nil, i)
}

// Begins emits the condition that a point c of an axis is a multiple of n. BeginsOf recognizes it.
//
//	n = 4, a power of two    c and 3 = 0
//	n = 3                    c / 3 * 3 = c
func Begins(b *ir.Builder, c *ir.Value, n int) *ir.Value {
	number := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	if n&(n-1) == 0 {
		return b.Compare(ir.EQ, b.And(c, number(n-1)), number(0))
	}
	return b.Compare(ir.EQ, b.Mul(b.Div(c, number(n)), number(n)), c)
}

// BeginsOf returns n if cond was made by Begins for the points of axis; 0 otherwise.
func BeginsOf(cond *ir.Value, axis int) int {
	in := cond.Def
	if in == nil || in.Op != ir.OpCompare || in.Attrs.Cmp != ir.EQ {
		return 0
	}
	isPoint := func(v *ir.Value) bool { return v.Def != nil && v.Def.Op == ir.OpProgramID && v.Def.Attrs.Axis == axis }
	number := func(v *ir.Value) int { // -1 if not a constant
		if v.Def == nil || v.Def.Op != ir.OpConst {
			return -1
		}
		return int(v.Def.Attrs.Value)
	}
	switch of := in.Args[0].Def; {
	case of == nil:
	case of.Op == ir.OpAnd && isPoint(of.Args[0]) && number(of.Args[1]) > 0 && number(in.Args[1]) == 0:
		return number(of.Args[1]) + 1
	case of.Op == ir.OpMul && isPoint(in.Args[1]) && number(of.Args[1]) > 0:
		if by := of.Args[0].Def; by != nil && by.Op == ir.OpDiv && isPoint(by.Args[0]) && number(by.Args[1]) == number(of.Args[1]) {
			return number(of.Args[1])
		}
	}
	return 0
}
