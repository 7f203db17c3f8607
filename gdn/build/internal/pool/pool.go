// Package pool is where the states of a pool are found and left: a spec with a pool has [P, Hv, ...] states, of which state_indices
// names those that sequences leave, and read_indices those that they start from, where the spec has it.
package pool

import (
	"github.com/gdngen/gdngen/ir"
)

// Of is what names the states of a call's N sequences: state_indices, -1 for a sequence that is skipped, and read_indices, -1 for one
// that starts from zeros, or nil where sequences start from what they leave.
type Of struct {
	Written, Read *ir.Value // [N] i32
	Group         int       // states that a sequence leaves: Written names groups of so many
}

// From names the state that each sequence starts from. Rows that are gathered by it are zeros where it is -1.
func (o Of) From() *ir.Value {
	if o.Read != nil {
		return o.Read
	}
	return o.Written
}

// Held says which sequences have a state.
func (o Of) Held(b *ir.Builder) *ir.Value { return b.Compare(ir.GE, o.Written, b.Like(o.Written, 0)) }

// Fresh is 1 for each sequence that starts from zeros, and 0 for others, in float32.
func (o Of) Fresh(b *ir.Builder) *ir.Value {
	zero := b.Const(ir.T(ir.F32, o.Read.Type.Shape...), 0)
	fresh := b.Select(b.Compare(ir.LT, o.Read, b.Like(o.Read, 0)), b.Like(zero, 1), zero)
	return b.Select(o.Held(b), fresh, zero)
}

// Into puts the final states x [N, ...] of the sequences into a pool.
func (o Of) Into(b *ir.Builder, pool, x *ir.Value) *ir.Value {
	ids := ir.T(ir.I32, x.Type.Shape[0], pool.Type.Shape[0])
	hit := b.Compare(ir.EQ, b.Broadcast(o.Written, ids.Shape, 0), b.Iota(ids, 1))
	from := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(hit, b.Iota(ids, 0), b.Const(ids, -1))}, ir.Attrs{Dims: []int{0}}, nil)[0]
	held := b.Broadcast(b.Compare(ir.GE, from, b.Like(from, 0)), pool.Type.Shape, 0)
	return b.Select(held, b.GatherRows(x, from, 0), pool)
}

// Tables of an Order.
const (
	TableState = iota // the state that is left
	TableRead         // the sequence that is read
	TableWrite        // the sequence whose output is written
	TableFrom         // the state that is read, where it has a name of its own
)

// Order lets the sequences of a pool follow one another, those without a state last. Their steps do what the last one with a
// state did, once more; only their outputs have places of their own.
type Order struct {
	Tables []*ir.Value // [N] i32, for each step
	Held   *ir.Value   // [N] bool: the sequence has a state
}

// Order is the order of the sequences. Where none has a state, the steps do those of the first one, which change nothing.
func (o Of) Order(b *ir.Builder) *Order {
	indices := o.Written
	n := indices.Type.Shape[0]
	square := ir.T(ir.I32, n, n)
	zero := b.Const(square, 0)
	down := func(x *ir.Value) *ir.Value { return b.Broadcast(x, square.Shape, 0) } // x of the row
	across := func(x *ir.Value) *ir.Value { return b.Broadcast(x, square.Shape, 1) }
	held := o.Held(b)
	has := b.Select(held, b.Like(indices, 1), b.Like(indices, 0))
	earlier := b.Compare(ir.LT, b.Iota(square, 1), b.Iota(square, 0))
	before := b.Sum(b.Select(earlier, across(has), zero), 1) // sequences with a state before each
	count := b.Broadcast(b.Sum(has, 0), []int{n})
	own := b.Iota(indices.Type, 0)
	at := b.Select(held, before, b.Add(count, b.Sub(own, before))) // the step of each sequence
	last := b.Max(b.Sub(count, b.Like(own, 1)), b.Like(own, 0))
	pick := func(step, x *ir.Value) *ir.Value {
		return b.Sum(b.Select(b.Compare(ir.EQ, down(at), across(step)), down(x), zero), 0)
	}
	read := b.Min(own, last)
	slot := func(x *ir.Value) *ir.Value { return b.Max(x, b.Like(x, 0)) }
	r := &Order{Held: held, Tables: []*ir.Value{TableState: pick(read, slot(indices)), TableRead: pick(read, own), TableWrite: pick(own, own)}}
	if o.Read != nil { // what is fresh fetches a state of its own, which no other sequence writes meanwhile
		own := b.Mul(slot(indices), b.Like(indices, float64(o.Group)))
		named := b.Select(held, o.Read, b.Like(indices, -1))
		r.Tables = append(r.Tables, pick(read, b.Select(b.Compare(ir.GE, named, b.Like(named, 0)), named, own)))
	}
	return r
}

// Ends takes n states of each batch row, [B n, Hv, R, L], out of those after each chunk, [B, chunks, heads..., R, L]: one after every so
// many chunks.
func Ends(b *ir.Builder, x *ir.Value, headsV, n, every int) *ir.Value {
	batch, tile := x.Type.Shape[0], x.Type.Shape[x.Type.Rank()-2:]
	x = b.Reshape(b.SliceAxis(x, 1, 0, n*every), batch*n, every, headsV, tile[0], tile[1])
	return b.Reshape(b.SliceAxis(x, 1, every-1, every), batch*n, headsV, tile[0], tile[1])
}
