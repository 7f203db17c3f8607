// Package segments schedules packed sequences by aligned blocks, and marks the sequence of each token of
// a block.
//
// A visit is a block of tokens with two of its sequences: the one open when the visit
// begins, and the next one, open when it ends. There is a visit for each block, and one
// more for each sequence that starts in the same block as the sequence before it. A step of a grid takes
// several visits, one in each of its places.
//
// Example: sequences of 5, 2 and 6 tokens in blocks of 8 take four visits.
//
//	visit  block  open      next      first  from  to   output done  state done
//	0      0      (none)    0         0      0     5    none         none
//	1      0      0         1         5      5     7    none         0
//	2      0      1         2         7      7     8    0            1
//	3      1      2         (none)    0      9     9    1            2, as the last
//
// Visit 1 has no rows of sequence 0, since visit 0 had all of them: its new rows begin at first.
package segments

import "github.com/gdngen/gdngen/ir"

// Marks of a visit, rows of an i32 tile, each row filled with one number. Marks after Keep are for pools only.
const (
	First = iota // the first row of the visit: rows of the open sequence from here on
	From         // the first row of the next sequence; beyond the block if there is none
	To           // the end (exclusive) of the next sequence
	Keep         // 0 if the state of the next sequence becomes zero: it has no tokens, and empty=zero; or Began (Schedule.Began)
	Open         // like First, but beyond the block if the open sequence is skipped, so that it has no rows
	Enter        // like From, but beyond the block if the next sequence is skipped
	Fresh        // 1 if the next sequence starts from zeros
	Given        // the rows of the block before this one already have outputs
)

// Began is the row in which the open sequence began, 0 if that was in an earlier block. It takes the place of Keep.
const Began = Keep

// names are the names of marks in a kernel.
var names = [...]string{First: "first", From: "border", To: "end", Keep: "kept", Open: "open_first", Enter: "next_first", Fresh: "fresh", Given: "given"}

// Rows of a tile of marks fill a register.
const Rows = 8

// Columns of the table. -1 means none.
const (
	Block  = iota // the block of tokens of a visit
	Next          // the sequence open at its end; with a pool, its initial state
	Done          // the block whose output is complete after the visit
	Closed        // the sequence whose state is final after the visit; with a pool, the state that it writes
	Last          // the same for the state that the step leaves open; in one place only
)

// Slots are the pool states [sequences] i32 that sequences start from and write, -1 for none. A sequence that writes none
// is skipped: its outputs are zeros. Every sequence reads some state, which no other sequence may write meanwhile.
type Slots struct {
	From, To *ir.Value
	Fresh    *ir.Value // bool: sequences that start from zeros; nil: none
	Given    *ir.Value // [1], at most MostGiven: the number of first tokens that already have outputs; nil: none
}

// Schedule has the parameters of a schedule of visits, except cu_seqlens.
type Schedule struct {
	Sequences, Blocks int
	Chunk             int  // tokens of a block
	Places            int  // visits of a step
	Drop              bool // final states of sequences without tokens are zero
	Spare             int  // 0, or the first token of spare sequences: skipped ones that begin there have no visit, but the first if Began
	Began             bool // the marks have Began in place of Keep; every sequence that ends before its block does is closed by a next one
	Skip              bool // blocks before that of the first sequence have no visit, and no output
	Kernel            bool // a kernel makes it
}

// Steps returns an upper bound on the steps: a visit for each sequence and one for each block in which none starts.
func (s Schedule) Steps() int { return (s.Blocks + s.Sequences + s.Places - 1) / s.Places }

// segments returns an upper bound on the visits.
func (s Schedule) segments() int { return s.Steps() * s.Places }

// Entry returns the index of an entry of the table: column, place in the step, sequential axis.
func (s Schedule) Entry(column, place int) ir.Index {
	x := ir.IndexTable(2, 0)
	x.Const = (1+column)*Stride(s.segments(), s.Kernel) + place*s.Steps()
	return x
}

// Make returns the schedule of sequences from begin to end [sequences], with a pool of its slots. The table i32 has the number of steps,
// repeated for each possible visit, then for each column and each place in a step one entry per step. The
// marks are [visits, Rows, Chunk] i32. Blocks in the table are valid even if sequences do not ascend.
func (s Schedule) Make(b *ir.Builder, begin, end *ir.Value, slots *Slots) (table, marked *ir.Value) {
	l := Lists{b, s.Kernel}
	n, nb, m, c := s.Sequences, s.Blocks, s.Places, s.Chunk
	steps, visits, wide := s.Steps(), s.segments(), l.stride(s.segments())
	i32 := func(shape ...int) ir.Type { return ir.T(ir.I32, shape...) }
	one, plus, over, before := l.One, l.Plus, l.Over, l.Before

	home := b.Min(b.Div(begin, b.Like(begin, float64(c))), b.Like(begin, float64(nb-1))) // the block of the first token
	seen := home                                                                         // counted from the first block that has a visit
	if s.Skip {
		seen = b.Sub(home, l.Number(home, 0, n))
	}
	prior := before(seen)
	seq := b.Iota(home.Type, 0)
	gap := b.Sub(seen, prior)
	between := b.Max(gap, b.Min(seq, b.Like(seq, 1))) // visits since the visit that enters the previous sequence
	later := b.Sub(between, gap)                      // 1 if that sequence starts in the same block
	enter := over(b.Iota(l.square(n, n)), ir.LE, seq, between)
	if s.Spare > 0 {
		spare := b.And(b.Compare(ir.LT, slots.To, b.Like(begin, 0)), b.Compare(ir.GE, begin, b.Like(begin, float64(s.Spare))))
		if s.Began && s.Spare%c > 0 {
			spare = b.And(spare, b.Compare(ir.GT, before(one(spare)), b.Like(begin, 0)))
		}
		enter, later = b.Select(spare, b.Like(enter, float64(3*visits)), enter), b.Select(spare, b.Like(later, 0), later)
	}

	// The table, by places and steps. Blocks are valid even if cu_seqlens does not ascend.
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
	counted := func(visit *ir.Value) *ir.Value { // from the first visited block
		if s.Skip {
			return b.Add(visit, l.Number(home, 0, wide))
		}
		return visit
	}
	block := counted(b.Sub(visit, over(each, ir.LE, enter, later)))
	idle := b.Compare(ir.GT, block, tail) // visits after the last
	block = b.Max(b.Min(block, tail), zero)
	next := b.Max(plus(over(each, ir.LE, enter, b.Like(enter, 1)), -1), zero) // the sequence entered last
	entered := b.Compare(ir.GT, over(each, ir.EQ, enter, b.Like(enter, 1)), zero)
	closed := b.Select(entered, plus(next, -1), none) // a visit that enters a sequence closes the previous one
	stays := b.Compare(ir.GT, over(plus(each, 1), ir.EQ, enter, later), zero)
	done := b.Select(b.Or(idle, stays), none, block)
	// The number of steps is computed as a sum for each visit, like other values, though all are equal: a scalar would be computed outside of vector memory
	// and pass through HBM both ways. The condition, which always holds, hides the equality from the compiler.
	extra := over(plus(each, visits), ir.LE, enter, later)
	if s.Skip {
		extra = b.Sub(extra, l.Number(home, 0, wide))
	}
	live := b.Bitcast(plus(extra, nb+m-1), ir.U32)
	live = b.Bitcast(b.Div(live, b.Like(live, float64(m))), ir.I32)
	live = b.Min(live, b.Like(live, float64(steps)))
	entry := b.Iota(i32(wide), 0) // of its steps this column has one place
	last := b.Select(b.Compare(ir.EQ, entry, plus(live, -1)), b.Like(entry, float64(n-1)), none)
	// latest returns x of the sequence entered last, for each visit: differences of x are summed over the entered sequences.
	latest := func(each *ir.Value, cmp ir.Cmp, x *ir.Value) *ir.Value {
		return over(each, cmp, enter, b.Sub(x, before(x)))
	}
	if slots != nil { // counted from 1, so that 0 means no sequence
		to := plus(slots.To, 1)
		next = latest(each, ir.LE, slots.From)
		closed = b.Select(entered, plus(latest(each, ir.LE, before(to)), -1), none)
		last = b.Select(b.Compare(ir.EQ, entry, plus(live, -1)), plus(latest(plus(each, visits), ir.LE, to), -1), none)
	}
	columns := []*ir.Value{Block: block, Next: next, Done: done, Closed: closed, Last: last}

	// Marks, by visits. A visit that enters no sequence has its rows beyond the block.
	visit, each = b.Iota(i32(wide), 0), b.Iota(l.square(wide, n))
	entering := func(x *ir.Value) *ir.Value { return over(each, ir.EQ, enter, x) }
	behind := float64(c + 1)
	base := b.Scale(home, float64(c))
	start, stop := b.Sub(begin, base), b.Min(b.Sub(end, base), b.Like(base, float64(c)))
	from := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(start, behind), start)))
	to := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(stop, behind), stop)))
	block = counted(b.Sub(visit, over(each, ir.LE, enter, later)))
	idle = b.Compare(ir.GE, block, b.Like(block, float64(nb)))
	first := b.Select(idle, b.Like(visit, float64(c)), entering(b.Mul(later, start)))
	keep := s.kept(l, from, to, func() *ir.Value { return entering(b.Mul(later, before(start))) })
	marks := []*ir.Value{First: first, From: from, To: to, Keep: keep}
	if slots != nil {
		skips := one(b.Compare(ir.LT, slots.To, b.Like(slots.To, 0)))
		beyond := func(mark, skipped *ir.Value) *ir.Value {
			return b.Select(b.Compare(ir.GT, skipped, zero), b.Like(mark, behind), mark)
		}
		marks = append(marks, beyond(first, latest(each, ir.LT, skips)), beyond(from, entering(skips)))
		marks = l.rest(marks, slots, entering, block)
	}
	return l.Table(append([]*ir.Value{live}, columns...)...), l.spread(visits, c, marks)
}

// kept returns the marks Keep of visits, or Began, whose function is given.
func (s Schedule) kept(l Lists, from, to *ir.Value, began func() *ir.Value) *ir.Value {
	keep := l.Like(from, 1)
	switch {
	case s.Began:
		keep = began()
	case s.Drop:
		keep = l.One(l.Compare(ir.GT, to, from))
	}
	return keep
}

// rest appends the marks Fresh and Given of visits with these blocks. entering returns x of the sequence that a visit enters.
func (l Lists) rest(marks []*ir.Value, slots *Slots, entering func(x *ir.Value) *ir.Value, block *ir.Value) []*ir.Value {
	if slots.Fresh != nil {
		marks = append(marks, entering(l.One(slots.Fresh)))
	}
	if slots.Given != nil {
		zeros := l.Like(block, 0)
		for len(marks) < Given {
			marks = append(marks, zeros)
		}
		marks = append(marks, l.Select(l.Compare(ir.EQ, block, zeros), l.Number(slots.Given, 0, block.Type.Shape[0]), zeros))
	}
	return marks
}

// spread makes tiles [visits, Rows, c] from marks [visits] (of may have further visits), each filling its row. It broadcasts words with marksOfWord marks,
// from which each row extracts its bits, and a second word if there are more marks. The XLU broadcasts each number to a tile, and one word for each
// mark would take several times as long.
func (l Lists) spread(visits, c int, of []*ir.Value) *ir.Value {
	bits := bitsOf(c)
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

// bitsOf returns the bits of a mark.
func bitsOf(c int) int {
	bits := 1
	for 1<<bits < c+2 { // the largest mark is c + 1
		bits++
	}
	return bits
}

// MostGiven returns the largest Given: it is the last mark of a word, and has the bits that the others leave.
func MostGiven(c int) int { return min(c, 1<<(31-(marksOfWord-1)*bitsOf(c))-1) }

// marksOfWord is the number of marks in a word.
const marksOfWord = 4

// Marks are the marks of the visits of a step, a tile [Rows, Chunk] for each.
type Marks struct {
	*ir.Builder
	Tiles []*ir.Value
	Pool  bool // sequences may be skipped
	Began bool // they have Began in place of Keep
}

// Sides returns the marks of the first row and of the end, for the open sequence and for the next one.
func (m *Marks) Sides() [2][2]int {
	if m.Pool {
		return [2][2]int{{Open, From}, {Enter, To}}
	}
	return [2][2]int{{First, From}, {From, To}}
}

// At returns a mark of a visit as a filled [rows, lanes] tile.
func (m *Marks) At(visit, mark, rows, lanes int) *ir.Value {
	x := m.Tiles[visit]
	if lanes <= x.Type.Shape[1] {
		x = m.Slice(x, []int{mark, 0}, []int{mark + 1, lanes})
	} else {
		x = m.Slice(x, []int{mark, 0}, []int{mark + 1, 1})
	}
	return m.Broadcast(x.Called(names[mark]), []int{rows, lanes}, 0, 1).Called(names[mark])
}

// Within returns which tokens i, an index [rows, lanes], lie between two marks of a visit: from the first one on and
// before the second.
func (m *Marks) Within(visit, from, to int, i *ir.Value) *ir.Value {
	rows, lanes := i.Type.Shape[0], i.Type.Shape[1]
	return m.And(m.Compare(ir.GE, i, m.At(visit, from, rows, lanes)), m.Compare(ir.LT, i, m.At(visit, to, rows, lanes)).Called("before")).Called("own")
}

// Together returns which pairs of tokens of a visit, row and lane [rows, lanes], are in one sequence, for lanes not after the row. Rows before
// the first of the visit, and rows of a skipped sequence, are in none. For a
// lane after its row the result is arbitrary.
func (m *Marks) Together(visit int, row, lane *ir.Value) *ir.Value {
	rows, lanes := row.Type.Shape[0], row.Type.Shape[1]
	from := m.At(visit, From, rows, lanes)
	open := m.Compare(ir.GT, from, row).Called("is_open") // not in the words of Within: a condition is no tile that could pass between phases
	sides := m.Sides()
	return m.Compare(ir.GE, lane, m.Select(open, m.At(visit, sides[0][0], rows, lanes), m.At(visit, sides[1][0], rows, lanes)).Called("own_first"))
}
