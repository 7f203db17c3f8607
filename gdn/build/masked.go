package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences as batch rows. Each row takes all tokens. Tokens of other sequences are inert in it: they are zeros with
// beta zero and decay 1, so they do not change the state, whatever their values. A token's output
// comes from its sequence's row. The work grows with sequences x tokens, but is interleaved and
// needs no table of chunks, so it pays if both are few.
//
//	sequences of 3 and 2 tokens    row 0    k0 k1 k2  0  0       o of tokens 0 1 2 from row 0,
//	                               row 1     0  0  0 k3 k4       of 3 4 from row 1
//
// Selects insert the zeros and pick the outputs, so NaN or infinities in one sequence are no
// operand of another.

// asRows reports whether packed sequences are batch rows.
func (p *plan) asRows() bool { return p.v.Mapping.Pack == gdn.PackMasked }

// own returns which of tokens tokens, with padding, belong to each sequence: bool [sequences, tokens].
func (p *plan) own(tokens int) *ir.Value {
	b := p.b
	sq := ir.T(ir.I32, p.s.Batch, tokens)
	begin, end := p.sequences()
	at := b.Iota(sq, 1)
	return b.And(b.Compare(ir.GE, at, b.Broadcast(begin, sq.Shape, 0)), b.Compare(ir.LT, at, b.Broadcast(end, sq.Shape, 0)))
}

// perSequence repeats [1, T, ...] for each sequence.
func (p *plan) perSequence(x *ir.Value) *ir.Value {
	dims := make([]int, x.Type.Rank()-1)
	for i := range dims {
		dims[i] = i + 1
	}
	shape := append([]int{p.s.Batch}, x.Type.Shape[1:]...)
	return p.b.Broadcast(p.b.Reshape(x, x.Type.Shape[1:]...), shape, dims...)
}

// ofSequences picks the output of each token from the row of its sequence: [sequences, T, ...] to
// [1, T, ...].
func (p *plan) ofSequences(x *ir.Value) *ir.Value {
	b, own := p.b, p.own(p.s.Tokens)
	y := b.SliceAxis(x, 0, 0, 1)
	for n := 1; n < p.s.Batch; n++ {
		y = b.Select(b.Broadcast(b.SliceAxis(own, 0, n, n+1), y.Type.Shape, 0, 1), b.SliceAxis(x, 0, n, n+1), y)
	}
	return y
}
