package packs

import "github.com/gdngen/gdngen/ir"

// Steps is a schedule of packed sequences as a stream of chunks: for each step the chunks that it
// takes, i32. A chunk is a slice of the tokens as they lie, so nothing is gathered.
//
// Example: sequences of 5, 2 and 3 tokens in chunks of 4, one chunk a step. Slices stay inside the
// ten tokens, so the last begins at token 6, of whose four rows the second to fourth are its own.
//
//	step   sequence   start   rows lo..hi
//	0      0          0       0..5, of which the slice has 4
//	1      0          4       0..1
//	2      1          5       0..2
//	3      2          6       1..4
type Steps struct {
	Batch  int       // sequences of a step
	M      int       // chunks of a step
	Steps  int       // more than there ever are
	Used   *ir.Value // how many there are, a scalar
	Seq    *ir.Value // [steps m]: the sequence of each chunk
	Start  *ir.Value // first token of its slice
	Lo, Hi *ir.Value // its rows of the slice; none where there is no chunk
	First  int       // chunks of the schedules before it, whose gates come first

	// Where steps come in rounds, each with sequences of its own, whose states are read before the
	// first step and put back after the last: how many rounds, the most steps of one, and [rounds]
	// the first step of each and how many it has.
	Rounds, Longest int
	Begins, Lasts   *ir.Value
}

// Rows is the number of tokens with those that fill the first chunk.
func (p Chunking) Rows() int { return max(p.Tokens, p.Chunk) }

// OneByOne takes one chunk after another, m in a step.
func (p Chunking) OneByOne(begin, end *ir.Value, m int) *Steps {
	b := p.Builder
	k := p.Of(begin, end)
	x := p.slices(k.Table, k.At, k.End)
	n := b.Sum(p.Count(k.Length), 0)
	x.Batch, x.M, x.Steps = 1, m, p.Chunks/m
	x.Used = b.Div(b.Add(n, b.Like(n, float64(m-1))), b.Like(n, float64(m)))
	return x
}

// slices are the slices of the tokens at .. end-1 of sequences that begin with token at, at most a
// chunk of each.
func (p Chunking) slices(seq, at, end *ir.Value) *Steps {
	b := p.Builder
	start := b.Min(at, b.Like(at, float64(p.Rows()-p.Chunk)))
	return &Steps{Seq: seq, Start: start, Lo: b.Sub(at, start), Hi: b.Sub(end, start)}
}

// Rounds takes the sequences in rounds of m of like length, the shortest first, and says how many
// chunks of each are taken, [Seqs]: a round ends where more than a quarter of its places would wait
// for the others.
//
// Example: sequences a to e of 9, 2, 5, 13 and 1 tokens in chunks of 4, four interleaved. In the order
// of their chunks they are b e c a d, of 1 1 2 3 4. Two rounds have three places too many, which come
// first; one place of four may wait.
//
//	round   places        chunks     steps
//	0       -  -  -  b    0 0 0 1    0: the second place has none
//	1       e  c  a  d    1 2 3 4    2, those of c: e waits for one
//
// Of b, a and d what is left, 1, 1 and 2 chunks, is taken one by one.
func (p Chunking) Rounds(begin, end *ir.Value, m int) (x *Steps, taken *ir.Value) {
	b, n := p.Builder, begin.Type.Shape[0]
	rounds := (n + m - 1) / m
	spare := rounds*m - n // places of the first round that no sequence has
	few := m / 4          // the most sequences that a round leaves waiting for the others
	vec := func(k int) ir.Type { return ir.T(ir.I32, k) }
	count := func(hit, of *ir.Value) *ir.Value { // sums of what is hit, over the last axis
		return b.Sum(b.Select(hit, of, b.Like(of, 0)), 1)
	}

	// The place of each sequence in the order of length, and what is in each place.
	chunks := p.Count(b.Sub(end, begin))
	sq := ir.T(ir.I32, n, n)
	own, other := b.Broadcast(chunks, sq.Shape, 0), b.Broadcast(chunks, sq.Shape, 1)
	earlier := b.And(b.Compare(ir.EQ, other, own), b.Compare(ir.LT, b.Iota(sq, 1), b.Iota(sq, 0)))
	place := count(b.Or(b.Compare(ir.LT, other, own), earlier), b.Const(sq, 1))
	place = b.Add(place, b.Like(place, float64(spare)))
	places := ir.T(ir.I32, rounds*m, n)
	hit := b.Compare(ir.EQ, b.Broadcast(place, places.Shape, 1), b.Iota(places, 0))
	order, most := count(hit, b.Iota(places, 1)), count(hit, b.Broadcast(chunks, places.Shape, 1))

	// A round has the steps of the sequence in place few: those before it are done no later, and wait.
	steps := b.Reshape(b.SliceAxis(b.Reshape(most, rounds, m), 1, few, few+1), rounds)
	until := b.Cumsum(steps, 0)
	x = &Steps{Batch: m, M: m, Steps: p.Chunks/(m-few) + 1, Rounds: rounds, Longest: (p.Tokens + p.Chunk - 1) / p.Chunk, Begins: b.Sub(until, steps), Lasts: steps}
	x.Used = b.Sum(steps, 0)
	round := b.Min(p.NotAfter(until, x.Steps), b.Const(vec(x.Steps), float64(rounds-1)))
	local := b.Sub(b.Iota(vec(x.Steps), 0), b.GatherRows(b.Sub(until, steps), round, 0)) // which step of its round
	local = b.Select(b.Compare(ir.LT, b.Iota(vec(x.Steps), 0), b.Broadcast(x.Used, []int{x.Steps})), local, b.Const(vec(x.Steps), float64(p.Chunks)))

	table := []int{x.Steps, m}
	flat := func(y *ir.Value) *ir.Value { return b.Reshape(y, x.Steps*m) }
	lane := b.Iota(ir.T(ir.I32, table...), 1)
	at := flat(b.Add(b.Mul(b.Broadcast(round, table, 0), b.Like(lane, float64(m))), lane))
	chunk := flat(b.Broadcast(local, table, 0))
	seq := b.GatherRows(order, at, 0)
	first := b.Add(b.GatherRows(begin, seq, 0), b.Mul(chunk, b.Like(chunk, float64(p.Chunk))))
	some := b.Compare(ir.LT, chunk, b.GatherRows(most, at, 0))
	y := p.slices(seq, first, b.Select(some, b.GatherRows(end, seq, 0), b.Like(first, 0)))
	x.Seq, x.Start, x.Lo, x.Hi = y.Seq, y.Start, y.Lo, y.Hi
	return x, b.Min(chunks, b.GatherRows(steps, b.Div(place, b.Like(place, float64(m))), 0))
}
