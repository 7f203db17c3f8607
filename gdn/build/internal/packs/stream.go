package packs

import "github.com/gdngen/gdngen/ir"

// Steps is a schedule of packed sequences as a stream of chunks: the chunks of each step,
// i32. A chunk is a slice of the tokens in place, so nothing is gathered.
//
// Example: sequences of 5, 2 and 3 tokens in chunks of 4, one chunk a step. Slices stay inside the
// ten tokens, so the last begins at token 6, and the chunk is its second to fourth row.
//
//	step   sequence   start   rows lo..hi
//	0      0          0       0..5, of which the slice has 4
//	1      0          4       0..1
//	2      1          5       0..2
//	3      2          6       1..4
type Steps struct {
	Batch  int       // sequences of a step
	M      int       // chunks of a step
	Steps  int       // upper bound of the number of steps
	Used   *ir.Value // the number of steps, a scalar
	Seq    *ir.Value // [steps m]: the sequence of each chunk
	Start  *ir.Value // the first token of its slice
	Lo, Hi *ir.Value // its rows of the slice; none if there is no chunk
	First  int       // number of chunks of earlier schedules, whose gates come first

	// If steps come in rounds, each with its own sequences, whose states are read before the
	// first step and written after the last: the number of rounds, the most steps of one, and [rounds]
	// the first step and the number of steps of each.
	Rounds, Longest int
	Begins, Lasts   *ir.Value
}

// Rows returns the number of tokens, at least one chunk.
func (p Chunking) Rows() int { return max(p.Tokens, p.Chunk) }

// OneByOne schedules one chunk after another, m in a step.
func (p Chunking) OneByOne(begin, end *ir.Value, m int) *Steps {
	b := p.Builder
	k := p.Of(begin, end)
	x := p.slices(k.Table, k.At, k.End)
	n := b.Sum(p.Count(k.Length), 0)
	x.Batch, x.M, x.Steps = 1, m, p.Chunks/m
	x.Used = b.Div(b.Add(n, b.Like(n, float64(m-1))), b.Like(n, float64(m)))
	return x
}

// slices returns slices of at most a chunk of tokens at .. end-1, for sequences at the
// given first tokens.
func (p Chunking) slices(seq, at, end *ir.Value) *Steps {
	b := p.Builder
	start := b.Min(at, b.Like(at, float64(p.Rows()-p.Chunk)))
	return &Steps{Seq: seq, Start: start, Lo: b.Sub(at, start), Hi: b.Sub(end, start)}
}

// Rounds schedules the sequences in rounds of m of similar length, the shortest first, and returns how many
// chunks of each are taken, [Seqs]. A round ends when more than a quarter of its places would
// idle.
//
// Example: sequences a to e of 9, 2, 5, 13 and 1 tokens in chunks of 4, four interleaved. By number
// of chunks the order is b e c a d, with 1 1 2 3 4. Two rounds have three unused places, which come
// first; one place of four may idle.
//
//	round   places        chunks     steps
//	0       -  -  -  b    0 0 0 1    0: the second place has none
//	1       e  c  a  d    1 2 3 4    2, as many as c: e idles for one
//
// The rest of b, a and d, 1, 1 and 2 chunks, is taken one by one.
func (p Chunking) Rounds(begin, end *ir.Value, m int) (x *Steps, taken *ir.Value) {
	b, n := p.Builder, begin.Type.Shape[0]
	rounds := (n + m - 1) / m
	spare := rounds*m - n // places of the first round without a sequence
	few := m / 4          // the most sequences of a round that may idle
	vec := func(k int) ir.Type { return ir.T(ir.I32, k) }
	count := func(hit, of *ir.Value) *ir.Value { // sums of hits over the last axis
		return b.Sum(b.Select(hit, of, b.Like(of, 0)), 1)
	}

	// The rank of each sequence by length, and the sequence of each rank.
	chunks := p.Count(b.Sub(end, begin))
	sq := ir.T(ir.I32, n, n)
	own, other := b.Broadcast(chunks, sq.Shape, 0), b.Broadcast(chunks, sq.Shape, 1)
	earlier := b.And(b.Compare(ir.EQ, other, own), b.Compare(ir.LT, b.Iota(sq, 1), b.Iota(sq, 0)))
	place := count(b.Or(b.Compare(ir.LT, other, own), earlier), b.Const(sq, 1))
	place = b.Add(place, b.Like(place, float64(spare)))
	places := ir.T(ir.I32, rounds*m, n)
	hit := b.Compare(ir.EQ, b.Broadcast(place, places.Shape, 1), b.Iota(places, 0))
	order, most := count(hit, b.Iota(places, 1)), count(hit, b.Broadcast(chunks, places.Shape, 1))

	// A round has as many steps as the sequence in place few: sequences before it finish earlier and idle.
	steps := b.Reshape(b.SliceAxis(b.Reshape(most, rounds, m), 1, few, few+1), rounds)
	until := b.Cumsum(steps, 0)
	x = &Steps{Batch: m, M: m, Steps: p.Chunks/(m-few) + 1, Rounds: rounds, Longest: (p.Tokens + p.Chunk - 1) / p.Chunk, Begins: b.Sub(until, steps), Lasts: steps}
	x.Used = b.Sum(steps, 0)
	round := b.Min(p.NotAfter(until, x.Steps), b.Const(vec(x.Steps), float64(rounds-1)))
	local := b.Sub(b.Iota(vec(x.Steps), 0), b.GatherRows(b.Sub(until, steps), round, 0)) // index of the step in its round
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
