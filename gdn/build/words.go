package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// With mask=words triangular and block masks are ANDs on u32 words of two bf16 rows. That is half the work of a select, and
// it clears infinities and NaN alike, so decay need not be masked before its exponential: what overflows above the diagonal
// is cut off here.

// wordMask is all ones where the lane's block of w is number i, on rows of words.
func (e *solver) wordMask(rows, w, i int) *ir.Value {
	b := e.b
	lane := e.iota(rows, e.c, 1)
	t := ir.T(ir.U32, rows, e.c)
	return b.Select(b.Compare(ir.EQ, e.divided(lane, w), b.Like(lane, float64(i))), b.Const(t, 0xffffffff), b.Const(t, 0))
}

// andMask clears x [N, rows, C] outside block i of w lanes.
func (e *solver) andMask(x *ir.Value, w, i int) *ir.Value {
	s := x.Type.Shape
	return e.b.And(x, e.over(s[0], e.wordMask(s[1], w, i)))
}

// masked clears x [N, R, C], in bf16 or its parts, where keep, of a row and a lane, does not hold, and stores it.
func (e *solver) masked(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	return e.maskedIn(x, func(_ int, row, lane *ir.Value) *ir.Value { return keep(row, lane) })
}

// maskedIn is masked by what is of the visit too.
func (e *solver) maskedIn(x *ir.Value, keep func(visit int, row, lane *ir.Value) *ir.Value) *ir.Value {
	b, s := e.b, x.Type.Shape
	if e.v.Mask != gdn.MaskWords {
		x = b.Convert(x, ir.F32)
		holds := e.ofVisits(s[0], func(visit int) *ir.Value { return keep(visit, e.iota(s[1], s[2], 0), e.iota(s[1], s[2], 1)) })
		return e.store(b.Select(holds, x, b.Like(x, 0)))
	}
	return e.andWords(x, e.ofVisits(s[0], func(visit int) *ir.Value {
		return e.wordsWhere(s[1], s[2], func(row, lane *ir.Value) *ir.Value { return keep(visit, row, lane) })
	}))
}

// andWords is x, in bf16 or its parts, where a mask on words has ones.
func (e *solver) andWords(x, mask *ir.Value) *ir.Value {
	var parts []*ir.Value
	for _, words := range e.toWords(x) {
		parts = append(parts, e.b.Halves(e.b.And(words, mask)))
	}
	return e.joined(parts)
}

// wordsWhere is all ones in the halves of words of a [rows, lanes] tile where keep holds. Row r of words holds rows 2r (low) and
// 2r + 1 (high).
func (e *solver) wordsWhere(rows, lanes int, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	b := e.b
	r, l := e.iota(rows/2, lanes, 0), e.iota(rows/2, lanes, 1)
	t := ir.T(ir.U32, rows/2, lanes)
	zero := b.Const(t, 0)
	even := b.Add(r, r)
	low := b.Select(keep(even, l), b.Const(t, 0xffff), zero)
	high := b.Select(keep(e.plus(even, 1), l), b.Const(t, 0xffff0000), zero)
	return b.Or(low, high)
}

// lower clears what lies above the diagonal of x [N, C, C], in bf16 or its parts, and pairs of tokens of two sequences.
func (e *solver) lower(x *ir.Value) *ir.Value {
	upto := func(row, lane *ir.Value) *ir.Value { return e.b.Compare(ir.LE, lane, row) }
	if e.visits == nil || e.v.Mask != gdn.MaskWords {
		return e.masked(x, upto)
	}
	return e.andWords(x, e.ownWords(x, upto))
}

// ownWords is all ones, on words of x [N, C, C], where the token of the lane is of the sequence of the row's, and where, unless it is nil,
// keep holds.
func (e *solver) ownWords(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value {
	return e.ofVisits(x.Type.Shape[0], func(visit int) *ir.Value {
		own := e.wordsWhere(e.c, e.c, func(row, lane *ir.Value) *ir.Value { return e.visits.Together(visit, row, lane) })
		if keep != nil {
			own = e.b.And(own, e.wordsWhere(e.c, e.c, keep))
		}
		return own
	})
}

// upper clears x [N, C, C] but for lanes at least by beyond their row, in bf16 or its parts.
func (e *solver) upper(x *ir.Value, by int) *ir.Value {
	b, c := e.b, e.c
	r, l := e.iota(c/2, c, 0), e.iota(c/2, c, 1)
	t := ir.T(ir.U32, c/2, c)
	zero := b.Const(t, 0)
	even := b.Add(r, r)
	low := b.Select(b.Compare(ir.GE, l, e.plus(even, by)), b.Const(t, 0xffff), zero)
	high := b.Select(b.Compare(ir.GE, l, e.plus(even, by+1)), b.Const(t, 0xffff0000), zero)
	mask := e.over(x.Type.Shape[0], b.Or(low, high))
	var parts []*ir.Value
	for _, words := range e.toWords(x) {
		parts = append(parts, b.Halves(b.And(words, mask)))
	}
	return e.joined(parts)
}

// wordRows cuts words [N, R, C] into blocks of h rows.
func (e *solver) wordRows(x *ir.Value, h int) []*ir.Value {
	var out []*ir.Value
	for i := 0; i < x.Type.Shape[1]; i += h {
		out = append(out, e.b.SliceAxis(x, 1, i, i+h))
	}
	return out
}

// toWords is x in bf16, or its parts, as words.
func (e *solver) toWords(x *ir.Value) []*ir.Value {
	var out []*ir.Value
	for _, part := range e.wordParts(x) {
		out = append(out, e.b.Words(part))
	}
	return out
}

func (e *solver) wordParts(x *ir.Value) []*ir.Value {
	if e.v.Parts == gdn.PartsKept {
		return e.cut(x)
	}
	return []*ir.Value{e.b.Convert(x, ir.BF16)}
}

// toRows cuts the words of x into blocks of half a leaf's height, for each part.
func (e *solver) toRows(x *ir.Value) [][]*ir.Value {
	var out [][]*ir.Value
	for _, words := range e.toWords(x) {
		out = append(out, e.wordRows(words, e.v.Leaf/2))
	}
	return out
}

// ownRows is toRows of -A [N, C, C]. Where blocks have tokens of several sequences, it is zero for pairs of two, and finite: the rows of
// a merge have the lanes of several blocks, so what is not finite would meet zeros of others. Then the mask comes with it, by rows too.
func (e *solver) ownRows(negA *ir.Value) (a [][]*ir.Value, own []*ir.Value) {
	if e.visits == nil {
		return e.toRows(negA), nil
	}
	mask := e.ownWords(negA, nil)
	for part, words := range e.toWords(negA) {
		a = append(a, e.wordRows(e.finite(e.b.And(words, mask), part), e.v.Leaf/2))
	}
	return a, e.wordRows(mask, e.v.Leaf/2)
}

// joinRows is the value of blocks of words, for each part.
func (e *solver) joinRows(x [][]*ir.Value) *ir.Value {
	var parts []*ir.Value
	for _, rows := range x {
		parts = append(parts, e.b.Halves(e.b.Concat(1, rows...)))
	}
	return e.joined(parts)
}

func (e *solver) orAll(xs []*ir.Value) *ir.Value {
	out := xs[0]
	for _, x := range xs[1:] {
		out = e.b.Or(out, x)
	}
	return out
}

// solveWords is the merge solver with packed rows on words: from -A [N, C, C], whose upper part may hold anything, to
// (I + A)^-1 in bf16 or its parts.
func (e *solver) solveWords(negA *ir.Value) *ir.Value {
	a, seen := e.ownRows(negA)
	b, l := e.b.Stage("leaf"), e.v.Leaf
	var own [][]*ir.Value
	for _, rows := range a {
		var blocks []*ir.Value
		for i, block := range rows {
			blocks = append(blocks, e.andMask(block, l, i))
		}
		own = append(own, []*ir.Value{e.orAll(blocks)})
	}
	var inverse *ir.Value
	if len(own) == 1 {
		inverse = e.substWords(own[0][0])
	} else {
		inverse = e.substLanes(b.Convert(e.joinRows(own), ir.F32))
	}
	leaf := e.toWords(inverse)
	e.b.Stage("solve")
	x := make([][]*ir.Value, len(leaf))
	for p, words := range leaf {
		words = e.contained(words, p, l)
		for i := range a[p] {
			if seen == nil {
				x[p] = append(x[p], e.andMask(words, l, i))
			} else { // a leaf's rows are sums of zeros times the rows of another sequence, infinite ones too
				x[p] = append(x[p], b.And(words, e.andMask(seen[i], l, i)))
			}
		}
	}
	for w := l; w < e.c; w *= 2 {
		e.mergeWords(x, a, w)
	}
	return e.joinRows(x)
}

// mergeWords merges the pairs of blocks of w lanes of x, which holds block rows of a leaf's height, for each part. The
// products work on the rows of all pairs at once, packed into the rows of one block: their lanes are disjoint. They take one
// head each, or two where the variant says so.
func (e *solver) mergeWords(x, a [][]*ir.Value, w int) {
	b := e.b
	per, pairs := w/e.v.Leaf, e.c/(2*w)
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
	part := func(rows *ir.Value, p int) *ir.Value { // of one pair; of the only pair, everything
		if pairs == 1 {
			return rows
		}
		return e.andMask(rows, w, 2*p)
	}
	times := e.wordProduct
	if e.shares(w, x[0][0].Type.Shape[0]) {
		times = e.pairProduct
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

// wordProduct multiplies packed rows by block rows, both as words, for each part.
func (e *solver) wordProduct(x, y [][]*ir.Value, _, _ int) [][]*ir.Value {
	return e.toRows(e.inv(e.joinRows(x), e.joinRows(y)))
}

// pairProduct is wordProduct for two heads at once. The rows of x are zero but in every other block of w lanes, from block side
// (0 or 1) on, so only these blocks of rows of y count. The second head's take the places between: its rows of x are turned by
// one block of lanes, and its blocks of y stand beside those of the first. A matrix unit takes weights of two heads in the
// time of one.
func (e *solver) pairProduct(x, y [][]*ir.Value, w, side int) [][]*ir.Value {
	b := e.b
	n, c := x[0][0].Type.Shape[0], e.c
	head := func(v *ir.Value, i int) *ir.Value {
		s := v.Type.Shape
		return b.Reshape(b.SliceAxis(b.Reshape(v, n/2, 2, s[1], c), 1, i, i+1), n/2, s[1], c)
	}
	lane := e.iota(e.v.Leaf/2, c, 1)
	turn := w
	if side == 0 {
		turn = c - w
	}
	from := e.plus(lane, turn)
	from = b.Sub(from, b.Mul(e.divided(from, c), b.Like(from, float64(c))))
	left, right := make([][]*ir.Value, len(x)), make([][]*ir.Value, len(y))
	per := w / e.v.Leaf
	for k := range x {
		for _, rows := range x[k] {
			left[k] = append(left[k], head(rows, 0))
		}
		for _, rows := range x[k] {
			left[k] = append(left[k], b.Take(head(rows, 1), e.over(n/2, from), 2))
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
			out[k][m] = b.Reshape(b.Concat(1, both...), n, e.v.Leaf/2, c)
		}
		out[k] = out[k][:h]
	}
	return out
}
