package channel

import "github.com/gdngen/gdngen/ir"

// halves are the rows of each half of the blocks of a level, where they are whole registers; 0 elsewhere: all rows stay together.
//
// Pairs of a level are tokens of second halves with tokens of first ones, so of its products rows of first halves, and columns of second
// ones, would be masked away. Where halves are registers they are left out before, which is half of the rows:
//
//	C = 128, a level of blocks of 64:   first [64]  = rows 0-31 and 64-95      columns, times their factors
//	                                    second [64] = rows 32-63 and 96-127    rows, times theirs
//
// Narrower halves are parts of registers, and to take them apart would cost more moves than the products they save.
type halves int

func (l level) halves() halves {
	if n := l.block / 2; l.wide && n >= sumBlock {
		return halves(n)
	}
	return 0
}

// first and second are the rows of the first halves of x [N, C, D], one below the other, and those of the second; nil of nil.
func (h halves) first(b *ir.Builder, x *ir.Value) *ir.Value  { return h.rows(b, x, 0) }
func (h halves) second(b *ir.Builder, x *ir.Value) *ir.Value { return h.rows(b, x, 1) }

func (h halves) rows(b *ir.Builder, x *ir.Value, half int) *ir.Value {
	if h == 0 || x == nil {
		return x
	}
	var parts []*ir.Value
	for at := half * int(h); at < x.Type.Shape[1]; at += 2 * int(h) {
		parts = append(parts, b.SliceAxis(x, 1, at, at+int(h)))
	}
	return b.Concat(1, parts...)
}

// join is x whose halves are first and second; where rows stay together, first has them all.
func (h halves) join(b *ir.Builder, first, second *ir.Value) *ir.Value {
	if h == 0 {
		return first
	}
	var parts []*ir.Value
	for at := 0; at < first.Type.Shape[1]; at += int(h) {
		parts = append(parts, b.SliceAxis(first, 1, at, at+int(h)), b.SliceAxis(second, 1, at, at+int(h)))
	}
	return b.Concat(1, parts...)
}

// each puts add to the halves of x that are named, second or first, and leaves the others.
func (h halves) each(b *ir.Builder, x, add *ir.Value, second bool) *ir.Value {
	switch {
	case h == 0:
		return b.Add(x, add)
	case second:
		return h.join(b, h.first(b, x), b.Add(h.second(b, x), add))
	}
	return h.join(b, b.Add(h.first(b, x), add), h.second(b, x))
}
