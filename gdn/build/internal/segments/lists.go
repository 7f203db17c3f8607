package segments

import "github.com/gdngen/gdngen/ir"

// Lists computes with lists [n] of i32: values per visit from values per sequence, by squares of the two. In XLA ops sequences are along
// the lanes of a square, and sums run over lanes. In a kernel visits are along the lanes, since a list is a row there, and sums run over rows.
// Sums are float32, exact for numbers below 2^24.
type Lists struct {
	*ir.Builder
	Kernel bool
}

// Count returns the list 0, 1, ..., n-1.
func (l Lists) Count(n int) *ir.Value { return l.Iota(ir.T(ir.I32, n), 0) }

// Plus returns x + by.
func (l Lists) Plus(x *ir.Value, by int) *ir.Value { return l.Add(x, l.Like(x, float64(by))) }

// Clip clamps numbers to lo .. hi.
func (l Lists) Clip(x *ir.Value, lo, hi int) *ir.Value {
	return l.Max(l.Min(x, l.Like(x, float64(hi))), l.Like(x, float64(lo)))
}

// One returns 1 where a condition holds, else 0.
func (l Lists) One(c *ir.Value) *ir.Value {
	t := ir.T(ir.I32, c.Type.Shape...)
	return l.Select(c, l.Const(t, 1), l.Const(t, 0))
}

// square returns the type of a square of rows by n, and the axis of the rows.
func (l Lists) square(rows, n int) (t ir.Type, axis int) {
	if l.Kernel {
		return ir.T(ir.I32, n, rows), 1
	}
	return ir.T(ir.I32, rows, n), 0
}

// pairs returns which keys [n] satisfy cmp against which rows (a list or a square), and x [n] broadcast over the rows in the type of sums.
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

// Over returns, for each row, the sum of x [n] over the keys [n] that satisfy cmp against the row.
func (l Lists) Over(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) *ir.Value {
	hit, of := l.pairs(row, cmp, key, x)
	return l.reduced(ir.OpReduceSum, l.Select(hit, of, l.Like(of, 0)))
}

// Greatest returns, for each row, the maximum of x [n] (at least -1) over the keys that satisfy cmp against the row; -1 for none.
func (l Lists) Greatest(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) *ir.Value {
	hit, of := l.pairs(row, cmp, key, x)
	return l.reduced(ir.OpReduceMax, l.Select(hit, of, l.Like(of, -1)))
}

// reduced returns the sum or maximum of a square for each of its rows.
func (l Lists) reduced(op ir.Op, square *ir.Value) *ir.Value {
	dim := 1
	if l.Kernel {
		dim = 0
	}
	return l.Convert(l.Append(op, []*ir.Value{square}, ir.Attrs{Dims: []int{dim}}, nil)[0], ir.I32)
}

// Most returns a list [n] with every entry the maximum of x, or -1 if that is larger.
func (l Lists) Most(x *ir.Value, n int) *ir.Value {
	every := l.Const(ir.T(ir.I32, n), 0)
	return l.Greatest(every, ir.EQ, l.Like(x, 0), x)
}

// Number returns a list [n] with every entry equal to x[entry].
func (l Lists) Number(x *ir.Value, entry, n int) *ir.Value {
	return l.Over(l.Const(ir.T(ir.I32, n), float64(entry)), ir.EQ, l.Count(x.Type.Shape[0]), x)
}

// From returns n entries of a list, from first on.
func (l Lists) From(x *ir.Value, first, n int) *ir.Value {
	if first == 0 && n == x.Type.Shape[0] {
		return x
	}
	if first == 0 || !l.Kernel {
		return l.SliceAxis(x, 0, first, first+n)
	}
	return l.Over(l.Plus(l.Count(n), first), ir.EQ, l.Count(x.Type.Shape[0]), x)
}

// Before returns x of the previous sequence, 0 for the first.
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

// Tall returns tiles [n, rows, lanes], each filled with one number of x.
func (l Lists) Tall(x *ir.Value, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	if l.Kernel { // as a column first: one transpose for all
		return l.Broadcast(l.Broadcast(x, []int{n, lanes}, 0), []int{n, rows, lanes}, 0, 2)
	}
	return l.Broadcast(x, []int{n, rows, lanes}, 0)
}

// stride returns the distance between columns of n entries in a table; in a kernel each column has its own registers.
func (l Lists) stride(n int) int { return Stride(n, l.Kernel) }

// Stride returns the distance between columns of n entries in a table made by a kernel or by XLA ops.
func Stride(n int, kernel bool) int {
	const lanes = 128
	if kernel {
		return (n + lanes - 1) / lanes * lanes
	}
	return n
}

// Table concatenates columns to one array [columns x stride], in a kernel [columns, 1, stride].
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
