package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Moves returns a module with chains of reshapes and transposes collapsed. Each value of a chain is made from the chain's source by a
// reshape, at most one transpose without dimensions of size 1, and a reshape. Compilers make copies for further transposes, and for the
// order of unit dimensions.
func Moves(m *ir.Module) (*ir.Module, error) {
	// Keys are values of the old module; a chain's source has a new value, whatever the chain goes through.
	moves := map[*ir.Value]*move{}
	return passes.Transform(m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Op != ir.OpReshape && in.Op != ir.OpTranspose {
			return nil, false
		}
		from := moves[in.Args[0]]
		if from == nil {
			from = still(in.Args[0])
		}
		next := from.then(in)
		if next == nil {
			// The chain ends at the operand, and a new one begins. A shape that no chain can express, such as one with a dimension of 0,
			// stays as it is.
			if next = still(in.Args[0]).then(in); next == nil {
				return nil, false
			}
		}
		moves[in.Result()] = next
		// Every value of a chain is made from the source, so that any can be read. If only the last is read, dce removes the others.
		return []*ir.Value{next.emit(r)}, true
	})
}

// move describes how a value's elements are ordered in a source. Reshapes split and join its factors (parts), transposes permute them.
// Example:
//
//	source [4, 6]                     parts 4 6      dims [0] [1]
//	reshape to [2, 2, 6]              parts 2 2 6    dims [0] [1] [2]
//	transpose by (1, 0, 2)                           dims [1] [0] [2]
//	reshape to [2, 12]                               dims [1] [0 2]
//
// is emitted as a reshape to [2, 2, 6], one transpose, and a reshape to [2, 12].
//
// parts are factors of the source's dimensions, and each dimension of the value is a product of parts, outermost first. A reshape of [6,
// 4] to [8, 3] would split a part unevenly; the chain starts again there.
type move struct {
	source *ir.Value
	parts  []int   // sizes of the parts, in the source's order; none is 1
	dims   [][]int // for each dimension of the value, the indices of its parts
}

// still returns the identity: one part per dimension, none for a dimension of size 1, which can so be anywhere.
//
//	[4, 1, 6]     parts 4 6     dims [0] [] [1]
func still(v *ir.Value) *move {
	m := &move{source: v}
	for _, n := range v.Type.Shape {
		m.dims = append(m.dims, nil)
		if n != 1 {
			m.dims[len(m.dims)-1] = []int{len(m.parts)}
			m.parts = append(m.parts, n)
		}
	}
	return m
}

// then returns the move followed by a reshape or transpose; nil if a dimension would split a part unevenly.
//
// A transpose permutes the lists of the dimensions. A reshape keeps the order of parts and regroups them: each dimension of the result
// takes parts from the front of the queue until their product is its size.
//
//	parts 4 6, queue 0 1, to [8, 3]:   8 takes part 0 (4), and 2 of part 1, which is split into 2 3;   3 takes the rest
//	parts 6 4, queue 0 1, to [8, 3]:   8 is not a multiple of 6, nor 6 of 8: nil
func (m *move) then(in *ir.Instr) *move {
	if in.Op == ir.OpTranspose {
		n := &move{source: m.source, parts: m.parts}
		for _, d := range in.Attrs.Dims {
			n.dims = append(n.dims, m.dims[d])
		}
		return n
	}
	n := &move{source: m.source, parts: slices.Clone(m.parts)}
	// cut renumbers the queue and the lists of n, which are copies; the lists of m belong to another value.
	queue := slices.Concat(m.dims...)
	for _, size := range in.Result().Type.Shape {
		var own []int
		for size > 1 {
			if len(queue) == 0 {
				return nil
			}
			p := queue[0]
			have := n.parts[p]
			switch {
			// No elements: no product of parts reaches the size.
			case have == 0:
				return nil
			case size%have == 0:
				own, queue, size = append(own, p), queue[1:], size/have
			case have%size == 0:
				n.cut(p, size, own, queue)
				// The outer piece keeps the number p; the rest, p + 1, stays at the front of the queue.
				own, queue[0], size = append(own, p), p+1, 1
			default:
				return nil
			}
		}
		if size == 0 {
			return nil
		}
		n.dims = append(n.dims, own)
	}
	return n
}

// cut splits part p into an outer part of the given size and the rest. It renumbers later parts, also in own and queue, whose first
// entry is p.
func (m *move) cut(p, outer int, own, queue []int) {
	m.parts = slices.Insert(m.parts, p+1, m.parts[p]/outer)
	m.parts[p] = outer
	for _, l := range append(slices.Clone(m.dims), own, queue) {
		for i := range l {
			if l[i] > p {
				l[i]++
			}
		}
	}
}

// emit makes the value: a reshape that splits the source, a transpose, and a reshape that joins neighbours. With parts 2 2 6 of a source
// [4, 6] and dims [2] [0 1], parts 0 and 1 are neighbours in the value and in the source. They stay one dimension:
//
//	%2 = transpose %1 {dims=[1,0]} : f32[6,4]     2, then 0 1; reshapes to the same shape are not emitted
//
// As separate dimensions, this would be a transpose of three: [2, 2, 6] by (2, 0, 1).
func (m *move) emit(r *passes.Rewriter) *ir.Value {
	// Parts that stay neighbours stay joined.
	order := slices.Concat(m.dims...)
	joined := make([]bool, len(m.parts)) // to the part before
	for i := 1; i < len(order); i++ {
		joined[order[i]] = order[i] == order[i-1]+1
	}
	var shape, perm []int
	at := make([]int, len(m.parts))
	for p, n := range m.parts {
		if !joined[p] {
			shape = append(shape, 1)
		}
		at[p] = len(shape) - 1
		shape[at[p]] *= n
	}
	for _, p := range order {
		if !joined[p] {
			perm = append(perm, at[p])
		}
	}
	final := make([]int, len(m.dims))
	for d, l := range m.dims {
		final[d] = 1
		for _, p := range l {
			final[d] *= m.parts[p]
		}
	}
	x := r.Value(m.source)
	// Nothing moves: the transposes cancel, or only moved dimensions of size 1.
	if slices.IsSorted(perm) {
		return r.Reshape(x, final...)
	}
	return r.Reshape(r.Transpose(r.Reshape(x, shape...), perm...), final...)
}
