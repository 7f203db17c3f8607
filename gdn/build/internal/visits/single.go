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
func (s Single) Make(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
	n, nb, c, visits := s.Sequences, s.Blocks, s.Chunk, s.Visits()
	vec := func(n int) ir.Type { return ir.T(ir.I32, n) }
	like := func(x *ir.Value, v int) *ir.Value { return b.Like(x, float64(v)) }
	clip := func(x *ir.Value, lo, hi int) *ir.Value { return b.Max(b.Min(x, like(x, hi)), like(x, lo)) }
	over := func(hit, x *ir.Value) *ir.Value { // sums of x, of sequences, over those that are hit in each row
		return b.Sum(b.Select(hit, b.Broadcast(x, hit.Type.Shape, 1), b.Const(ir.T(ir.I32, hit.Type.Shape...), 0)), 1)
	}
	row := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{x.Type.Shape[0], n}, 0) }
	lane := func(x *ir.Value, rows int) *ir.Value { return b.Broadcast(x, []int{rows, n}, 1) }
	all := func(x *ir.Value, n int) *ir.Value { return b.Broadcast(x, []int{n}, 0) } // of a vector of one

	// Sequences: blocks of their first and last tokens, and how many visits end with each.
	cu = b.Convert(cu, ir.I32)
	begin, end := b.SliceAxis(cu, 0, 0, n), b.SliceAxis(cu, 0, 1, n+1)
	used := b.Compare(ir.GT, end, begin)
	first := clip(b.Div(begin, like(begin, c)), 0, nb-1)
	last := clip(b.Div(b.Sub(end, like(end, 1)), like(end, c)), 0, nb-1)
	last = b.Select(used, b.Max(last, first), first)
	count := b.Add(b.Sub(last, first), like(last, 1))
	seq := b.Iota(vec(n), 0)
	until := over(b.Compare(ir.LE, lane(seq, n), row(seq)), count)
	total := b.Reshape(b.Sum(count, 0), 1)
	at := func(x *ir.Value, i int) *ir.Value { return b.SliceAxis(x, 0, i, i+1) } // a vector of one
	reached := at(last, n-1)                                                      // the last block that a sequence is in

	// Visits, by places of the walk. One behind the last is of the sequence that the walk ends with.
	place := b.Iota(vec(visits), 0)
	stop := all(total, visits)
	idle := b.Compare(ir.GE, place, stop)
	visit, ends, home := place, n-1, reached // the number, and the sequence and the block that the walk ends with
	if s.Down {
		visit, ends, home = b.Select(idle, place, b.Sub(b.Sub(stop, like(stop, 1)), place)), 0, at(first, 0)
	}
	of := over(b.Compare(ir.LE, lane(until, visits), row(visit)), b.Const(vec(n), 1))
	of = b.Select(idle, like(of, ends), of)
	of = clip(of, 0, n-1)
	its := func(x *ir.Value) *ir.Value { return over(b.Compare(ir.EQ, lane(seq, visits), row(of)), x) }
	local := b.Sub(visit, its(b.Sub(until, count)))
	behind := b.Add(b.Sub(place, stop), all(b.Add(reached, like(reached, 1)), visits)) // of an idle visit: the next block
	behind = b.Select(b.Compare(ir.LT, all(reached, visits), like(behind, nb-1)), behind, all(home, visits))
	block := clip(b.Select(idle, behind, b.Add(its(first), local)), 0, nb-1)
	live := b.Add(total, clip(b.Sub(like(reached, nb-1), reached), 0, nb))
	live = clip(live, 1, visits)

	// Rows. Of a visit that is not the first of its block the others' are kept.
	base := b.Scale(block, float64(c))
	from, to := clip(b.Sub(its(begin), base), 0, c), clip(b.Sub(its(end), base), 0, c)
	none := b.Or(idle, b.Compare(ir.GE, from, to))
	from, to = b.Select(none, like(from, c), from), b.Select(none, like(to, 0), to)
	again := func(x *ir.Value) *ir.Value { // where it is what it was at the place before
		before := b.Const(vec(1), -1)
		if visits > 1 {
			before = b.Concat(0, before, b.SliceAxis(x, 0, 0, visits-1))
		}
		return b.Compare(ir.EQ, before, x)
	}
	kept := b.Select(again(block), from, like(from, 0))
	if s.Down {
		kept = b.Select(again(block), to, like(to, c))
	}
	enters := b.Select(again(of), like(of, 0), like(of, 1))
	tall := ir.T(ir.I32, visits, Rows, c)
	which, marks := b.Iota(tall, 1), b.Const(tall, 0)
	for i, x := range [oneMarks]*ir.Value{OneFirst: from, OneEnd: to, OneKept: kept, OneEnters: enters} {
		marks = b.Select(b.Compare(ir.EQ, which, like(which, i)), b.Broadcast(x, tall.Shape, 0), marks)
	}
	columns := [oneColumns]*ir.Value{OneSequence: of, OneBlock: block, OneVisit: clip(visit, 0, visits-1)}
	return b.Concat(0, append([]*ir.Value{live}, columns[:]...)...), marks
}
