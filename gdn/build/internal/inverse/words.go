package inverse

import (
	"slices"

	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// With mask=words, triangular and block masks are ANDs on u32 words of two bf16 rows. That is half the work of a select, and
// it clears infinities and NaN too. So decay needs no mask before its exponential: overflow above the diagonal
// is cleared here.

// wordMask is all ones in the lanes of block i of width w, on rows of words.
func (e *Solver) wordMask(rows, w, i int) *ir.Value {
	b := e.B
	lane := e.Iota(rows, e.C, 1)
	t := ir.T(ir.U32, rows, e.C)
	return b.Select(b.Compare(ir.EQ, e.Divided(lane, w).Called("block"), b.Like(lane, float64(i))), b.Const(t, 0xffffffff), b.Const(t, 0))
}

// andMask clears x [N, rows, C] outside of block i of w lanes.
//
// In a block row of x it keeps one block. Two block rows with other lanes can be packed by an OR, and separated by this mask again.
func (e *Solver) andMask(x *ir.Value, w, i int) *ir.Value {
	s := x.Type.Shape
	return e.B.And(x, e.Over(s[0], e.wordMask(s[1], w, i)))
}

// wordRows splits words [N, R, C] into blocks of h rows.
func (e *Solver) wordRows(x *ir.Value, h int) []*ir.Value {
	var out []*ir.Value
	for i := 0; i < x.Type.Shape[1]; i += h {
		out = append(out, e.B.SliceAxis(x, 1, i, i+h))
	}
	return out
}

// toRows splits the words of x into blocks of half a leaf's height, for each part.
func (e *Solver) toRows(x *ir.Value) [][]*ir.Value {
	var out [][]*ir.Value
	for _, words := range e.Words(x) {
		out = append(out, e.wordRows(words, e.V.Inverse.Leaf/2))
	}
	return out
}

// ownRows is toRows of -A [N, C, C]. If blocks have tokens of several sequences, pairs of two sequences are zeroed and infinities made finite, since the rows
// of a merge have the lanes of several blocks and multiply zeros of others. Then it also returns the mask, by rows.
func (e *Solver) ownRows(negA *ir.Value) (a [][]*ir.Value, own []*ir.Value) {
	if e.Segments == nil {
		return e.toRows(negA), nil
	}
	mask := e.OwnWords(negA, nil)
	for part, words := range e.Words(negA) {
		a = append(a, e.wordRows(e.Vanishing(e.B.And(words, mask).Called(ir.NameOf(words)), part), e.V.Inverse.Leaf/2))
	}
	return a, e.wordRows(mask, e.V.Inverse.Leaf/2)
}

// joinRows joins blocks of words to a value, for each part, with a formula name.
func (e *Solver) joinRows(x [][]*ir.Value, name string) *ir.Value {
	var parts []*ir.Value
	for _, rows := range x {
		parts = append(parts, e.B.Halves(e.B.Concat(1, rows...).Called(name)))
	}
	return e.Joined(parts)
}

func (e *Solver) orAll(xs []*ir.Value) *ir.Value {
	out := xs[0]
	for _, x := range xs[1:] {
		out = e.B.Or(out, x)
	}
	return out
}

// SolveWords is the merge solver with packed rows on words: from -A [N, C, C], whose upper part is arbitrary, to
// (I + A)^-1 in bf16 or its parts.
//
// Block rows have a leaf's height, leaf / 2 rows of words. Only the diagonal block of each goes to the leaves, all by one substitution. x is their
// inverses, moved back to their lanes; merges extend it by block rows of a.
func (e *Solver) SolveWords(negA *ir.Value) *ir.Value {
	a, seen := e.ownRows(negA)
	b, l := e.B.Stage("leaf"), e.V.Inverse.Leaf
	var own [][]*ir.Value
	for _, rows := range a {
		var blocks []*ir.Value
		for i, block := range rows {
			blocks = append(blocks, e.andMask(block, l, i))
		}
		own = append(own, []*ir.Value{e.orAll(blocks)})
	}
	var inverse *ir.Value
	// A single part is bf16, and becomes float32 row by row in the substitution.
	if len(own) == 1 {
		inverse = e.substWords(own[0][0])
	} else {
		inverse = e.substLanes(b.Convert(e.joinRows(own, "leaf"), ir.F32))
	}
	leaf := e.Words(inverse)
	e.B.Stage("solve")
	x := make([][]*ir.Value, len(leaf))
	for p, words := range leaf {
		words = e.contained(words, p, l)
		for i := range a[p] {
			if seen == nil {
				x[p] = append(x[p], e.andMask(words, l, i))
			} else { // a leaf's rows are sums that include zero times the rows of another sequence, possibly infinite
				x[p] = append(x[p], b.And(words, e.andMask(seen[i], l, i)))
			}
		}
	}
	for w := l; w < e.C; w *= 2 {
		e.mergeWords(x, a, w)
	}
	return e.joinRows(x, "t")
}

// mergeWords merges the pairs of blocks of w lanes of x, which holds block rows of a leaf's height, for each part. The
// products process the rows of all pairs at once, packed into the rows of one block, since their lanes are disjoint. They take one
// head each, or two if the variant says so.
//
// A pair is two neighbouring blocks of the diagonal, say 0 and 1, with inverses X00 and X11, and B10 = -A10 below the first. In the code B10 is
// B21, and so on, of each pair. Its inverse is
//
//	[X00           0  ]
//	[X11 B10 X00   X11]
//
// Four blocks of w lanes are two pairs. B10 of the first is in block row 1 and lanes of block 0, B32 of the second in row 3 and
// lanes of block 2; one OR packs them into w rows, and one product with X, whose diagonal has X00 and X22, makes both products:
//
//	b21     [B10  .  B32  .]               w rows in place of 4 w
//	right   [B10 X00  .  B32 X22  .]       = b21 X
//	spread  right, the part of each pair in the rows of its odd block again
//	z       [X11 B10 X00  .  X33 B32 X22  .] = x22 spread, x22 being [.  X11  .  X33]
//
// and ORs put the parts of z into their places of x, which are zero. An MXU takes as many steps as there are rows on the left, so
// packing makes narrow merges cheap: from leaves of 16 to a chunk of 128 there are 16 + 32 + 64 rows, twice, instead of 3 x 128.
func (e *Solver) mergeWords(x, a [][]*ir.Value, w int) {
	b := e.B
	per, pairs := w/e.V.Inverse.Leaf, e.C/(2*w)
	times := e.wordProduct
	if e.shares(w, x[0][0].Type.Shape[0]) {
		times = e.pairProduct
	}
	if tile.TurnsPairs(e.Body) {
		e.mergeTurned(x, a, w, times)
		return
	}
	odd := func(p, m int) int { return (2*p+1)*per + m }
	b21, x22 := make([][]*ir.Value, len(a)), make([][]*ir.Value, len(a))
	for k := range a {
		for m := range per {
			var below, right []*ir.Value
			for p := range pairs {
				below = append(below, e.andMask(a[k][odd(p, m)], w, 2*p))
				right = append(right, x[k][odd(p, m)])
			}
			b21[k], x22[k] = append(b21[k], e.orAll(below)), append(x22[k], e.orAll(right))
		}
	}
	part := func(rows *ir.Value, p int) *ir.Value { // of one pair; with a single pair, everything
		if pairs == 1 {
			return rows
		}
		return e.andMask(rows, w, 2*p)
	}
	right := times(b21, x, w, 0) // B21 X11
	for k := range right {
		for m := range right[k] {
			right[k][m] = e.contained(right[k][m], k, w)
		}
	}
	zero := b.Like(x[0][0], 0)
	spread := make([][]*ir.Value, len(x))
	for k := range x {
		spread[k] = slices.Repeat([]*ir.Value{zero}, len(x[k]))
		for p := range pairs {
			for m := range per {
				spread[k][odd(p, m)] = part(right[k][m], p)
			}
		}
	}
	z := times(x22, spread, w, 1) // X22 B21 X11
	for k := range x {
		for m := range z[k] {
			z[k][m] = e.contained(z[k][m], k, 2*w)
		}
		for p := range pairs {
			for m := range per {
				i := odd(p, m)
				x[k][i] = b.Or(x[k][i], part(z[k][m], p))
			}
		}
	}
}

// mergeTurned is mergeWords for transposed pairs (TurnsPairs), with the same products from the other side:
//
//	[X00  X00 B01 X11]      b12     [.  B01  .   .  ]   in its own rows, of C
//	[0    X11        ]              [.   .   .   .  ]
//	                                [.   .   .   B23]
//	                        x11     [X00      .  X22      .]            w rows in place of 4 w
//	                        right   [.  X00 B01  .  X22 B23]            = x11 b12
//	                        z       [.  X00 B01 X11  .  X22 B23 X33]    = right X
func (e *Solver) mergeTurned(x, a [][]*ir.Value, w int, times func(x, y [][]*ir.Value, w, side int) [][]*ir.Value) {
	b := e.B
	per, pairs := w/e.V.Inverse.Leaf, e.C/(2*w)
	even := func(p, m int) int { return 2*p*per + m }
	zero := b.Like(x[0][0], 0)
	x11, b12 := make([][]*ir.Value, len(a)), make([][]*ir.Value, len(a))
	for k := range a {
		b12[k] = slices.Repeat([]*ir.Value{zero}, len(a[k]))
		for m := range per {
			var left []*ir.Value
			for p := range pairs {
				left = append(left, x[k][even(p, m)])
				b12[k][even(p, m)] = e.andMask(a[k][even(p, m)], w, 2*p+1)
			}
			x11[k] = append(x11[k], e.orAll(left))
		}
	}
	right := times(x11, b12, w, 0)
	for k := range right {
		for m := range right[k] {
			right[k][m] = e.contained(right[k][m], k, w)
		}
	}
	z := times(right, x, w, 1)
	for k := range x {
		for m := range z[k] {
			z[k][m] = e.contained(z[k][m], k, 2*w)
			for p := range pairs {
				i, rows := even(p, m), z[k][m]
				if pairs > 1 {
					rows = e.andMask(rows, w, 2*p+1)
				}
				x[k][i] = b.Or(x[k][i], rows)
			}
		}
	}
}

// wordProduct multiplies packed rows by block rows, both as words, for each part.
func (e *Solver) wordProduct(x, y [][]*ir.Value, _, _ int) [][]*ir.Value {
	return e.toRows(e.inv(e.joinRows(x, "x"), e.joinRows(y, "y")))
}

// pairProduct is wordProduct for two heads at once. The rows of x are zero except in every other block of w lanes, from block side
// (0 or 1) on, so only these blocks of rows of y count. The second head uses the blocks between: its rows of x are rotated by
// one block of lanes, and its blocks of y are next to the first head's. An MXU loads weights of two heads in the
// time of one.
//
//	rows of x, head 0   [a  .  c  .]     y:  block rows 0 and 2 of head 0 in their places,
//	rotated, head 1     [.  a' .  c']        0 and 2 of head 1 in rows 1 and 3
//
// The upper rows times y use blocks of head 0 only, the lower rows blocks of head 1, since other blocks are multiplied by zeros. So
// infinities and NaN of either head must be removed before (contained): zero times infinity is NaN.
func (e *Solver) pairProduct(x, y [][]*ir.Value, w, side int) [][]*ir.Value {
	b := e.B
	n, c := x[0][0].Type.Shape[0], e.C
	head := func(v *ir.Value, i int) *ir.Value {
		s := v.Type.Shape
		return b.Reshape(b.SliceAxis(b.Reshape(v, n/2, 2, s[1], c), 1, i, i+1), n/2, s[1], c)
	}
	lane := e.Iota(e.V.Inverse.Leaf/2, c, 1)
	turn := w
	if side == 0 {
		turn = c - w
	}
	from := e.Plus(lane, turn)
	from = b.Sub(from, b.Mul(e.Divided(from, c), b.Like(from, float64(c))))
	left, right := make([][]*ir.Value, len(x)), make([][]*ir.Value, len(y))
	per := w / e.V.Inverse.Leaf
	for k := range x {
		for _, rows := range x[k] {
			left[k] = append(left[k], head(rows, 0))
		}
		for _, rows := range x[k] {
			left[k] = append(left[k], b.Take(head(rows, 1), e.Over(n/2, from), 2))
		}
		for i := range y[k] {
			if i/per%2 == side {
				right[k] = append(right[k], head(y[k][i], 0))
			} else {
				right[k] = append(right[k], head(y[k][(i/per^1)*per+i%per], 1))
			}
		}
	}
	out := e.wordProduct(left, right, w, side)
	h := len(x[0])
	for k := range out {
		for m := range h {
			both := []*ir.Value{out[k][m], out[k][h+m]}
			for i, v := range both {
				both[i] = b.Reshape(v, n/2, 1, v.Type.Shape[1], c)
			}
			out[k][m] = b.Reshape(b.Concat(1, both...), n, e.V.Inverse.Leaf/2, c)
		}
		out[k] = out[k][:h]
	}
	return out
}

// contained returns the words of a part of merged blocks of w lanes, made finite if a product combines them with another head or sequence. The last
// merge does not: its single pair has two tokens of one sequence.
func (e *Solver) contained(x *ir.Value, part, w int) *ir.Value {
	switch {
	case e.Segments != nil && w == e.C && !e.V.Inverse.Refine:
	case e.Segments != nil:
		return e.Vanishing(x, part)
	case e.shares(w, x.Type.Shape[0]):
		return e.Finite(x, 0)
	}
	return x
}

// shares reports whether merges of blocks of w lanes of n heads process two heads in a product.
func (e *Solver) shares(w, n int) bool { return w <= e.V.Inverse.MergePairs && n%2 == 0 }
