// Package pool finds and writes states in a pool. A spec with a pool has [P, Hv, ...] states. state_indices are the
// states that sequences write, read_indices, if present, the states from which they start. An index outside of the pool
// counts as -1, so that a sequence with a wrong index does not touch another's state.
package pool

import (
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Of has the state indices of a call's N sequences: state_indices (-1: the sequence is skipped), and read_indices (-1: it starts from zeros), or nil if
// sequences start from the states that they write.
type Of struct {
	Written, Read *ir.Value // [N] i32
	Group         int       // states that a sequence writes: Written has indices of groups of this many
	States        int       // in the pool
	Clean         bool      // Read is -1 wherever Written has no state
}

// From returns the index of each sequence's initial state; gathering by it gives zeros for -1.
func (o Of) From() *ir.Value {
	if o.Read != nil {
		return o.Read
	}
	return o.Written
}

// Held returns which sequences have a state.
func (o Of) Held(b *ir.Builder) *ir.Value { return o.Names(b, o.Written) }

// Names returns which elements of x, of any type, are valid indices for Written.
func (o Of) Names(b *ir.Builder, x *ir.Value) *ir.Value {
	return b.And(b.Compare(ir.GE, x, b.Like(x, 0)), b.Compare(ir.LT, x, b.Like(x, float64(o.States/o.Group))))
}

// most returns the maximum of x along a dimension.
func most(b *ir.Builder, x *ir.Value, dim int) *ir.Value {
	return b.Append(ir.OpReduceMax, []*ir.Value{x}, ir.Attrs{Dims: []int{dim}}, nil)[0]
}

// Into returns the pool with the final states x [N, ...] of the sequences written into it.
func (o Of) Into(b *ir.Builder, pool, x *ir.Value) *ir.Value {
	ids := ir.T(ir.I32, x.Type.Shape[0], pool.Type.Shape[0])
	hit := b.Compare(ir.EQ, b.Broadcast(o.Written, ids.Shape, 0), b.Iota(ids, 1))
	from := most(b, b.Select(hit, b.Iota(ids, 0), b.Const(ids, -1)), 0)
	held := b.Broadcast(b.Compare(ir.GE, from, b.Like(from, 0)), pool.Type.Shape, 0)
	return b.Select(held, b.GatherRows(x, from, 0), pool)
}

// The tables of a grid.
const (
	TableWritten = iota // the state to write
	TableFrom           // the state to read, if it has its own index
)

// Tables returns the state indices for a grid's windows: -1 for sequences without a state, and in the reads also for sequences that start from zeros.
func (o Of) Tables(b *ir.Builder) []*ir.Value {
	lists := []*ir.Value{o.Written}
	switch {
	case o.Read != nil && o.Clean:
		lists = append(lists, o.Read)
	case o.Read != nil:
		lists = append(lists, b.Select(o.Held(b), o.Read, b.Like(o.Read, -1)))
	}
	return lists
}

// Slots returns the states that sequences read and write, for a schedule of visits, which reads a state for each
// sequence. A fresh sequence without a state to read reads the state that it writes. A skipped one reads a state that
// no sequence names, so that no state is read while it is written. That state is among the first N if the pool has at
// least N states, so the work does not depend on the pool's size.
//
//	eight states, sequences that write 7 -1 5 and start from 4 9 -1:   From 4 2 5   To 7 -1 5
func (o Of) Slots(l segments.Lists) *segments.Slots {
	held := o.Held(l.Builder)
	x := &segments.Slots{To: l.Select(held, o.Written, l.Like(o.Written, -1))}
	x.From = x.To
	if o.Read != nil {
		x.Fresh = l.Or(l.Compare(ir.LT, o.Read, l.Like(o.Read, 0)), l.Compare(ir.GE, o.Read, l.Like(o.Read, float64(o.States))))
		x.From = l.Select(x.Fresh, x.To, o.Read)
	}
	n := x.To.Type.Shape[0]
	slot := l.Count(min(n, o.States))
	named := l.Over(slot, ir.EQ, x.To, l.Like(x.To, 1))
	free := l.Most(l.Select(l.Compare(ir.GT, named, l.Like(named, 0)), l.Like(slot, -1), slot), n)
	x.From = l.Select(held, x.From, free)
	return x
}

// Ends returns n states of each batch row, [B n, Hv, R, L], from the states after each chunk, [B, chunks, heads..., R, L]: one after every
// every chunks.
func Ends(b *ir.Builder, x *ir.Value, headsV, n, every int) *ir.Value {
	batch, tile := x.Type.Shape[0], x.Type.Shape[x.Type.Rank()-2:]
	x = b.Reshape(b.SliceAxis(x, 1, 0, n*every), batch*n, every, headsV, tile[0], tile[1])
	return b.Reshape(b.SliceAxis(x, 1, every-1, every), batch*n, headsV, tile[0], tile[1])
}
