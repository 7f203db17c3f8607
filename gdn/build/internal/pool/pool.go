// Package pool is where the states of a pool are found and left: a spec with a pool has [P, Hv, ...] states, of which state_indices
// names those that sequences leave, and read_indices those that they start from, where the spec has it. A name that no state of the pool
// has is as -1, so that a sequence with a wrong one touches no state of another.
package pool

import (
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Of is what names the states of a call's N sequences: state_indices, -1 for a sequence that is skipped, and read_indices, -1 for one
// that starts from zeros, or nil where sequences start from what they leave.
type Of struct {
	Written, Read *ir.Value // [N] i32
	Group         int       // states that a sequence leaves: Written names groups of so many
	States        int       // of the pool
	Clean         bool      // Read has -1 where Written has no state
}

// From names the state that each sequence starts from. Rows that are gathered by it are zeros where it is -1.
func (o Of) From() *ir.Value {
	if o.Read != nil {
		return o.Read
	}
	return o.Written
}

// Held says which sequences have a state.
func (o Of) Held(b *ir.Builder) *ir.Value { return o.Names(b, o.Written) }

// Names says which elements of x, of any type, are names that Written may have.
func (o Of) Names(b *ir.Builder, x *ir.Value) *ir.Value {
	return b.And(b.Compare(ir.GE, x, b.Like(x, 0)), b.Compare(ir.LT, x, b.Like(x, float64(o.States/o.Group))))
}

// most is the largest of x along a dimension.
func most(b *ir.Builder, x *ir.Value, dim int) *ir.Value {
	return b.Append(ir.OpReduceMax, []*ir.Value{x}, ir.Attrs{Dims: []int{dim}}, nil)[0]
}

// Into puts the final states x [N, ...] of the sequences into a pool.
func (o Of) Into(b *ir.Builder, pool, x *ir.Value) *ir.Value {
	ids := ir.T(ir.I32, x.Type.Shape[0], pool.Type.Shape[0])
	hit := b.Compare(ir.EQ, b.Broadcast(o.Written, ids.Shape, 0), b.Iota(ids, 1))
	from := most(b, b.Select(hit, b.Iota(ids, 0), b.Const(ids, -1)), 0)
	held := b.Broadcast(b.Compare(ir.GE, from, b.Like(from, 0)), pool.Type.Shape, 0)
	return b.Select(held, b.GatherRows(x, from, 0), pool)
}

// Tables of a grid.
const (
	TableWritten = iota // the state that is left
	TableFrom           // the state that is read, where it has a name of its own
)

// Tables number the states of the sequences. A sequence without a state has -1, as has one that starts from zeros in what is read.
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

// Slots are the states that sequences start from and that they leave, for a schedule of their visits, which reads a state for each sequence. In place of one
// that has no name, a fresh sequence reads what it leaves its own in, and a skipped one what no sequence names: then nothing is written while it is read.
// There is such a state among the first if the pool has no fewer states than there are sequences: nothing here grows with the pool.
//
//	eight states, sequences that leave 7 -1 5 and start from 4 9 -1:   From 4 2 5   To 7 -1 5
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

// Ends takes n states of each batch row, [B n, Hv, R, L], out of those after each chunk, [B, chunks, heads..., R, L]: one after every so
// many chunks.
func Ends(b *ir.Builder, x *ir.Value, headsV, n, every int) *ir.Value {
	batch, tile := x.Type.Shape[0], x.Type.Shape[x.Type.Rank()-2:]
	x = b.Reshape(b.SliceAxis(x, 1, 0, n*every), batch*n, every, headsV, tile[0], tile[1])
	return b.Reshape(b.SliceAxis(x, 1, every-1, every), batch*n, headsV, tile[0], tile[1])
}
