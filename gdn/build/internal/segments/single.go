package segments

import "github.com/gdngen/gdngen/ir"

// Single schedules visits of one sequence each: a block with the rows of one of its sequences. Visits of a block are consecutive, so
// that each can add its rows to earlier results. Sequences are visited in order, or in reverse if the walk goes
// down. A sequence without tokens has a visit without rows, which passes its state through.
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
	Segments          int  // Bound or more
	Places            int  // consecutive visits of a step
	Down              bool // from the last visit to the first
}

// Columns of the table of Single, by places of the walk. -1 means none.
const (
	OneSequence = iota // the sequence of a visit
	OneBlock           // its block
	OneSegment         // its number, counted from the first sequence in both directions
	OneDone            // its block, if no later visit has the block; for steps of several visits
	OneClosed          // its sequence, if this is the last visit of the sequence; for steps of several visits
	oneColumns
)

// Marks of Single, rows of an i32 tile, each row filled with one number.
const (
	OneFirst  = iota // the first row of the visit
	OneEnd           // the end (exclusive) of its rows
	OneKept          // rows to keep from earlier visits: going up rows before it, going down also rows after it
	OneEnters        // 1 if the visit is the first of its sequence in the walk
	oneMarks
)

// Bound returns an upper bound on the visits, in whole steps: one for each block, and one for each sequence that starts inside a block.
func Bound(sequences, blocks, places int) int {
	return (blocks + sequences - 1 + places - 1) / places * places
}

// Entry returns the index of an entry of the table along a sequential axis, for the visit at a place of its step.
func (s Single) Entry(axis, column, place int) ir.Index {
	x := ir.IndexTable(axis, 0)
	x.Const = 1 + column*s.Segments + place*s.Segments/s.Places
	return x
}

// Make returns the schedule for cu_seqlens [sequences + 1]. The table i32 has the number of steps that must run, then for each column and each place
// in a step the entries of all steps. The marks are [visits, Rows, Chunk] i32. Visits after the last have no rows. They name the previous visit's
// sequence, and in turn the blocks without a sequence, so that all blocks are written; then they stay at one block.
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

// places returns the visits in table order, the first places of all steps first: 6 visits by 2 are 0 2 4 1 3 5.
func places(b *ir.Builder, visits, m int) *ir.Value {
	entry := b.Iota(ir.T(ir.I32, visits), 0)
	visit := b.Scale(entry, float64(m))
	for place := 1; place < m; place++ {
		behind := b.Compare(ir.GE, entry, b.Like(entry, float64(place*visits/m)))
		visit = b.Sub(visit, b.Select(behind, b.Like(entry, float64(visits-1)), b.Like(entry, 0)))
	}
	return visit
}

// A walk computes values of visits by their places. Values per sequence are found along the lanes of a square, and values of neighbouring
// visits also follow from sequences. So there are no scalars and no shifted vectors: on a TPU each would pass through HBM
// and delay the kernel.
type walk struct {
	Single
	*ir.Builder
	begin, end, first, last, count, until *ir.Value // per sequence: its tokens, first and last block, number of visits, and cumulative visits
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

// over returns the sum of x over the sequences whose key satisfies cmp against each row; its returns x of one sequence for each row, or 0.
func (w *walk) over(key *ir.Value, cmp ir.Cmp, rows, x *ir.Value) *ir.Value {
	square := []int{rows.Type.Shape[0], w.Sequences}
	hit := w.Compare(cmp, w.Broadcast(key, square, 1), w.Broadcast(rows, square, 0))
	return w.Sum(w.Select(hit, w.Broadcast(x, square, 1), w.Const(ir.T(ir.I32, square...), 0)), 1)
}

func (w *walk) its(of, x *ir.Value) *ir.Value { return w.over(w.Iota(x.Type, 0), ir.EQ, of, x) }

// live returns the number of visits that must run, [1]: visits of sequences, and of blocks without one.
func (w *walk) live() *ir.Value {
	end := w.Const(ir.T(ir.I32, 1), float64(w.Sequences-1))
	return w.Add(w.its(end, w.until), w.clip(w.Sub(w.like(end, w.Blocks-1), w.its(end, w.last)), 0, w.Blocks))
}

// visited has the values of the visits at some places of the walk.
type visited struct {
	columns [oneColumns]*ir.Value
	marks   [oneMarks]*ir.Value
}

func (w *walk) at(place *ir.Value) (x visited) {
	n, nb, c, zero := w.Sequences, w.Blocks, w.Chunk, w.like(place, 0)
	total, reached := w.its(w.like(place, n-1), w.until), w.its(w.like(place, n-1), w.last) // all visits, and the last block that a sequence is in
	spare := w.Sub(place, total)                                                            // for an idle visit: number of idle visits before it
	idle := w.Compare(ir.GE, spare, zero)
	visit, ends, home := place, n-1, reached // the number, and the sequence and the block that the walk ends with
	if w.Down {
		visit, ends, home = w.Select(idle, place, w.plus(w.Sub(total, place), -1)), 0, w.its(zero, w.first)
	}
	of := w.over(w.until, ir.LE, visit, w.like(w.until, 1))
	of = w.Select(idle, w.like(of, ends), of)
	of = w.clip(of, 0, n-1)
	local := w.Sub(visit, w.its(of, w.Sub(w.until, w.count)))
	behind := w.plus(w.Add(spare, reached), 1) // for an idle visit: the next block
	block := w.Select(w.Compare(ir.LT, reached, w.like(reached, nb-1)), behind, home)
	block = w.clip(w.Select(idle, block, w.Add(w.its(of, w.first), local)), 0, nb-1)

	// Neighbouring visits of other sequences, if a visit is the first or last of its own: they may be in the same block. Blocks count
	// from 1 here, so that a missing sequence is in no block.
	begins, ending := zero, w.plus(w.its(of, w.count), -1)
	before, after := w.its(w.plus(of, -1), w.plus(w.last, 1)), w.its(w.plus(of, 1), w.plus(w.first, 1))
	if w.Down {
		begins, ending, before, after = ending, begins, after, before
	}
	here := w.plus(block, 1)
	enters := w.Select(idle, zero, w.one(w.Compare(ir.EQ, local, begins)))
	leaves := w.Select(idle, zero, w.one(w.Compare(ir.EQ, local, ending)))
	again := w.Mul(enters, w.one(w.Compare(ir.EQ, before, here)))
	again = w.Select(idle, w.one(w.Compare(ir.GE, behind, w.like(behind, nb))), again) // the previous visit is in the block too

	// Rows. A visit that is not the first of its block keeps the other rows.
	base := w.Scale(block, float64(c))
	from, to := w.clip(w.Sub(w.its(of, w.begin), base), 0, c), w.clip(w.Sub(w.its(of, w.end), base), 0, c)
	none := w.Or(idle, w.Compare(ir.GE, from, to))
	from, to = w.Select(none, w.like(from, c), from), w.Select(none, w.like(to, 0), to)
	kept := w.Mul(again, from)
	if w.Down {
		kept = w.Select(w.Compare(ir.GT, again, zero), to, w.like(to, c))
	}
	more := w.Select(idle, again, w.Mul(leaves, w.one(w.Compare(ir.EQ, after, here)))) // later visits are in the block too, or this one writes nothing
	x.columns = [oneColumns]*ir.Value{OneSequence: of, OneBlock: block, OneSegment: w.clip(visit, 0, w.Segments-1),
		OneDone: w.Sub(w.Mul(here, w.Sub(w.like(more, 1), more)), w.like(here, 1)), OneClosed: w.plus(w.Mul(leaves, w.plus(of, 1)), -1)}
	x.marks = [oneMarks]*ir.Value{OneFirst: from, OneEnd: to, OneKept: kept, OneEnters: enters}
	return x
}
