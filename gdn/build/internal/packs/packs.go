// Package packs divides packed sequences, which are concatenated along the tokens, into chunks of
// tokens of one sequence each.
package packs

import "github.com/gdngen/gdngen/ir"

// Chunking is a number of chunks of Chunk tokens, enough for all sequences.
type Chunking struct {
	*ir.Builder
	Tokens, Chunks, Chunk int
}

// Slots is the division of packed sequences into chunks, each inside one sequence. Chunks beyond the last
// have no tokens and refer to the last sequence that has tokens.
type Slots struct {
	Source *ir.Value // [padded] i32: the token of each slot, or Tokens if there is none
	Valid  *ir.Value // [padded] bool
	Table  *ir.Value // [chunks] i32: the sequence of each chunk
	Slots  *ir.Value // [Tokens] i32: the slot of each token
	Seqs   *ir.Value // [Tokens] i32: the sequence of each token
}

// Slots divides packed sequences, given the first token and the end (exclusive) of each.
func (p Chunking) Slots(begin, end *ir.Value) *Slots {
	b, c := p.Builder, p.Chunk
	k := p.Of(begin, end)
	sq := ir.T(ir.I32, p.Chunks, c)
	token := b.Add(b.Broadcast(k.At, sq.Shape, 0), b.Iota(sq, 1))
	valid := b.Compare(ir.LT, token, b.Broadcast(k.End, sq.Shape, 0))
	source := b.Select(valid, token, b.Like(token, float64(p.Tokens)))

	vec := ir.T(ir.I32, p.Tokens)
	seq := p.NotAfter(k.Until, p.Tokens)
	slots := b.Add(b.Sub(b.Iota(vec, 0), b.GatherRows(k.Begin, seq, 0)),
		b.Mul(b.GatherRows(k.First, seq, 0), b.Const(vec, float64(c))))
	return &Slots{b.Reshape(source, p.Chunks*c), b.Reshape(valid, p.Chunks*c), k.Table, slots, seq}
}

// Cuts are the chunks of packed sequences. Each sequence is cut into chunks from its first token on. Chunks beyond the
// last refer to the last sequence that has tokens, and begin after its end.
type Cuts struct {
	Begin, Until, Length *ir.Value // [Seqs] i32: first token, end (exclusive), and number of tokens
	First                *ir.Value // [Seqs] i32: the first chunk
	Table                *ir.Value // [chunks] i32: the sequence of each chunk
	At, End              *ir.Value // [chunks] i32: first token of each chunk, and end of its sequence
}

// Bounds returns the first token and the end (exclusive) of each packed sequence, i32 [Seqs], from cu_seqlens.
func (p Chunking) Bounds(cu *ir.Value) (begin, end *ir.Value) {
	b, n := p.Builder, cu.Type.Shape[0]-1
	cu = b.Convert(cu, ir.I32)
	return b.SliceAxis(cu, 0, 0, n), b.SliceAxis(cu, 0, 1, n+1)
}

// Count returns the number of chunks for so many tokens, rounded up.
func (p Chunking) Count(tokens *ir.Value) *ir.Value {
	b := p.Builder
	return b.Div(b.Add(tokens, b.Like(tokens, float64(p.Chunk-1))), b.Like(tokens, float64(p.Chunk)))
}

// Of cuts the sequences given by Bounds.
func (p Chunking) Of(begin, end *ir.Value) *Cuts {
	b, n, nc, c := p.Builder, begin.Type.Shape[0], p.Chunks, p.Chunk
	length := b.Sub(end, begin)
	chunks := p.Count(length)
	until := b.Cumsum(chunks, 0) // number of chunks up to and including each sequence
	first := b.Sub(until, chunks)

	seqs := b.Iota(ir.T(ir.I32, n), 0)
	used := b.Select(b.Compare(ir.GT, chunks, b.Like(chunks, 0)), seqs, b.Like(seqs, 0))
	last := b.Append(ir.OpReduceMax, []*ir.Value{used}, ir.Attrs{Dims: []int{0}}, nil)[0]
	table := b.Min(p.NotAfter(until, nc), b.Broadcast(last, []int{nc}))
	local := b.Sub(b.Iota(ir.T(ir.I32, nc), 0), b.GatherRows(first, table, 0)) // index of the chunk in its sequence
	at := b.Add(b.GatherRows(begin, table, 0), b.Mul(local, b.Like(local, float64(c))))
	return &Cuts{Begin: begin, Until: end, Length: length, First: first, Table: table, At: at, End: b.GatherRows(end, table, 0)}
}

// NotAfter returns, for each of 0 .. k-1, how many entries of an ascending vector do not exceed it.
func (p Chunking) NotAfter(rising *ir.Value, k int) *ir.Value {
	b := p.Builder
	sq := ir.T(ir.I32, k, rising.Type.Shape[0])
	c := b.Compare(ir.LE, b.Broadcast(rising, sq.Shape, 1), b.Iota(sq, 0))
	return b.Sum(b.Select(c, b.Const(sq, 1), b.Const(sq, 0)), 1)
}
