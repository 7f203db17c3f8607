package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Moves collapses chains of reshapes and transposes: each value that one of them makes comes from the chain's source by at
// most one transpose, without dimensions of size 1, between two reshapes. Compilers turn the order of unit dimensions
// and every further transpose into copies.
func Moves(m *ir.Module) (*ir.Module, error) {
	// By values of the old module: the source of a chain has its value in the new one, whatever the chain passes through.
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
			// The chain ends at the operand, and a new one begins. What no chain can say, as shapes with a dimension of 0, stays as it is.
			if next = still(in.Args[0]).then(in); next == nil {
				return nil, false
			}
		}
		moves[in.Result()] = next
		// Every value on the way is made from the source by itself, so somebody else may read it. Of a chain that nobody else reads, dce leaves the last.
		return []*ir.Value{next.emit(r)}, true
	})
}

// move says how the elements of a value lie in a source, as a list of factors, of which reshapes cut and join, and transposes exchange. Example:
//
//	source [4, 6]                     parts 4 6      dims [0] [1]
//	reshape to [2, 2, 6]              parts 2 2 6    dims [0] [1] [2]
//	transpose by (1, 0, 2)                           dims [1] [0] [2]
//	reshape to [2, 12]                               dims [1] [0 2]
//
// is emitted as a reshape to [2, 2, 6], one transpose, and a reshape to [2, 12]. A dimension that would take a part and an uneven
// piece of the next, as [6, 4] to [8, 3], can not be said so, and the chain begins anew there.
//
// It says how the elements of a value lie in a source: the source's dimensions are cut into parts, and each dimension of
// the value is the product of some of these, outermost first.
type move struct {
	source *ir.Value
	parts  []int   // sizes of the parts, in the source's order, none 1
	dims   [][]int // for each dimension of the value, its parts
}

// still is the move that does nothing: a part for each dimension, and none for one of size 1, which so may stand anywhere.
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

// then is the move followed by a reshape or transpose; nil where a new dimension would cut a part unevenly.
//
// A transpose exchanges the lists of the dimensions. A reshape keeps the order of elements, so it takes the same parts in the same order, and only deals
// them out anew: each dimension of the result takes parts from the front of the queue until their product is its size.
//
//	parts 4 6, queue 0 1, to [8, 3]:   8 takes part 0 (4), and 2 of part 1, which is cut in 2 3;   3 takes the rest
//	parts 6 4, queue 0 1, to [8, 3]:   8 is no multiple of 6, nor 6 of 8: nil
func (m *move) then(in *ir.Instr) *move {
	if in.Op == ir.OpTranspose {
		n := &move{source: m.source, parts: m.parts}
		for _, d := range in.Attrs.Dims {
			n.dims = append(n.dims, m.dims[d])
		}
		return n
	}
	n := &move{source: m.source, parts: slices.Clone(m.parts)}
	// The queue and the lists of n are copies, which cut may renumber; those of m belong to another value.
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
			// No elements, and so no product of parts that could reach the size.
			case have == 0:
				return nil
			case size%have == 0:
				own, queue, size = append(own, p), queue[1:], size/have
			case have%size == 0:
				n.cut(p, size, own, queue)
				// The outer piece keeps the number p; the rest, p + 1, stays at the head of the queue.
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

// cut splits part p into an outer part of the given size and the rest, renumbering the parts after it, also in own and
// queue, whose first is p.
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

// emit makes the value.
//
// Between two reshapes, of which the first cuts the source and the second joins what the transpose has put side by side. With parts 2 2 6 of a source
// [4, 6] and dims [2] [0 1], parts 0 and 1 are neighbours in the value as they are in the source. They are one dimension throughout:
//
//	%2 = transpose %1 {dims=[1,0]} : f32[6,4]     2, then 0 1; reshapes that change no shape are not made
//
// Left apart, they would be a transpose of three dimensions, [2, 2, 6] by (2, 0, 1).
func (m *move) emit(r *passes.Rewriter) *ir.Value {
	// Parts that stay neighbours stay together.
	order := slices.Concat(m.dims...)
	joined := make([]bool, len(m.parts)) // to the part before it
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
	// Nothing moves: the chain has turned back what it turned, or turned dimensions of size 1 alone.
	if slices.IsSorted(perm) {
		return r.Reshape(x, final...)
	}
	return r.Reshape(r.Transpose(r.Reshape(x, shape...), perm...), final...)
}
