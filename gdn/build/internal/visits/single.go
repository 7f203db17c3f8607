package visits

import "github.com/gdngen/gdngen/ir"

// Single schedules visits of one sequence each: a block with the rows of one of its sequences. Those of a block follow one another, so
// that each can add its rows to what those before it gave. Sequences have visits in their order, or, where the walk goes down, in
// reverse; one without tokens has a visit without rows, which takes its state along.
//
// Example: sequences of 5, 0 and 6 tokens in blocks of 8.
//
//	going up                            going down
//	block  sequence  rows  kept         block  sequence  rows  kept
//	0      0         0..5  none         1      2         0..3  none
//	0      1         none  all          0      2         5..8  none
//	0      2         5..8  rows 0..5    0      1         none  all
//	1      2         0..3  none         0      0         0..5  rows 5..8
type Single struct {
	Sequences, Blocks int
	Chunk             int  // tokens of a block
	Down              bool // from the last visit to the first
}

// Columns of the table of Single, by places of the walk.
const (
	OneSequence = iota // the sequence of a visit
	OneBlock           // its block
	OneVisit           // its number, from the first sequence on, whichever way the walk goes
	oneColumns
)

// Marks of Single, rows of a tile in i32, each one number throughout.
const (
	OneFirst  = iota // the first row of the visit
	OneEnd           // the first row behind it
	OneKept          // going up rows before it are kept from the visits before, going down it and those behind it
	OneEnters        // 1 where the visit is the first of its sequence in the walk
	oneMarks
)

// Visits bounds their number: there is one more than blocks for each sequence that starts inside one.
func (s Single) Visits() int { return s.Blocks + s.Sequences - 1 }

// Entry is the index of an entry of the table along a sequential axis.
func (s Single) Entry(axis, column int) ir.Index {
	x := ir.IndexTable(axis, 0)
	x.Const = 1 + column*s.Visits()
	return x
}

// Make makes the schedule of cu_seqlens [sequences + 1]: the table, in i32 the visits that must run, then for each of the columns the
// entries of all; and the marks [visits, Rows, Chunk] i32. Visits behind the last have no rows. They name the sequence of the one before,
// and the blocks that no sequence reaches, one after another, so that all are written; where there are none left they stay at a block.
//
// What a visit needs of sequences it finds along the lanes of a square, and what it needs of the visit before it follows from sequences too.
// So no number is taken alone, and no vector is shifted: on a TPU each would go through main memory, and be waited for.
func (s Single) Make(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
	n, nb, c, visits := s.Sequences, s.Blocks, s.Chunk, s.Visits()
	vec := func(n int) ir.Type { return ir.T(ir.I32, n) }
	like := func(x *ir.Value, v int) *ir.Value { return b.Like(x, float64(v)) }
	plus := func(x *ir.Value, v int) *ir.Value { return b.Add(x, like(x, v)) }
	clip := func(x *ir.Value, lo, hi int) *ir.Value { return b.Max(b.Min(x, like(x, hi)), like(x, lo)) }
	over := func(key *ir.Value, cmp ir.Cmp, rows, x *ir.Value) *ir.Value { // sums of x, of sequences, over those whose key is in a relation to a row's
		square := []int{rows.Type.Shape[0], n}
		hit := b.Compare(cmp, b.Broadcast(key, square, 1), b.Broadcast(rows, square, 0))
		return b.Sum(b.Select(hit, b.Broadcast(x, square, 1), b.Const(ir.T(ir.I32, square...), 0)), 1)
	}

	// Sequences: blocks of their first and last tokens, and how many visits end with each.
	cu = b.Convert(cu, ir.I32)
	begin, end := b.SliceAxis(cu, 0, 0, n), b.SliceAxis(cu, 0, 1, n+1)
	used := b.Compare(ir.GT, end, begin)
	first := clip(b.Div(begin, like(begin, c)), 0, nb-1)
	last := clip(b.Div(plus(end, -1), like(end, c)), 0, nb-1)
	last = b.Select(used, b.Max(last, first), first)
	count := plus(b.Sub(last, first), 1)
	seq := b.Iota(vec(n), 0)
	until := over(seq, ir.LE, seq, count)
	its := func(of, x *ir.Value) *ir.Value { return over(seq, ir.EQ, of, x) } // 0 where there is no such sequence
	final := b.Const(vec(1), float64(n-1))
	live := b.Add(its(final, until), clip(b.Sub(like(final, nb-1), its(final, last)), 0, nb))
	live = clip(live, 1, visits)

	// Visits, by places of the walk. One behind the last is of the sequence that the walk ends with.
	place := b.Iota(vec(visits), 0)
	total, reached := its(like(place, n-1), until), its(like(place, n-1), last) // all visits, and the last block that a sequence is in
	spare := b.Sub(place, total)                                                // of an idle visit: how many such are before it
	idle := b.Compare(ir.GE, spare, like(spare, 0))
	visit, ends, home := place, n-1, reached // the number, and the sequence and the block that the walk ends with
	if s.Down {
		visit, ends, home = b.Select(idle, place, plus(b.Sub(total, place), -1)), 0, its(like(place, 0), first)
	}
	of := over(until, ir.LE, visit, b.Const(vec(n), 1))
	of = b.Select(idle, like(of, ends), of)
	of = clip(of, 0, n-1)
	local := b.Sub(visit, its(of, b.Sub(until, count)))
	behind := plus(b.Add(spare, reached), 1) // of an idle visit: the next block
	block := b.Select(b.Compare(ir.LT, reached, like(reached, nb-1)), behind, home)
	block = clip(b.Select(idle, block, b.Add(its(of, first), local)), 0, nb-1)

	// The visit before: of another sequence where a visit is the first of its own, which may have ended in the same block. Blocks count from 1
	// there, so that where there is none it is in no block.
	edge, beside := like(local, 0), its(plus(of, -1), plus(last, 1))
	if s.Down {
		edge, beside = plus(its(of, count), -1), its(plus(of, 1), plus(first, 1))
	}
	one := func(x *ir.Value) *ir.Value { return b.Select(x, like(place, 1), like(place, 0)) }
	enters := b.Select(idle, like(place, 0), one(b.Compare(ir.EQ, local, edge)))
	shares := b.Mul(enters, one(b.Compare(ir.EQ, beside, plus(block, 1))))
	again := b.Select(idle, one(b.Compare(ir.GE, behind, like(behind, nb))), shares)

	// Rows. Of a visit that is not the first of its block the others' are kept.
	base := b.Scale(block, float64(c))
	from, to := clip(b.Sub(its(of, begin), base), 0, c), clip(b.Sub(its(of, end), base), 0, c)
	none := b.Or(idle, b.Compare(ir.GE, from, to))
	from, to = b.Select(none, like(from, c), from), b.Select(none, like(to, 0), to)
	kept := b.Mul(again, from)
	if s.Down {
		kept = b.Select(b.Compare(ir.GT, again, like(again, 0)), to, like(to, c))
	}
	tall := ir.T(ir.I32, visits, Rows, c)
	which, marks := b.Iota(tall, 1), b.Const(tall, 0)
	for i, x := range [oneMarks]*ir.Value{OneFirst: from, OneEnd: to, OneKept: kept, OneEnters: enters} {
		marks = b.Select(b.Compare(ir.EQ, which, like(which, i)), b.Broadcast(x, tall.Shape, 0), marks)
	}
	columns := [oneColumns]*ir.Value{OneSequence: of, OneBlock: block, OneVisit: clip(visit, 0, visits-1)}
	return b.Concat(0, append([]*ir.Value{live}, columns[:]...)...), marks
}
