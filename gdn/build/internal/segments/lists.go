package segments

import "github.com/gdngen/gdngen/ir"

// Lists computes with lists [n] of i32: what is of visits from what is of sequences, by squares of the two. In XLA ops sequences lie along
// the lanes of a square, and what is of visits are sums over lanes. In a kernel visits do, since a list is a row there, and a sum over rows is one too:
// such sums are in float32, which has each number below 2^24.
type Lists struct {
	*ir.Builder
	Kernel bool
}

// Count is the list 0, 1 and so on.
func (l Lists) Count(n int) *ir.Value { return l.Iota(ir.T(ir.I32, n), 0) }

// Plus adds a number.
func (l Lists) Plus(x *ir.Value, by int) *ir.Value { return l.Add(x, l.Like(x, float64(by))) }

// Clip are the nearest numbers from lo to hi.
func (l Lists) Clip(x *ir.Value, lo, hi int) *ir.Value {
	return l.Max(l.Min(x, l.Like(x, float64(hi))), l.Like(x, float64(lo)))
}

// One is 1 where a condition holds, and 0.
func (l Lists) One(c *ir.Value) *ir.Value {
	t := ir.T(ir.I32, c.Type.Shape...)
	return l.Select(c, l.Const(t, 1), l.Const(t, 0))
}

// square is the type of a square of rows by n, and the axis of the rows.
func (l Lists) square(rows, n int) (t ir.Type, axis int) {
	if l.Kernel {
		return ir.T(ir.I32, n, rows), 1
	}
	return ir.T(ir.I32, rows, n), 0
}

// pairs says which keys [n] are in a relation to which rows, a list or a square of them, and gives x [n] beside them in the type that sums are in.
func (l Lists) pairs(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) (hit, of *ir.Value) {
	rows := row.Type.Shape[0]
	if row.Type.Rank() > 1 && l.Kernel {
		rows = row.Type.Shape[1]
	}
	t, axis := l.square(rows, key.Type.Shape[0])
	key = l.Broadcast(key, t.Shape, 1-axis)
	if row.Type.Rank() == 1 {
		row = l.Broadcast(row, t.Shape, axis)
	}
	hit = l.Compare(cmp, key, row)
	if l.Kernel {
		x = l.Convert(x, ir.F32)
	}
	return hit, l.Broadcast(x, t.Shape, 1-axis)
}

// Over sums x [n] over the keys [n] that are in a relation to a row, for each of the rows.
func (l Lists) Over(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) *ir.Value {
	hit, of := l.pairs(row, cmp, key, x)
	return l.reduced(ir.OpReduceSum, l.Select(hit, of, l.Like(of, 0)))
}

// Greatest is the greatest x [n], none of which is below -1, of the keys that are in a relation to a row, and -1 for none.
func (l Lists) Greatest(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) *ir.Value {
	hit, of := l.pairs(row, cmp, key, x)
	return l.reduced(ir.OpReduceMax, l.Select(hit, of, l.Like(of, -1)))
}

// reduced is a sum or the greatest of a square for each of its rows.
func (l Lists) reduced(op ir.Op, square *ir.Value) *ir.Value {
	dim := 1
	if l.Kernel {
		dim = 0
	}
	return l.Convert(l.Append(op, []*ir.Value{square}, ir.Attrs{Dims: []int{dim}}, nil)[0], ir.I32)
}

// Most is the greatest of x, none of which is below -1, n times.
func (l Lists) Most(x *ir.Value, n int) *ir.Value {
	every := l.Const(ir.T(ir.I32, n), 0)
	return l.Greatest(every, ir.EQ, l.Like(x, 0), x)
}

// Number is an entry of a list, n times.
func (l Lists) Number(x *ir.Value, entry, n int) *ir.Value {
	return l.Over(l.Const(ir.T(ir.I32, n), float64(entry)), ir.EQ, l.Count(x.Type.Shape[0]), x)
}

// From are n entries of a list from one of them on.
func (l Lists) From(x *ir.Value, first, n int) *ir.Value {
	if first == 0 && n == x.Type.Shape[0] {
		return x
	}
	if first == 0 || !l.Kernel {
		return l.SliceAxis(x, 0, first, first+n)
	}
	return l.Over(l.Plus(l.Count(n), first), ir.EQ, l.Count(x.Type.Shape[0]), x)
}

// Before is x of the sequence before each, 0 of none.
func (l Lists) Before(x *ir.Value) *ir.Value {
	n := x.Type.Shape[0]
	if l.Kernel {
		return l.Over(l.Plus(l.Count(n), -1), ir.EQ, l.Count(n), x)
	}
	zero := l.Const(ir.T(ir.I32, 1), 0)
	if n > 1 {
		return l.Concat(0, zero, l.SliceAxis(x, 0, 0, n-1))
	}
	return zero
}

// Tall are tiles [n, rows, lanes], each of one number of x throughout.
func (l Lists) Tall(x *ir.Value, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	if l.Kernel { // as a column first, which is one turn for all
		return l.Broadcast(l.Broadcast(x, []int{n, lanes}, 0), []int{n, rows, lanes}, 0, 2)
	}
	return l.Broadcast(x, []int{n, rows, lanes}, 0)
}

// stride is how far the columns of n entries of a table lie from one another: in a kernel each has registers of its own.
func (l Lists) stride(n int) int { return Stride(n, l.Kernel) }

// Stride is how far the columns of n entries of a table lie from one another, one that a kernel makes or another.
func Stride(n int, kernel bool) int {
	const lanes = 128
	if kernel {
		return (n + lanes - 1) / lanes * lanes
	}
	return n
}

// Table has columns behind one another, one array [columns x stride], in a kernel [columns, 1, stride].
func (l Lists) Table(columns ...*ir.Value) *ir.Value {
	if !l.Kernel {
		return l.Concat(0, columns...)
	}
	var rows []*ir.Value
	for _, x := range columns {
		rows = append(rows, l.Reshape(x, 1, 1, x.Type.Shape[0]))
	}
	return l.Concat(0, rows...)
}
