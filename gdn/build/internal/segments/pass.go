package segments

import "github.com/gdngen/gdngen/ir"

// Pass schedules a pass over the tokens of packed sequences in which what is before a token reaches it by some rows alone: a visit for each
// block, and one more for each sequence that begins inside of one. A visit gives the rows of its block from its first on; those before it
// are of visits before.
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

// PassRows are the rows of the tile that is shown of the block before, and PassReach is how far before its block a sequence may begin to be told
// from one that began earlier.
const (
	PassRows  = 16
	PassReach = 8
)

// Columns of the table of Pass. -1 stands for none.
const (
	PassBlock  = iota // the block of a visit
	PassBefore        // the tile of PassRows rows before it, any of the first block
	PassState         // the state that its sequence starts from, any of one that starts from zeros
	PassDone          // the block, where no visit behind it has rows there
)

// Marks of Pass, rows of a tile in i32, each one number throughout.
const (
	PassFirst = iota // the first row of the visit
	PassBegin        // PassReach and the row in which its sequence begins, 0 where that is earlier or there is none
	PassFresh        // 1 where that starts from zeros
)

// Segments bounds the visits.
func (s Pass) Segments() int { return s.Blocks + s.Sequences }

// Entry is the index of an entry of a column along a sequential axis.
func (s Pass) Entry(axis, column int) ir.Index {
	x := ir.IndexTable(axis, 0)
	x.Const = Stride(s.Segments(), s.Kernel) * (1 + column)
	return x
}

// Make makes the table, in i32 the visits that there are, as often as there may be, then the columns, and the marks [visits, Rows, Chunk] i32, of
// sequences from begin [sequences] to end, which start from states, or from zeros where they are fresh.
func (s Pass) Make(b *ir.Builder, begin, end, from, fresh *ir.Value) (table, marked *ir.Value) {
	l := Lists{b, s.Kernel}
	nb, c, visits := s.Blocks, s.Chunk, s.Segments()
	one, plus, over, clip := l.One, l.Plus, l.Over, l.Clip
	begin, end = clip(begin, 0, nb*c), clip(end, 0, nb*c)
	used := b.Compare(ir.GT, end, begin)
	home := b.Div(begin, b.Like(begin, float64(c)))
	row := b.Sub(begin, b.Scale(home, float64(c)))
	more := one(b.And(used, b.Compare(ir.GT, row, b.Like(row, 0)))) // a visit more than its block has
	at := b.Add(b.Add(home, more), over(begin, ir.LT, begin, more)) // the visit that a sequence begins with
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
