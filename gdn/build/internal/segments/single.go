package segments

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
	Segments          int  // as many as Bound says, or more
	Places            int  // visits of a step, which follow one another
	Down              bool // from the last visit to the first
}

// Columns of the table of Single, by places of the walk. -1 stands for none.
const (
	OneSequence = iota // the sequence of a visit
	OneBlock           // its block
	OneSegment         // its number, from the first sequence on, whichever way the walk goes
	OneDone            // its block, where the visits behind it are of others; of steps of several visits
	OneClosed          // its sequence, where it is the last of that; of such steps too
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

// Bound is how many visits there may be, in whole steps: one more than blocks for each sequence that starts inside one.
func Bound(sequences, blocks, places int) int {
	return (blocks + sequences - 1 + places - 1) / places * places
}

// Entry is the index of an entry of the table along a sequential axis, of a visit that has a place in its step.
func (s Single) Entry(axis, column, place int) ir.Index {
	x := ir.IndexTable(axis, 0)
	x.Const = 1 + column*s.Segments + place*s.Segments/s.Places
	return x
}

// Make makes the schedule of cu_seqlens [sequences + 1]: the table, in i32 the steps that must run, then for each of the columns and each place
// in a step the entries of all; and the marks [visits, Rows, Chunk] i32. Visits behind the last have no rows. They name the sequence of the one
// before, and the blocks that no sequence reaches, one after another, so that all are written; where there are none left they stay at a block.
func (s Single) Make(b *ir.Builder, cu *ir.Value) (table, marked *ir.Value) {
	w := s.walk(b, cu)
	visits, m := s.Segments, s.Places
	live := b.Bitcast(w.plus(w.live(), m-1), ir.U32)
	live = w.clip(b.Bitcast(b.Div(live, b.Like(live, float64(m))), ir.I32), 1, visits/m)
	place := b.Iota(ir.T(ir.I32, visits), 0)
	x := w.at(place)
	tall := ir.T(ir.I32, visits, Rows, s.Chunk)
	which, marks := b.Iota(tall, 1), b.Const(tall, 0)
	for i, x := range x.marks {
		marks = b.Select(b.Compare(ir.EQ, which, b.Like(which, float64(i))), b.Broadcast(x, tall.Shape, 0), marks)
	}
	columns := x.columns[:OneDone]
	if m > 1 {
		x = w.at(places(b, visits, m))
		columns = x.columns[:]
	}
	return b.Concat(0, append([]*ir.Value{live}, columns...)...), marks
}

// places are the visits in the order of the table, those of the first place of all steps first: of 6 visits by 2, 0 2 4 1 3 5.
func places(b *ir.Builder, visits, m int) *ir.Value {
	entry := b.Iota(ir.T(ir.I32, visits), 0)
	visit := b.Scale(entry, float64(m))
	for place := 1; place < m; place++ {
		behind := b.Compare(ir.GE, entry, b.Like(entry, float64(place*visits/m)))
		visit = b.Sub(visit, b.Select(behind, b.Like(entry, float64(visits-1)), b.Like(entry, 0)))
	}
	return visit
}

// A walk says what visits have, by their places. What they need of sequences is found along the lanes of a square, and what a visit needs of those
// before and behind it follows from sequences too. So no number is taken alone, and no vector is shifted: on a TPU each would go through main
// memory, and be waited for.
type walk struct {
	Single
	*ir.Builder
	begin, end, first, last, count, until *ir.Value // of sequences: their tokens, the blocks of those, how many visits, and how many end with each
}

func (s Single) walk(b *ir.Builder, cu *ir.Value) *walk {
	w := &walk{Single: s, Builder: b}
	n := s.Sequences
	cu = b.Convert(cu, ir.I32)
	w.begin, w.end = b.SliceAxis(cu, 0, 0, n), b.SliceAxis(cu, 0, 1, n+1)
	used := b.Compare(ir.GT, w.end, w.begin)
	w.first = w.clip(b.Div(w.begin, w.like(w.begin, s.Chunk)), 0, s.Blocks-1)
	last := w.clip(b.Div(w.plus(w.end, -1), w.like(w.end, s.Chunk)), 0, s.Blocks-1)
	w.last = b.Select(used, b.Max(last, w.first), w.first)
	w.count = w.plus(b.Sub(w.last, w.first), 1)
	seq := b.Iota(w.first.Type, 0)
	w.until = w.over(seq, ir.LE, seq, w.count)
	return w
}

func (w *walk) like(x *ir.Value, v int) *ir.Value { return w.Like(x, float64(v)) }
func (w *walk) plus(x *ir.Value, v int) *ir.Value { return w.Add(x, w.like(x, v)) }
func (w *walk) clip(x *ir.Value, lo, hi int) *ir.Value {
	return w.Max(w.Min(x, w.like(x, hi)), w.like(x, lo))
}
func (w *walk) one(x *ir.Value) *ir.Value {
	t := ir.T(ir.I32, x.Type.Shape...)
	return w.Select(x, w.Const(t, 1), w.Const(t, 0))
}

// over sums x, of sequences, over those whose key is in a relation to a row's; its is x of one sequence for each row, 0 where there is no such.
func (w *walk) over(key *ir.Value, cmp ir.Cmp, rows, x *ir.Value) *ir.Value {
	square := []int{rows.Type.Shape[0], w.Sequences}
	hit := w.Compare(cmp, w.Broadcast(key, square, 1), w.Broadcast(rows, square, 0))
	return w.Sum(w.Select(hit, w.Broadcast(x, square, 1), w.Const(ir.T(ir.I32, square...), 0)), 1)
}

func (w *walk) its(of, x *ir.Value) *ir.Value { return w.over(w.Iota(x.Type, 0), ir.EQ, of, x) }

// live is how many visits must run, [1]: those of sequences, and of the blocks that none reaches.
func (w *walk) live() *ir.Value {
	end := w.Const(ir.T(ir.I32, 1), float64(w.Sequences-1))
	return w.Add(w.its(end, w.until), w.clip(w.Sub(w.like(end, w.Blocks-1), w.its(end, w.last)), 0, w.Blocks))
}

// visited is what the visits at some places of the walk have.
type visited struct {
	columns [oneColumns]*ir.Value
	marks   [oneMarks]*ir.Value
}

func (w *walk) at(place *ir.Value) (x visited) {
	n, nb, c, zero := w.Sequences, w.Blocks, w.Chunk, w.like(place, 0)
	total, reached := w.its(w.like(place, n-1), w.until), w.its(w.like(place, n-1), w.last) // all visits, and the last block that a sequence is in
	spare := w.Sub(place, total)                                                            // of an idle visit: how many such are before it
	idle := w.Compare(ir.GE, spare, zero)
	visit, ends, home := place, n-1, reached // the number, and the sequence and the block that the walk ends with
	if w.Down {
		visit, ends, home = w.Select(idle, place, w.plus(w.Sub(total, place), -1)), 0, w.its(zero, w.first)
	}
	of := w.over(w.until, ir.LE, visit, w.like(w.until, 1))
	of = w.Select(idle, w.like(of, ends), of)
	of = w.clip(of, 0, n-1)
	local := w.Sub(visit, w.its(of, w.Sub(w.until, w.count)))
	behind := w.plus(w.Add(spare, reached), 1) // of an idle visit: the next block
	block := w.Select(w.Compare(ir.LT, reached, w.like(reached, nb-1)), behind, home)
	block = w.clip(w.Select(idle, block, w.Add(w.its(of, w.first), local)), 0, nb-1)

	// The visits before and behind, of other sequences where a visit is the first or last of its own: they may be in the same block. Blocks count
	// from 1 there, so that where there is no sequence it is in no block.
	begins, ending := zero, w.plus(w.its(of, w.count), -1)
	before, after := w.its(w.plus(of, -1), w.plus(w.last, 1)), w.its(w.plus(of, 1), w.plus(w.first, 1))
	if w.Down {
		begins, ending, before, after = ending, begins, after, before
	}
	here := w.plus(block, 1)
	enters := w.Select(idle, zero, w.one(w.Compare(ir.EQ, local, begins)))
	leaves := w.Select(idle, zero, w.one(w.Compare(ir.EQ, local, ending)))
	again := w.Mul(enters, w.one(w.Compare(ir.EQ, before, here)))
	again = w.Select(idle, w.one(w.Compare(ir.GE, behind, w.like(behind, nb))), again) // the visit before is in the block too

	// Rows. Of a visit that is not the first of its block the others' are kept.
	base := w.Scale(block, float64(c))
	from, to := w.clip(w.Sub(w.its(of, w.begin), base), 0, c), w.clip(w.Sub(w.its(of, w.end), base), 0, c)
	none := w.Or(idle, w.Compare(ir.GE, from, to))
	from, to = w.Select(none, w.like(from, c), from), w.Select(none, w.like(to, 0), to)
	kept := w.Mul(again, from)
	if w.Down {
		kept = w.Select(w.Compare(ir.GT, again, zero), to, w.like(to, c))
	}
	more := w.Select(idle, again, w.Mul(leaves, w.one(w.Compare(ir.EQ, after, here)))) // visits behind it are in the block too, or this one gives nothing
	x.columns = [oneColumns]*ir.Value{OneSequence: of, OneBlock: block, OneSegment: w.clip(visit, 0, w.Segments-1),
		OneDone: w.Sub(w.Mul(here, w.Sub(w.like(more, 1), more)), w.like(here, 1)), OneClosed: w.plus(w.Mul(leaves, w.plus(of, 1)), -1)}
	x.marks = [oneMarks]*ir.Value{OneFirst: from, OneEnd: to, OneKept: kept, OneEnters: enters}
	return x
}
