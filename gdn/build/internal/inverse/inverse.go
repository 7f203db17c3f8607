// Package inverse makes T = (I + A)^-1 of the tokens of a chunk, A strictly lower triangular, by merging, by a ladder of blocks, by
// substitution, or by series over the whole chunk.
package inverse

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Solver inverts in the body of a grid step.
type Solver struct{ *tile.Body }

// Every solver takes B = -A, strictly lower triangular [N, C, C] f32, and gives (I - B)^-1 = (I + A)^-1.
var solvers = map[gdn.Solve]func(*Solver, *ir.Value) *ir.Value{
	gdn.SolveMerge:   (*Solver).merge,
	gdn.SolveLadder:  (*Solver).ladder,
	gdn.SolveBlock:   (*Solver).blockForward,
	gdn.SolveForward: (*Solver).forward,
	gdn.SolveNeumann: (*Solver).neumann,
	gdn.SolveNewton:  (*Solver).newton,
}

// Invert returns (I + A)^-1 from stored -A, [N, C, C], in stored form.
func (e *Solver) Invert(negA *ir.Value) *ir.Value {
	switch {
	case e.V.Inverse.Mask != gdn.MaskWords:
		return e.Store(e.Solve(negA))
	case e.V.Inverse.Refine:
		return e.refined(e.SolveWords(negA), negA)
	}
	return e.SolveWords(negA)
}

// Solve returns (I + A)^-1 from -A, [N, C, C] f32.
func (e *Solver) Solve(negA *ir.Value) *ir.Value {
	e.B.Stage("solve")
	return solvers[e.V.Inverse.Solve](e, negA)
}

func (e *Solver) inv(x, y *ir.Value) *ir.Value {
	return e.Dot(x, y, false, false, e.V.Numerics.PrecInv)
}

// forward substitutes row by row over the whole chunk: row i of the inverse is e_i + B_i X, since X
// = I + B X. It is the most accurate and the slowest: C products of one row, one after another.
func (e *Solver) forward(neg *ir.Value) *ir.Value {
	s := neg.Type.Shape
	n, c := s[0], s[1]
	out := e.B.Loop(c, []*ir.Value{e.B.Const(neg.Type, 0), neg}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
		// This body needs its own cache: an iota created in the loop's body is not defined outside.
		in := &Solver{tile.New(b, e.V, e.C)}
		x, neg := carried[0], carried[1]
		mine := b.Compare(ir.EQ, in.Iota(c, c, 0), b.Broadcast(i, []int{c, c}))
		row := b.Reshape(b.Sum(in.Keep(neg, mine), 1), n, 1, c)
		row = in.inv(row, x)
		t := ir.T(ir.F32, 1, c)
		unit := b.Compare(ir.EQ, in.Iota(1, c, 1), b.Broadcast(i, []int{1, c}))
		row = b.Add(row, in.Over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0))))
		return []*ir.Value{b.Select(in.Over(n, mine), b.Broadcast(row, s, 0, 1, 2), x), neg}
	})
	return out[0]
}

// blockForward substitutes block by block: block row i is T_ii (E_i + B_i X), T_ii being the leaf's
// inverse. C / leaf products follow one another, where a merge has log2 of that.
//
//	C / leaf = 3:   X0 = T00 [I . .]
//	                X1 = T11 ([. I .] + B10 X0)
//	                X2 = T22 ([. . I] + [B20 B21] [X0; X1])
func (e *Solver) blockForward(neg *ir.Value) *ir.Value {
	b := e.B
	n, c, l := neg.Type.Shape[0], e.C, e.V.Inverse.Leaf
	leaf := e.leafLanes(neg)
	var rows []*ir.Value
	for i := 0; i < c; i += l {
		t := ir.T(ir.F32, l, c)
		unit := e.Where(l, c, func(r, m *ir.Value) *ir.Value { return b.Compare(ir.EQ, e.Plus(r, i), m) })
		rhs := e.Over(n, b.Select(unit, b.Const(t, 1), b.Const(t, 0)))
		if i > 0 {
			left := b.Slice(neg, []int{0, i, 0}, []int{n, i + l, i})
			rhs = b.Add(rhs, e.inv(left, b.Concat(1, rows...)))
		}
		rows = append(rows, e.inv(b.SliceAxis(leaf, 2, i, i+l), rhs))
	}
	return b.Concat(1, rows...)
}

// ladder doubles the inverted blocks by X + X L X over the whole chunk, where L is the part of B that joins pairs of blocks.
func (e *Solver) ladder(neg *ir.Value) *ir.Value {
	x := e.spread(e.leafLanes(neg), e.V.Inverse.Leaf)
	for w := e.V.Inverse.Leaf; w < e.C; w *= 2 {
		x = e.rung(x, neg, w)
	}
	return x
}

// rung is one step of the ladder. With X block diagonal, and L the blocks below the first of each
// pair, (X^-1 - L)^-1 = X + X L X + X L X L X + ..., of which the third term is zero: L takes odd
// blocks to nothing. It multiplies whole chunks, zeros for the most part, and so needs no moves of
// blocks.
//
//	X = [X11  .  ]   L = [ .   . ]   X L X = [      .       . ]
//	    [ .  X22 ]       [B21  . ]           [X22 B21 X11   . ]
func (e *Solver) rung(x, neg *ir.Value, w int) *ir.Value {
	return e.B.Add(x, e.inv(x, e.inv(e.pairs(neg, w), x)))
}

// pairs keeps the blocks of B below the first of two neighbouring blocks of width w.
//
//	C / w = 4, by blocks:   .  .  .  .
//	                        L  .  .  .
//	                        .  .  .  .
//	                        .  .  L  .
func (e *Solver) pairs(neg *ir.Value, w int) *ir.Value {
	return e.Keep(neg, e.Where(e.C, e.C, func(r, l *ir.Value) *ir.Value {
		r, l = e.Divided(r, w), e.Divided(l, w)
		odd := e.B.Compare(ir.EQ, e.B.And(r, e.B.Like(r, 1)), e.B.Like(r, 1))
		return e.B.And(odd, e.B.Compare(ir.EQ, r, e.Plus(l, 1)))
	}))
}

// merge doubles the inverted blocks. Of a pair,
//
//	[ I - B11    0     ]^-1     [ X11           0   ]
//	[ -B21     I - B22 ]     =  [ X22 B21 X11   X22 ]
//
// so the new block is X22 (B21 X11), which only multiplies true inverses. They are bounded, while the
// powers of B in a series grow with the number of similar tokens. The other order of the
// two products is several times less accurate for beta near 2.
func (e *Solver) merge(neg *ir.Value) *ir.Value {
	if e.V.Inverse.Merge == gdn.MergeBlocks {
		return e.mergeBlocks(neg)
	}
	held := e.V.Numerics.Store
	if e.V.Numerics.PrecInv != ir.PrecBF16x1 { // more passes multiply bits that one pass would round away
		held = ir.F32
	}
	x := e.spread(e.leafLanes(neg), e.V.Inverse.Leaf)
	for w := e.V.Inverse.Leaf; w < e.C; w *= 2 {
		if w < 8 { // rows of a block would be part of a tile
			x = e.rung(x, neg, w)
		} else {
			x = e.mergeRows(e.B.Convert(x, held), e.B.Convert(neg, held), w)
		}
	}
	return x
}

// mergeRows merges at width w on the rows of the odd blocks: all of them, or packed into w rows,
// since their lanes are disjoint.
//
//	w = C/4, two pairs    rows of X22      0    X22a  0    0       packed   0  X22a  0  X22b
//	                                       0    0     0    X22b
//
// A product costs by the rows of its left side and the tiles of its right side, so C/2 rows in one
// pass become w, and all pairs of a width are merged for the price of one.
func (e *Solver) mergeRows(x, neg *ir.Value, w int) *ir.Value {
	b, c := e.B, e.C
	n, pairs := x.Type.Shape[0], c/(2*w)
	packed := e.V.Inverse.Merge == gdn.MergePacked && pairs > 1
	odd := func(x *ir.Value) *ir.Value { // [N, pairs, 1, w, C]
		return b.SliceAxis(b.Reshape(x, n, pairs, 2, w, c), 2, 1, 2)
	}
	pack := func(x *ir.Value) *ir.Value { return b.Sum(b.Reshape(x, n, pairs, w, c), 1) }
	below := e.Where(c/2, c, func(r, l *ir.Value) *ir.Value { // positions of B21 and X21: row r belongs to pair r/w
		return b.Compare(ir.EQ, b.Mul(e.Divided(r, w), b.Like(r, 2)), e.Divided(l, w))
	})
	rows := b.Reshape(odd(x), n, c/2, c)
	b21, x22 := e.Keep(b.Reshape(odd(neg), n, c/2, c), below), rows
	if packed {
		b21, x22 = pack(b21), pack(x22)
	}
	right := b.Convert(e.inv(b21, x), x.Type.DType) // B21 X11
	if packed {
		right = b.Reshape(b.Broadcast(right, []int{n, c / w, w, c}, 0, 2, 3), n, c, c)
		right = e.pairs(right, w)
	} else { // rows of even blocks are multiplied by zeros
		right = b.Reshape(right, n, pairs, 1, w, c)
		right = b.Reshape(b.Concat(2, right, right), n, c, c)
	}
	z := b.Convert(e.inv(x22, right), x.Type.DType)
	if packed {
		z = b.Reshape(b.Broadcast(z, []int{n, pairs, w, c}, 0, 2, 3), n, c/2, c)
	}
	joined := b.Reshape(b.Select(e.Over(n, below), z, rows), n, pairs, 1, w, c)
	even := b.SliceAxis(b.Reshape(x, n, pairs, 2, w, c), 2, 0, 1)
	return b.Reshape(b.Concat(2, even, joined), n, c, c)
}

// mergeBlocks keeps the inverted blocks as [blocks, N, w, w]: small batched products, which are fast on CPUs
// and GPUs, but not an MXU of 128 rows.
//
// For C / w = 4, x is [4, N, w, w], cut as [2, 2, N, w, w] in pairs and which of a pair, and the result [2, N, 2 w, 2 w].
func (e *Solver) mergeBlocks(neg *ir.Value) *ir.Value {
	b, c := e.B, e.C
	n := neg.Type.Shape[0]
	x := e.leafBlocks(neg)
	for w := e.V.Inverse.Leaf; w < c; w *= 2 {
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
func (e *Solver) blocksOf(x *ir.Value, w, step, row, lane int) *ir.Value {
	n := x.Type.Shape[0]
	var l []*ir.Value
	for i := 0; i < e.C; i += step {
		y := e.B.Slice(x, []int{0, i + row, i + lane}, []int{n, i + row + w, i + lane + w})
		l = append(l, e.B.Reshape(y, 1, n, w, w))
	}
	return e.B.Concat(0, l...)
}

// neumann is (I + B)(I + B^2)(I + B^4)... over the whole chunk. It is a negative example: for equal
// keys and beta 1, entries of B^k are binomial coefficients, 4.7e17 at C = 64, and cancel.
//
// The inverse itself has no entry above 1 there: A is all ones below the diagonal, and (I + A)^-1 has 1 on the diagonal, -1 right below it, and zeros.
func (e *Solver) neumann(neg *ir.Value) *ir.Value {
	x := e.B.Add(e.Eye(neg.Type.Shape[0], e.C), neg)
	for k, power := 2, neg; k < e.C; k *= 2 {
		power = e.inv(power, power)
		x = e.B.Add(x, e.inv(x, power))
	}
	return x
}

// newton is X + X (I - (I - B) X) repeated from I + B over the whole chunk: the same series in
// another order, and a negative example as well.
func (e *Solver) newton(neg *ir.Value) *ir.Value {
	eye := e.Eye(neg.Type.Shape[0], e.C)
	x := e.B.Add(eye, neg)
	for k := 2; k < e.C; k *= 2 {
		residual := e.B.Add(e.B.Sub(eye, x), e.inv(neg, x))
		x = e.B.Add(x, e.inv(x, residual))
	}
	return x
}
