// Package tiles is what both passes to kernels of a TPU know: the shape of a tile, the words of two
// bf16 rows, and where a window is at a point of a grid.
package tiles

import "github.com/gdngen/gdngen/ir"

// RowsLanes gives the tile shape of a logical shape: its last two dimensions; a vector is one row.
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

// Explicit are the types that a copy of an instruction must name: those of its results, where the op's do not follow from its operands.
func Explicit(op ir.Op, ts []ir.Type) []ir.Type {
	if ir.Ops[op].Explicit {
		return ts
	}
	return nil
}

// HalfOf is the inverse of half: the words that a float32 tile has one of two bf16 rows of, and which. A word w is two rows of bf16, one below the other;
// bf16 is the upper half of a float32, so
//
//	which = 0   the lower half, an even row:   bitcast(w << 16)
//	which = 1   the upper half, an odd row:    bitcast(w & 0xffff0000)
//
// are both rows as float32, exactly. That a tile was made so is known by its instructions alone, so what joins two halves again, or takes
// them to bf16, looks for this form and uses the words.
func HalfOf(x *ir.Value) (w *ir.Value, which int, ok bool) {
	if x.Def == nil || x.Def.Op != ir.OpBitcast || x.Type.DType != ir.F32 || x.Def.Args[0].Def == nil {
		return nil, 0, false
	}
	return HalfBits(x.Def.Args[0].Def)
}

// HalfBits says of which words an instruction takes a half, still as words.
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

// LookUp is an index that follows the sequential axis, at a point some points on. It does in a kernel's code what the compiler does for a window:
// shift, hold between 0 and Max, turn round, divide, add, look up. Points before the first or behind the last are held too, so a fetch for
// a step that does not come reads a block that is there.
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

// Begins says that a point of an axis is the first of n: those of number 0, n, 2 n and on. BeginsOf reads it.
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

// BeginsOf is n of a condition that Begins made of the points of an axis, 0 of another one.
func BeginsOf(cond *ir.Value, axis int) int {
	in := cond.Def
	if in == nil || in.Op != ir.OpCompare || in.Attrs.Cmp != ir.EQ {
		return 0
	}
	isPoint := func(v *ir.Value) bool { return v.Def != nil && v.Def.Op == ir.OpProgramID && v.Def.Attrs.Axis == axis }
	number := func(v *ir.Value) int { // -1 where it is none
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
