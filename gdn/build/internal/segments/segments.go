// Package segments schedules packed sequences by aligned blocks, and says which tokens of a block are
// whose.
//
// A visit is a block of tokens with two of its sequences: the one that is open when the visit
// begins, and the next one, which is open when it ends. There is a visit for each block, and one
// more for each sequence that starts in the block of the one before it. A step of a grid takes
// several visits, one for each of its places.
//
// Example: sequences of 5, 2 and 6 tokens in blocks of 8 take four visits.
//
//	visit  block  open      next      first  from  to   output done  state done
//	0      0      (none)    0         0      0     5    none         none
//	1      0      0         1         5      5     7    none         0
//	2      0      1         2         7      7     8    0            1
//	3      1      2         (none)    0      9     9    1            2, as the last
//
// Visit 1 has no rows of sequence 0, all of which visit 0 had: what is new begins at first.
package segments

import "github.com/gdngen/gdngen/ir"

// Marks of a visit, rows of a tile in i32, each one number throughout. Those behind Keep are marks of a pool alone.
const (
	First = iota // the first row of the visit: the open sequence has those from here on
	From         // the first row of the next sequence; beyond the block where there is none
	To           // the first row behind the next sequence
	Keep         // 0 where the state of the next one is dropped: it has no tokens, and final states of such are zero
	Open         // as First, or beyond the block where the open sequence is skipped, so that no row is of it
	Enter        // as From, or beyond the block where the next sequence is skipped
	Fresh        // 1 where the next one starts from zeros
)

// names are what marks are called in a kernel.
var names = [...]string{First: "first", From: "border", To: "end", Keep: "kept", Open: "open_first", Enter: "next_first", Fresh: "fresh"}

// Rows of a tile of marks fill a register.
const Rows = 8

// Columns of the table. -1 stands for none.
const (
	Block  = iota // the block of tokens of a visit
	Next          // the sequence that is open at its end; of a pool, the state that it starts from
	Done          // the block whose output is then complete
	Closed        // the sequence whose state is then final; of a pool, the state that it leaves
	Last          // the same of the state that the step leaves open; in one place
)

// Slots are the states of a pool [sequences] i32 that sequences start from and that they leave, -1 for none. A sequence that leaves none
// is skipped: its rows are of nobody, whose outputs are zeros. Whatever a sequence starts from, a state is read, which nobody may write meanwhile.
type Slots struct {
	From, To *ir.Value
	Fresh    *ir.Value // bool: sequences that start from zeros; nil for none
}

// Schedule is what visits follow from, beside cu_seqlens.
type Schedule struct {
	Sequences, Blocks int
	Chunk             int  // tokens of a block
	Places            int  // visits of a step
	Drop              bool // final states of sequences without tokens are zero
	Spare             int  // 0, or the token from which on there are spare sequences: skipped ones that begin there have no visit
	Kernel            bool // a kernel makes it
}

// Steps bounds the steps: of a visit for each sequence and one for each block in which none starts.
func (s Schedule) Steps() int { return (s.Blocks + s.Sequences + s.Places - 1) / s.Places }

// segments bounds the visits.
func (s Schedule) segments() int { return s.Steps() * s.Places }

// Entry is the index of an entry of the table: column, place in the step, sequential axis.
func (s Schedule) Entry(column, place int) ir.Index {
	x := ir.IndexTable(2, 0)
	x.Const = (1+column)*Stride(s.segments(), s.Kernel) + place*s.Steps()
	return x
}

// Make makes the schedule of sequences [sequences] from begin to end, and of a pool of its slots: the table, in i32 the steps that there
// are, as often as there may be visits, then for each of the columns and each place in a step the entries of the steps; and the
// marks [visits, Rows, Chunk] i32. Blocks of the table exist even where sequences do not ascend.
func (s Schedule) Make(b *ir.Builder, begin, end *ir.Value, slots *Slots) (table, marked *ir.Value) {
	l := Lists{b, s.Kernel}
	n, nb, m, c := s.Sequences, s.Blocks, s.Places, s.Chunk
	steps, visits, wide := s.Steps(), s.segments(), l.stride(s.segments())
	i32 := func(shape ...int) ir.Type { return ir.T(ir.I32, shape...) }
	one, plus, over, before := l.One, l.Plus, l.Over, l.Before

	home := b.Min(b.Div(begin, b.Like(begin, float64(c))), b.Like(begin, float64(nb-1))) // the block of the first token
	prior := before(home)
	seq := b.Iota(home.Type, 0)
	gap := b.Sub(home, prior)
	between := b.Max(gap, b.Min(seq, b.Like(seq, 1))) // visits from the one that enters the sequence before
	later := b.Sub(between, gap)                      // 1 where that one starts in the same block
	enter := over(b.Iota(l.square(n, n)), ir.LE, seq, between)
	if s.Spare > 0 {
		spare := b.And(b.Compare(ir.LT, slots.To, b.Like(begin, 0)), b.Compare(ir.GE, begin, b.Like(begin, float64(s.Spare))))
		enter, later = b.Select(spare, b.Like(enter, float64(3*visits)), enter), b.Select(spare, b.Like(later, 0), later)
	}

	// The table, by places and steps. Blocks exist even where cu_seqlens does not ascend.
	order := func(t ir.Type, axis int) *ir.Value {
		entry := b.Iota(t, axis)
		visit := b.Scale(entry, float64(m))
		for place := 1; place < m; place++ {
			visit = b.Sub(visit, b.Scale(one(b.Compare(ir.GE, entry, b.Like(entry, float64(place*steps)))), float64(visits-1)))
		}
		return visit
	}
	visit, each := order(i32(wide), 0), order(l.square(wide, n))
	none, zero, tail := b.Like(visit, -1), b.Like(visit, 0), b.Like(visit, float64(nb-1))
	block := b.Sub(visit, over(each, ir.LE, enter, later))
	idle := b.Compare(ir.GT, block, tail) // visits behind the last
	block = b.Max(b.Min(block, tail), zero)
	next := b.Max(plus(over(each, ir.LE, enter, b.Like(enter, 1)), -1), zero) // the sequence entered last
	entered := b.Compare(ir.GT, over(each, ir.EQ, enter, b.Like(enter, 1)), zero)
	closed := b.Select(entered, plus(next, -1), none) // a visit that enters one closes the one before
	stays := b.Compare(ir.GT, over(plus(each, 1), ir.EQ, enter, later), zero)
	done := b.Select(b.Or(idle, stays), none, block)
	// How many steps there are is a sum for each visit, as the others are, though all are the same: a number alone would leave vector memory to be computed
	// with, and come back, each by way of main memory. The condition, which always holds, keeps the compiler from finding that out.
	extra := over(plus(each, visits), ir.LE, enter, later)
	live := b.Bitcast(plus(extra, nb+m-1), ir.U32)
	live = b.Bitcast(b.Div(live, b.Like(live, float64(m))), ir.I32)
	live = b.Min(live, b.Like(live, float64(steps)))
	entry := b.Iota(i32(wide), 0) // of its steps this column has one place
	last := b.Select(b.Compare(ir.EQ, entry, plus(live, -1)), b.Like(entry, float64(n-1)), none)
	// latest is x of the sequence entered last, of each visit: what sequences add to it sums up over those that were entered.
	latest := func(each *ir.Value, cmp ir.Cmp, x *ir.Value) *ir.Value {
		return over(each, cmp, enter, b.Sub(x, before(x)))
	}
	if slots != nil { // counted from 1, so that 0 is what no sequence has
		to := plus(slots.To, 1)
		next = latest(each, ir.LE, slots.From)
		closed = b.Select(entered, plus(latest(each, ir.LE, before(to)), -1), none)
		last = b.Select(b.Compare(ir.EQ, entry, plus(live, -1)), plus(latest(plus(each, visits), ir.LE, to), -1), none)
	}
	columns := []*ir.Value{Block: block, Next: next, Done: done, Closed: closed, Last: last}

	// Marks, by visits. One that enters no sequence has its rows behind the last.
	visit, each = b.Iota(i32(wide), 0), b.Iota(l.square(wide, n))
	entering := func(x *ir.Value) *ir.Value { return over(each, ir.EQ, enter, x) }
	behind := float64(c + 1)
	base := b.Scale(home, float64(c))
	start, stop := b.Sub(begin, base), b.Min(b.Sub(end, base), b.Like(base, float64(c)))
	from := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(start, behind), start)))
	to := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(stop, behind), stop)))
	idle = b.Compare(ir.GE, b.Sub(visit, over(each, ir.LE, enter, later)), b.Like(visit, float64(nb)))
	first := b.Select(idle, b.Like(visit, float64(c)), entering(b.Mul(later, start)))
	keep := b.Like(visit, 1)
	if s.Drop {
		keep = one(b.Compare(ir.GT, to, from))
	}
	marks := []*ir.Value{First: first, From: from, To: to, Keep: keep}
	if slots != nil {
		skips := one(b.Compare(ir.LT, slots.To, b.Like(slots.To, 0)))
		beyond := func(mark, skipped *ir.Value) *ir.Value {
			return b.Select(b.Compare(ir.GT, skipped, zero), b.Like(mark, behind), mark)
		}
		marks = append(marks, beyond(first, latest(each, ir.LT, skips)), beyond(from, entering(skips)))
		if slots.Fresh != nil {
			marks = append(marks, entering(one(slots.Fresh)))
		}
	}
	return l.Table(append([]*ir.Value{live}, columns...)...), l.spread(visits, c, marks)
}

// spread makes tiles [visits, Rows, c] of marks [visits], or of more of which those are the first, each throughout its row. What is spread is a word of
// marksOfWord a visit, of which each row takes its bits, or two where there are more marks: a number of a vector comes to a tile by the unit that moves
// lanes, and one word for each mark would take as many times as long.
func (l Lists) spread(visits, c int, of []*ir.Value) *ir.Value {
	bits := 1
	for 1<<bits < c+2 { // the largest mark is c + 1
		bits++
	}
	tall := ir.T(ir.I32, visits, Rows, c)
	row := l.Iota(tall, 1)
	word := func(of []*ir.Value) *ir.Value {
		x := of[0]
		for i, y := range of[1:] {
			x = l.Add(x, l.Scale(y, float64(int(1)<<(bits*(i+1)))))
		}
		return l.Tall(l.From(x, 0, visits), Rows, c)
	}
	words := word(of[:min(len(of), marksOfWord)])
	by := l.And(l.Scale(row, float64(bits)), l.Like(row, 31))
	if len(of) > marksOfWord {
		words = l.Select(l.Compare(ir.LT, row, l.Like(row, marksOfWord)), words, word(of[marksOfWord:]))
		by = l.Scale(l.And(row, l.Like(row, marksOfWord-1)), float64(bits))
	}
	return l.And(l.Binary(ir.OpShr, words, by), l.Like(row, float64(int(1)<<bits-1)))
}

// marksOfWord is how many marks a word has; of the last one, which is 0 or 1, a bit is enough.
const marksOfWord = 4

// Marks are the marks of the visits of a step, a tile [Rows, Chunk] for each.
type Marks struct {
	*ir.Builder
	Tiles []*ir.Value
	Pool  bool // sequences may be skipped
}

// Sides are the marks of the first row, and of the first behind it, of the open sequence and of the next one.
func (m *Marks) Sides() [2][2]int {
	if m.Pool {
		return [2][2]int{{Open, From}, {Enter, To}}
	}
	return [2][2]int{{First, From}, {From, To}}
}

// At is a mark of a visit throughout a [rows, lanes] tile.
func (m *Marks) At(visit, mark, rows, lanes int) *ir.Value {
	x := m.Tiles[visit]
	if lanes <= x.Type.Shape[1] {
		x = m.Slice(x, []int{mark, 0}, []int{mark + 1, lanes})
	} else {
		x = m.Slice(x, []int{mark, 0}, []int{mark + 1, 1})
	}
	return m.Broadcast(x.Called(names[mark]), []int{rows, lanes}, 0, 1).Called(names[mark])
}

// Within says which of the tokens i, an index [rows, lanes], are from one mark of a visit on, and
// before another.
func (m *Marks) Within(visit, from, to int, i *ir.Value) *ir.Value {
	rows, lanes := i.Type.Shape[0], i.Type.Shape[1]
	return m.And(m.Compare(ir.GE, i, m.At(visit, from, rows, lanes)), m.Compare(ir.LT, i, m.At(visit, to, rows, lanes)).Called("before")).Called("own")
}

// Together says where pairs of tokens of a visit, a row and a lane [rows, lanes], are of one
// sequence, if the lane is not after the row; rows before the first of the visit are of none, nor are those of a sequence that is skipped. Of a
// lane after its row it says anything.
func (m *Marks) Together(visit int, row, lane *ir.Value) *ir.Value {
	rows, lanes := row.Type.Shape[0], row.Type.Shape[1]
	from := m.At(visit, From, rows, lanes)
	open := m.Compare(ir.GT, from, row).Called("is_open") // not in the words of Within: a condition is no tile that could pass between phases
	sides := m.Sides()
	return m.Compare(ir.GE, lane, m.Select(open, m.At(visit, sides[0][0], rows, lanes), m.At(visit, sides[1][0], rows, lanes)).Called("own_first"))
}
