package build

import (
	"iter"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// A leaf inverts the diagonal blocks, Leaf x Leaf each, of I - B. It has two representations. In lanes, [N, leaf, C]: row i
// of the block at lanes j leaf .. (j+1) leaf - 1 is row i of block j. In blocks, [C/leaf, N, leaf, leaf].

// leafLanes inverts the leaves in lanes.
func (e *solver) leafLanes(neg *ir.Value) *ir.Value {
	b, c, l := e.b.Stage("leaf"), e.c, e.v.Leaf
	defer e.b.Stage("solve")
	d := e.packed(neg, l)
	if e.v.LeafBy == gdn.LeafSubst || l == 1 {
		return e.substLanes(d)
	}
	n := neg.Type.Shape[0]
	t := ir.T(ir.F32, l, c)
	unit := e.tile(l, c, func(r, m *ir.Value) *ir.Value {
		return b.Compare(ir.EQ, r, b.Sub(m, b.Mul(e.divided(m, l), b.Like(m, float64(l)))))
	})
	eye := e.over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0)))
	return e.series(d, eye, e.v.LeafNewton, func(x, y *ir.Value) *ir.Value { return e.inv(x, e.spread(y, l)) })
}

// leafBlocks inverts the leaves in blocks.
func (e *solver) leafBlocks(neg *ir.Value) *ir.Value {
	b, c, l := e.b.Stage("leaf"), e.c, e.v.Leaf
	defer e.b.Stage("solve")
	d := e.blocksOf(neg, l, l, 0, 0)
	eye := b.Broadcast(e.eye(1, l), []int{c / l, neg.Type.Shape[0], l, l}, 1, 2, 3)
	if e.v.LeafBy == gdn.LeafSubst || l == 1 {
		return e.substBlocks(d, eye)
	}
	return e.series(d, eye, e.v.LeafNewton, e.inv)
}

// series is the power series of (I - D)^-1 by doubling, exact for a strictly triangular D of the leaf's size, with Newton
// steps that take back what rounding of large powers cost.
func (e *solver) series(d, eye *ir.Value, newton int, mul func(x, y *ir.Value) *ir.Value) *ir.Value {
	b := e.b
	x := b.Add(eye, d)
	for k, power := 2, d; k < e.v.Leaf; k *= 2 {
		power = mul(power, power)
		x = b.Add(x, mul(x, power))
	}
	for range newton {
		residual := b.Add(b.Sub(eye, x), mul(d, x))
		x = b.Add(x, mul(x, residual))
	}
	return x
}

// packed brings the diagonal blocks of l of [N, C, C] to lanes: [N, l, C].
func (e *solver) packed(x *ir.Value, l int) *ir.Value {
	b, c := e.b, e.c
	n := x.Type.Shape[0]
	out := b.SliceAxis(x, 1, 0, l)
	for i := l; i < c; i += l {
		mine := e.tile(l, c, func(_, m *ir.Value) *ir.Value { return b.Compare(ir.GE, m, b.Like(m, float64(i))) })
		out = b.Select(e.over(n, mine), b.SliceAxis(x, 1, i, i+l), out)
	}
	return out
}

// spread is the inverse of packed: [N, l, C] to block diagonal [N, C, C].
func (e *solver) spread(x *ir.Value, l int) *ir.Value {
	b, c := e.b, e.c
	n := x.Type.Shape[0]
	x = b.Reshape(b.Broadcast(x, []int{n, c / l, l, c}, 0, 2, 3), n, c, c)
	return e.keep(x, e.tile(c, c, func(r, m *ir.Value) *ir.Value {
		return b.Compare(ir.EQ, e.divided(r, l), e.divided(m, l))
	}))
}

// substLanes substitutes in all blocks and entries of D [N, L, C] at once.
func (e *solver) substLanes(d *ir.Value) *ir.Value {
	b := e.b
	rows := e.leafRows(d)
	return e.substitute(rows[0].Type.Shape[0], len(rows), func(j int, at *ir.Value) iter.Seq2[int, *ir.Value] {
		return func(yield func(int, *ir.Value) bool) {
			for i := j + 1; i < len(rows) && yield(i, b.Take(rows[i], at, 1)); i++ {
			}
		}
	})
}

// substWords is substLanes of bf16 rows as words [N, L/2, C]: what is taken along lanes then are two rows at once.
func (e *solver) substWords(d *ir.Value) *ir.Value {
	b := e.b
	rows := e.leafRows(d)
	return e.substitute(rows[0].Type.Shape[0], 2*len(rows), func(j int, at *ir.Value) iter.Seq2[int, *ir.Value] {
		return func(yield func(int, *ir.Value) bool) {
			for i := (j + 1) / 2; i < len(rows); i++ {
				both := b.Take(rows[i], at, 1)
				if 2*i > j && !yield(2*i, b.Bitcast(b.Binary(ir.OpShl, both, b.Like(both, 16)), ir.F32)) {
					return
				}
				if 2*i+1 > j && !yield(2*i+1, b.Bitcast(b.And(both, b.Like(both, 0xffff0000)), ir.F32)) {
					return
				}
			}
		}
	})
}

// leafRows cuts [N, rows, C] into rows [N, C].
func (e *solver) leafRows(d *ir.Value) []*ir.Value {
	s := d.Type.Shape
	d = e.b.Transpose(d, 1, 0, 2)
	rows := make([]*ir.Value, s[1])
	for i := range rows {
		rows[i] = e.b.Reshape(e.b.SliceAxis(d, 0, i, i+1), s[0], s[2])
	}
	return rows
}

// substitute inverts blocks of l rows of N entries: row i of the inverse is e_i + sum over j of D_ij row j. column gives D_ij for the
// rows i after j, spread over the lanes of each block, where at holds the lane of column j of each block.
func (e *solver) substitute(n, l int, column func(j int, at *ir.Value) iter.Seq2[int, *ir.Value]) *ir.Value {
	b, c := e.b, e.c
	lane := e.iota(n, c, 1)
	first := b.Mul(e.divided(lane, l), b.Like(lane, float64(l)))
	own := b.Sub(lane, first)
	x := make([]*ir.Value, l)
	one, zero := b.Const(ir.T(ir.F32, n, c), 1), b.Const(ir.T(ir.F32, n, c), 0)
	for i := range x {
		x[i] = b.Select(b.Compare(ir.EQ, own, b.Like(own, float64(i))), one, zero)
	}
	for j := range x {
		for i, d := range column(j, e.plus(first, j)) {
			x[i] = b.Add(x[i], b.Mul(d, x[j]))
		}
	}
	for i := range x {
		x[i] = b.Reshape(x[i], 1, n, c)
	}
	return b.Transpose(b.Concat(0, x...), 1, 0, 2)
}

// substBlocks substitutes column by column: after step j, row j is final and its multiples are in the rows below.
func (e *solver) substBlocks(d, x *ir.Value) *ir.Value {
	b := e.b
	s := d.Type.Shape
	for j := range s[3] - 1 {
		column := b.Broadcast(b.SliceAxis(d, 3, j, j+1), s, 0, 1, 2, 3)
		row := b.Broadcast(b.SliceAxis(x, 2, j, j+1), s, 0, 1, 2, 3)
		x = b.Add(x, b.Mul(column, row))
	}
	return x
}
