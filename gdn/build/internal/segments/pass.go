package segments

import "github.com/gdngen/gdngen/ir"

// Pass schedules a pass over packed tokens in which only a few rows before a token affect it: a visit for each
// block, and one more for each sequence that begins inside of one. A visit writes the rows of its block from its first on; rows before it
// belong to earlier visits.
//
// Example: sequences of 5, 0 and 6 tokens in blocks of 8.
//
//	visit  block  sequence  first  begin  done
//	0      0      0         0      0      none
//	1      0      2         5      5      0
//	2      1      2         0      -3     1
type Pass struct {
	Sequences, Blocks int
	Chunk             int  // tokens of a block, PassRows or more
	Kernel            bool // a kernel makes it
}

// PassRows is the number of rows of the previous block's tile. PassReach is the largest distance before its block at which a sequence's start still
// matters.
const (
	PassRows  = 16
	PassReach = 8
)

// Columns of the table of Pass. -1 means none.
const (
	PassBlock  = iota // the block of a visit
	PassBefore        // the tile of PassRows rows before it; arbitrary for the first block
	PassState         // the initial state of its sequence; arbitrary if it starts from zeros
	PassDone          // the block, if no later visit has rows in it
)

// Marks of Pass, rows of an i32 tile, each row filled with one number.
const (
	PassFirst = iota // the first row of the visit
	PassBegin        // PassReach plus the row in which its sequence begins, 0 if that is earlier or there is none
	PassFresh        // 1 if the sequence starts from zeros
)

// Segments returns an upper bound on the number of visits.
func (s Pass) Segments() int { return s.Blocks + s.Sequences }

// Entry returns the index of an entry of a column along a sequential axis.
func (s Pass) Entry(axis, column int) ir.Index {
	x := ir.IndexTable(axis, 0)
	x.Const = Stride(s.Segments(), s.Kernel) * (1 + column)
	return x
}

// Make returns the table i32 (the number of visits, repeated, then the columns) and the marks [visits, Rows, Chunk] i32, for
// sequences from begin [sequences] to end that start from states, or from zeros if fresh.
func (s Pass) Make(b *ir.Builder, begin, end, from, fresh *ir.Value) (table, marked *ir.Value) {
	l := Lists{b, s.Kernel}
	nb, c, visits := s.Blocks, s.Chunk, s.Segments()
	one, plus, over, clip := l.One, l.Plus, l.Over, l.Clip
	begin, end = clip(begin, 0, nb*c), clip(end, 0, nb*c)
	used := b.Compare(ir.GT, end, begin)
	home := b.Div(begin, b.Like(begin, float64(c)))
	row := b.Sub(begin, b.Scale(home, float64(c)))
	more := one(b.And(used, b.Compare(ir.GT, row, b.Like(row, 0)))) // second and later visits of a block
	at := b.Add(b.Add(home, more), over(begin, ir.LT, begin, more)) // the visit with which a sequence begins
	at = b.Select(used, at, b.Like(at, float64(3*visits)))

	visit := l.Count(l.stride(visits))
	zero := b.Like(visit, 0)
	block := b.Sub(visit, over(visit, ir.LE, at, more))
	idle := b.Compare(ir.GE, block, b.Like(block, float64(nb)))
	block = clip(block, 0, nb-1)
	seq := b.Iota(begin.Type, 0)
	of := l.Greatest(visit, ir.LE, at, seq)
	its := func(x *ir.Value) *ir.Value { return over(of, ir.EQ, seq, x) }
	stays := b.Compare(ir.GT, over(plus(visit, 1), ir.EQ, at, more), zero)
	done := b.Select(b.Or(idle, stays), b.Like(visit, -1), block)
	live := b.Min(plus(over(plus(visit, visits), ir.LE, at, more), nb), b.Like(visit, float64(visits)))
	before := b.Max(plus(b.Scale(block, float64(c/PassRows)), -1), zero)

	starts := clip(plus(b.Sub(its(begin), b.Scale(block, float64(c))), PassReach), 0, c+PassReach)
	starts = b.Select(b.Compare(ir.LT, of, zero), zero, starts)
	marks := []*ir.Value{PassFirst: over(visit, ir.EQ, at, b.Mul(more, row)), PassBegin: starts, PassFresh: its(one(fresh))}
	return l.Table(live, block, before, b.Max(its(from), zero), done), l.spread(visits, c, marks)
}
