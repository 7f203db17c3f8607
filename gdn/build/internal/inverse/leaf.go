package inverse

import (
	"iter"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// A leaf inverts the diagonal blocks, Leaf x Leaf each, of I - B. It has two representations. In lanes, [N, leaf, C]: row i
// of the block at lanes j leaf .. (j+1) leaf - 1 is row i of block j. In blocks, [C/leaf, N, leaf, leaf].
//
//	C = 8, leaf = 4: [ a 0 ]     in lanes     [ a b ], four rows of eight lanes
//	                 [ 0 b ]
//
// In lanes, one row of all blocks (and with N heads as rows, of all heads) is one tile. Substitution is then element-wise
// on full registers, while a block of eight lanes would fill a sixteenth of one.

// leafLanes inverts the leaves in lanes.
func (e *Solver) leafLanes(neg *ir.Value) *ir.Value {
	b, c, l := e.B.Stage("leaf"), e.C, e.V.Inverse.Leaf
	defer e.B.Stage("solve")
	d := e.packed(neg, l)
	if e.V.Inverse.LeafBy == gdn.LeafSubst || l == 1 {
		return e.substLanes(d)
	}
	n := neg.Type.Shape[0]
	t := ir.T(ir.F32, l, c)
	unit := e.Where(l, c, func(r, m *ir.Value) *ir.Value {
		return b.Compare(ir.EQ, r, b.Sub(m, b.Mul(e.Divided(m, l), b.Like(m, float64(l)))))
	})
	eye := e.Over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0)))
	return e.series(d, eye, e.V.Inverse.LeafNewton, func(x, y *ir.Value) *ir.Value { return e.inv(x, e.spread(y, l)) })
}

// leafBlocks inverts the leaves in blocks.
func (e *Solver) leafBlocks(neg *ir.Value) *ir.Value {
	b, c, l := e.B.Stage("leaf"), e.C, e.V.Inverse.Leaf
	defer e.B.Stage("solve")
	d := e.blocksOf(neg, l, l, 0, 0)
	eye := b.Broadcast(e.Eye(1, l), []int{c / l, neg.Type.Shape[0], l, l}, 1, 2, 3)
	if e.V.Inverse.LeafBy == gdn.LeafSubst || l == 1 {
		return e.substBlocks(d, eye)
	}
	return e.series(d, eye, e.V.Inverse.LeafNewton, e.inv)
}

// series is the power series of (I - D)^-1 by doubling, (I + D)(I + D^2)(I + D^4)..., exact for a
// strictly triangular D of the leaf's size, whose power of that size is zero. In a leaf of 8
// entries of powers are at most 20, even for equal keys; Newton steps reduce their rounding
// errors.
func (e *Solver) series(d, eye *ir.Value, newton int, mul func(x, y *ir.Value) *ir.Value) *ir.Value {
	b := e.B
	x := b.Add(eye, d)
	for k, power := 2, d; k < e.V.Inverse.Leaf; k *= 2 {
		power = mul(power, power)
		x = b.Add(x, mul(x, power))
	}
	for range newton {
		residual := b.Add(b.Sub(eye, x), mul(d, x))
		x = b.Add(x, mul(x, residual))
	}
	return x
}

// packed brings the diagonal blocks of l of [N, C, C] to lanes: [N, l, C]. The rows of block i hold
// it at its own lanes already, so each lane only chooses whose rows it takes.
//
//	l = 2:   [a b . .]
//	         [c d . .]     packed   [a b e f]
//	         [* * e f]              [c d g h]
//	         [* * g h]
func (e *Solver) packed(x *ir.Value, l int) *ir.Value {
	b, c := e.B, e.C
	n := x.Type.Shape[0]
	out := b.SliceAxis(x, 1, 0, l)
	for i := l; i < c; i += l {
		mine := e.Where(l, c, func(_, m *ir.Value) *ir.Value { return b.Compare(ir.GE, m, b.Like(m, float64(i))) })
		out = b.Select(e.Over(n, mine), b.SliceAxis(x, 1, i, i+l), out)
	}
	return out
}

// spread is the inverse of packed: [N, l, C] to block diagonal [N, C, C].
func (e *Solver) spread(x *ir.Value, l int) *ir.Value {
	b, c := e.B, e.C
	n := x.Type.Shape[0]
	x = b.Reshape(b.Broadcast(x, []int{n, c / l, l, c}, 0, 2, 3), n, c, c)
	return e.Keep(x, e.Where(c, c, func(r, m *ir.Value) *ir.Value {
		return b.Compare(ir.EQ, e.Divided(r, l), e.Divided(m, l))
	}))
}

// substLanes substitutes in all blocks and entries of D [N, L, C] at once. Column j of a block
// multiplies row j of the inverse. It is one lane of the block and is needed in all of the block's
// lanes: a gather along lanes.
func (e *Solver) substLanes(d *ir.Value) *ir.Value {
	b := e.B
	rows := e.leafRows(d)
	return e.substitute(rows[0].Type.Shape[0], len(rows), func(j int, at *ir.Value) iter.Seq2[int, *ir.Value] {
		return func(yield func(int, *ir.Value) bool) {
			for i := j + 1; i < len(rows) && yield(i, b.Take(rows[i], at, 1)); i++ {
			}
		}
	})
}

// substWords is substLanes for bf16 rows as words [N, L/2, C]: each gather along lanes moves two rows at once.
// A bf16 is the upper half of a float32, so a shift or an AND converts either row to float32.
func (e *Solver) substWords(d *ir.Value) *ir.Value {
	b := e.B
	rows := e.leafRows(d)
	return e.substitute(rows[0].Type.Shape[0], 2*len(rows), func(j int, at *ir.Value) iter.Seq2[int, *ir.Value] {
		wanted := func(i int) bool { return i > j }
		if tile.TurnsPairs(e.Body) {
			wanted = func(i int) bool { return i < j }
		}
		return func(yield func(int, *ir.Value) bool) {
			// Of each word, possibly only one row is needed.
			for i := range rows {
				if !wanted(2*i) && !wanted(2*i+1) {
					continue
				}
				both := b.Take(rows[i], at, 1)
				if wanted(2*i) && !yield(2*i, b.Bitcast(b.Binary(ir.OpShl, both, b.Like(both, 16)), ir.F32)) {
					return
				}
				if wanted(2*i+1) && !yield(2*i+1, b.Bitcast(b.And(both, b.Like(both, 0xffff0000)), ir.F32)) {
					return
				}
			}
		}
	})
}

// leafRows splits [N, rows, C] into rows [N, C].
func (e *Solver) leafRows(d *ir.Value) []*ir.Value {
	s := d.Type.Shape
	d = e.B.Transpose(d, 1, 0, 2)
	rows := make([]*ir.Value, s[1])
	for i := range rows {
		rows[i] = e.B.Reshape(e.B.SliceAxis(d, 0, i, i+1), s[0], s[2])
	}
	return rows
}

// substitute inverts blocks of l rows of N entries: row i of the inverse is e_i + sum over j < i of
// D_ij row j. It goes by columns: when row j is done, its multiples are added to all later rows, l
// - j - 1 independent additions. column returns D_ij for the rows i after j,
// broadcast over the lanes of each block, where at holds the lane of column j of each block.
//
//	leaf of 4:  x0 = e0   x1 = e1 + D10 x0   x2 = e2 + D20 x0 + D21 x1   x3 = e3 + D30 x0 + D31 x1 + D32 x2
//	            j = 0:    adds D10 x0, D20 x0, D30 x0;   j = 1: D21 x1, D31 x1;   j = 2: D32 x2
//
// With transposed pairs (tile.TurnsPairs) D is strictly upper, and rows are done from the last one up.
func (e *Solver) substitute(n, l int, column func(j int, at *ir.Value) iter.Seq2[int, *ir.Value]) *ir.Value {
	b, c := e.B, e.C
	lane := e.Iota(n, c, 1)
	first := b.Mul(e.Divided(lane, l), b.Like(lane, float64(l))).Called("first")
	own := b.Sub(lane, first).Called("within")
	x := make([]*ir.Value, l)
	one, zero := b.Const(ir.T(ir.F32, n, c), 1), b.Const(ir.T(ir.F32, n, c), 0)
	for i := range x {
		x[i] = b.Select(b.Compare(ir.EQ, own, b.Like(own, float64(i))), one, zero).Called("x")
	}
	for j := range x {
		if tile.TurnsPairs(e.Body) { // rows are done from the last one on
			j = l - 1 - j
		}
		for i, d := range column(j, e.Plus(first, j)) {
			x[i] = b.Add(x[i], b.Mul(d, x[j]))
		}
	}
	for i := range x {
		x[i] = b.Reshape(x[i], 1, n, c)
	}
	return b.Transpose(b.Concat(0, x...), 1, 0, 2)
}

// substBlocks substitutes column by column: after step j, row j is final and its multiples are added to later rows.
// D is strictly lower, so column j only affects later rows, and the last column none.
func (e *Solver) substBlocks(d, x *ir.Value) *ir.Value {
	b := e.B
	s := d.Type.Shape
	for j := range s[3] - 1 {
		column := b.Broadcast(b.SliceAxis(d, 3, j, j+1), s, 0, 1, 2, 3)
		row := b.Broadcast(b.SliceAxis(x, 2, j, j+1), s, 0, 1, 2, 3)
		x = b.Add(x, b.Mul(column, row))
	}
	return x
}
