package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Every solver takes B = -A, strictly lower triangular [N, C, C] f32, and gives (I - B)^-1 = (I + A)^-1.
var solvers = map[gdn.Solve]func(*solver, *ir.Value) *ir.Value{
	gdn.SolveMerge:   (*solver).merge,
	gdn.SolveLadder:  (*solver).ladder,
	gdn.SolveBlock:   (*solver).blockForward,
	gdn.SolveForward: (*solver).forward,
	gdn.SolveNeumann: (*solver).neumann,
	gdn.SolveNewton:  (*solver).newton,
}

// invert is (I + A)^-1 from -A as it is stored.
func (e *solver) invert(negA *ir.Value) *ir.Value {
	switch {
	case e.v.Mask != gdn.MaskWords:
		return e.store(e.solve(negA))
	case e.v.Refine:
		return e.refined(e.solveWords(negA), negA)
	}
	return e.solveWords(negA)
}

// solve is (I + A)^-1 from -A.
func (e *solver) solve(negA *ir.Value) *ir.Value {
	e.b.Stage("solve")
	return solvers[e.v.Solve](e, negA)
}

func (e *solver) inv(x, y *ir.Value) *ir.Value { return e.dot(x, y, false, false, e.v.PrecInv) }

// tile is a [rows, lanes] mask by two i32 index tiles.
func (e *solver) tile(rows, lanes int, f func(r, l *ir.Value) *ir.Value) *ir.Value {
	return f(e.iota(rows, lanes, 0), e.iota(rows, lanes, 1))
}

func (e *tiles) divided(x *ir.Value, by int) *ir.Value { return e.b.Div(x, e.b.Like(x, float64(by))) }

func (e *tiles) plus(x *ir.Value, k int) *ir.Value { return e.b.Add(x, e.b.Like(x, float64(k))) }

// keep is x where a [R, L] mask holds, else zero, for all entries.
func (e *solver) keep(x, mask *ir.Value) *ir.Value {
	return e.b.Select(e.over(x.Type.Shape[0], mask), x, e.b.Like(x, 0))
}

// onDiagonal is the mask of a tile's diagonal.
func (e *solver) onDiagonal(size int) *ir.Value {
	return e.tile(size, size, func(r, l *ir.Value) *ir.Value { return e.b.Compare(ir.EQ, r, l) })
}

// diagonal is that of [N, C, C] as rows [N, C].
func (e *solver) diagonal(x *ir.Value) *ir.Value {
	return e.b.Sum(e.keep(x, e.onDiagonal(x.Type.Shape[2])), 1)
}

// eye is the identity of N entries.
func (e *solver) eye(n, size int) *ir.Value {
	t := ir.T(ir.F32, size, size)
	m := e.onDiagonal(size)
	return e.over(n, e.b.Select(m, e.b.Const(t, 1), e.b.Const(t, 0)))
}

// forward substitutes row by row over the whole chunk: row i of the inverse is e_i + B_i X.
func (e *solver) forward(neg *ir.Value) *ir.Value {
	s := neg.Type.Shape
	n, c := s[0], s[1]
	out := e.b.Loop(c, []*ir.Value{e.b.Const(neg.Type, 0), neg}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
		in := &solver{newTiles(e.plan, b, e.in)}
		x, neg := carried[0], carried[1]
		mine := b.Compare(ir.EQ, in.iota(c, c, 0), b.Broadcast(i, []int{c, c}))
		row := b.Reshape(b.Sum(in.keep(neg, mine), 1), n, 1, c)
		row = in.inv(row, x)
		t := ir.T(ir.F32, 1, c)
		unit := b.Compare(ir.EQ, in.iota(1, c, 1), b.Broadcast(i, []int{1, c}))
		row = b.Add(row, in.over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0))))
		return []*ir.Value{b.Select(in.over(n, mine), b.Broadcast(row, s, 0, 1, 2), x), neg}
	})
	return out[0]
}

// blockForward substitutes block by block: block row i is T_ii (E_i + B_i X), T_ii being the leaf's inverse.
func (e *solver) blockForward(neg *ir.Value) *ir.Value {
	b := e.b
	n, c, l := neg.Type.Shape[0], e.c, e.v.Leaf
	leaf := e.leafLanes(neg)
	var rows []*ir.Value
	for i := 0; i < c; i += l {
		t := ir.T(ir.F32, l, c)
		unit := e.tile(l, c, func(r, m *ir.Value) *ir.Value { return b.Compare(ir.EQ, e.plus(r, i), m) })
		rhs := e.over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0)))
		if i > 0 {
			left := b.Slice(neg, []int{0, i, 0}, []int{n, i + l, i})
			rhs = b.Add(rhs, e.inv(left, b.Concat(1, rows...)))
		}
		rows = append(rows, e.inv(b.SliceAxis(leaf, 2, i, i+l), rhs))
	}
	return b.Concat(1, rows...)
}

// ladder doubles the inverted blocks by X + X L X over the whole chunk, L being the part of B that joins pairs of blocks.
func (e *solver) ladder(neg *ir.Value) *ir.Value {
	x := e.spread(e.leafLanes(neg), e.v.Leaf)
	for w := e.v.Leaf; w < e.c; w *= 2 {
		x = e.rung(x, neg, w)
	}
	return x
}

func (e *solver) rung(x, neg *ir.Value, w int) *ir.Value {
	return e.b.Add(x, e.inv(x, e.inv(e.pairs(neg, w), x)))
}

// pairs keeps the blocks of B that lie below the first of two neighbouring blocks of w.
func (e *solver) pairs(neg *ir.Value, w int) *ir.Value {
	return e.keep(neg, e.tile(e.c, e.c, func(r, l *ir.Value) *ir.Value {
		r, l = e.divided(r, w), e.divided(l, w)
		odd := e.b.Compare(ir.EQ, e.b.And(r, e.b.Like(r, 1)), e.b.Like(r, 1))
		return e.b.And(odd, e.b.Compare(ir.EQ, r, e.plus(l, 1)))
	}))
}

// merge doubles the inverted blocks: the new block of a pair is X22 (B21 X11), which only multiplies true inverses. The
// other order of the two products is several times less accurate where beta is near 2.
func (e *solver) merge(neg *ir.Value) *ir.Value {
	if e.v.Merge == gdn.MergeBlocks {
		return e.mergeBlocks(neg)
	}
	held := e.v.Store
	if e.v.PrecInv != ir.PrecBF16x1 { // more passes multiply what one would round away
		held = ir.F32
	}
	x := e.spread(e.leafLanes(neg), e.v.Leaf)
	for w := e.v.Leaf; w < e.c; w *= 2 {
		if w < 8 { // rows of a block would be part of a tile
			x = e.rung(x, neg, w)
		} else {
			x = e.mergeRows(e.b.Convert(x, held), e.b.Convert(neg, held), w)
		}
	}
	return x
}

// mergeRows merges at width w on the rows of the odd blocks: all of them, or packed into w rows, their lanes being disjoint.
func (e *solver) mergeRows(x, neg *ir.Value, w int) *ir.Value {
	b, c := e.b, e.c
	n, pairs := x.Type.Shape[0], c/(2*w)
	packed := e.v.Merge == gdn.MergePacked && pairs > 1
	odd := func(x *ir.Value) *ir.Value { // [N, pairs, 1, w, C]
		return b.SliceAxis(b.Reshape(x, n, pairs, 2, w, c), 2, 1, 2)
	}
	pack := func(x *ir.Value) *ir.Value { return b.Sum(b.Reshape(x, n, pairs, w, c), 1) }
	below := e.tile(c/2, c, func(r, l *ir.Value) *ir.Value { // where B21 and X21 are: row r belongs to pair r/w
		return b.Compare(ir.EQ, b.Mul(e.divided(r, w), b.Like(r, 2)), e.divided(l, w))
	})
	rows := b.Reshape(odd(x), n, c/2, c)
	b21, x22 := e.keep(b.Reshape(odd(neg), n, c/2, c), below), rows
	if packed {
		b21, x22 = pack(b21), pack(x22)
	}
	right := b.Convert(e.inv(b21, x), x.Type.DType) // B21 X11
	if packed {
		right = b.Reshape(b.Broadcast(right, []int{n, c / w, w, c}, 0, 2, 3), n, c, c)
		right = e.pairs(right, w)
	} else { // what stands in the rows of even blocks meets zeros
		right = b.Reshape(right, n, pairs, 1, w, c)
		right = b.Reshape(b.Concat(2, right, right), n, c, c)
	}
	z := b.Convert(e.inv(x22, right), x.Type.DType)
	if packed {
		z = b.Reshape(b.Broadcast(z, []int{n, pairs, w, c}, 0, 2, 3), n, c/2, c)
	}
	joined := b.Reshape(b.Select(e.over(n, below), z, rows), n, pairs, 1, w, c)
	even := b.SliceAxis(b.Reshape(x, n, pairs, 2, w, c), 2, 0, 1)
	return b.Reshape(b.Concat(2, even, joined), n, c, c)
}

// mergeBlocks keeps the inverted blocks as [blocks, N, w, w].
func (e *solver) mergeBlocks(neg *ir.Value) *ir.Value {
	b, c := e.b, e.c
	n := neg.Type.Shape[0]
	x := e.leafBlocks(neg)
	for w := e.v.Leaf; w < c; w *= 2 {
		pairs := c / (2 * w)
		x = b.Reshape(x, pairs, 2, n, w, w)
		x11 := b.Reshape(b.SliceAxis(x, 1, 0, 1), pairs, n, w, w)
		x22 := b.Reshape(b.SliceAxis(x, 1, 1, 2), pairs, n, w, w)
		b21 := e.blocksOf(neg, w, 2*w, w, 0)
		x21 := e.inv(x22, e.inv(b21, x11))
		x = b.Concat(2, b.Concat(3, x11, b.Like(x11, 0)), b.Concat(3, x21, x22))
	}
	return b.Reshape(x, n, c, c)
}

// blocksOf gathers the w x w blocks at (i step + row, i step + lane) as [C/step, N, w, w].
func (e *solver) blocksOf(x *ir.Value, w, step, row, lane int) *ir.Value {
	n := x.Type.Shape[0]
	var l []*ir.Value
	for i := 0; i < e.c; i += step {
		y := e.b.Slice(x, []int{0, i + row, i + lane}, []int{n, i + row + w, i + lane + w})
		l = append(l, e.b.Reshape(y, 1, n, w, w))
	}
	return e.b.Concat(0, l...)
}

// neumann is (I + B)(I + B^2)(I + B^4)... over the whole chunk.
func (e *solver) neumann(neg *ir.Value) *ir.Value {
	x := e.b.Add(e.eye(neg.Type.Shape[0], e.c), neg)
	for k, power := 2, neg; k < e.c; k *= 2 {
		power = e.inv(power, power)
		x = e.b.Add(x, e.inv(x, power))
	}
	return x
}

// newton is X + X (I - (I - B) X) repeated from I + B over the whole chunk.
func (e *solver) newton(neg *ir.Value) *ir.Value {
	eye := e.eye(neg.Type.Shape[0], e.c)
	x := e.b.Add(eye, neg)
	for k := 2; k < e.c; k *= 2 {
		residual := e.b.Add(e.b.Sub(eye, x), e.inv(neg, x))
		x = e.b.Add(x, e.inv(x, residual))
	}
	return x
}
