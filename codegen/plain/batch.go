// Package plain lowers grids to plain ops, for backends without kernels: CPUs, GPUs and frameworks.
//
// A grid's body describes the work at one point, on blocks. Here it is done for all points of the parallel axes at once (batch.go, and
// ops.go per op): a value that depends on such an axis gets it as a leading dimension; other values stay as they are. It is vmap of JAX
// for several axes, each a bit of a set, so work that all points share is done once. The sequential axis becomes a loop (loop.go), whose
// state is the output arrays and carries. Windows are laid out before the loop, so that a step takes one contiguous block of each
// (window.go). The reshapes and transposes that this needs are collapsed afterwards (moves.go).
//
//	grid h:2, c:3:seq            x f32[2,12,8], window [1,4,8] at (h, c, 0)
//
//	x:      [2,12,8]             the operand
//	split:  [2,3,4,8]            each dimension as a block count and a block
//	staged: [3,2,4,8]            the loop's index first, then the parallel axes, then the block without its 1s
//	step c: staged[c] [2,4,8]    one slice; in the body it is [2, 1,4,8]: block [1,4,8] for both points of h
package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Batch returns a module in which every grid is plain ops. Parallel axes become leading dimensions of the values that depend on them,
// and the sequential axis a loop. Windows become reshapes and transposes outside the loop, with one leading dimension per block index,
// so that a step reads and writes contiguous blocks; Moves then collapses them. Dots may sum in another order.
func Batch(m *ir.Module) (*ir.Module, error) {
	// A round rewrites the innermost grids; the next round can then batch their instructions over the axes of the grid around them.
	// Grids nested two deep take three rounds; the last finds none.
	for {
		found := false
		n, err := passes.Transform(m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
			if in.Op != ir.OpGrid || contains(in.Body, ir.OpGrid) {
				return nil, false // a grid inside a grid goes first
			}
			found = true
			// A batcher per grid: batched values mean nothing outside their grid.
			b := &batcher{Builder: r.Builder, g: in.Attrs.Grid, outer: r.Value, env: map[*ir.Value]batched{}}
			return newGridLoop(b, in, args).results(), true
		})
		if err != nil {
			return nil, err
		}
		if !found {
			return Moves(n)
		}
		m = n
	}
}

// contains reports whether a block of the old module, where grids are still grids, has an op at any depth.
func contains(b *ir.Block, op ir.Op) bool {
	found := false
	b.Walk(func(in *ir.Instr) { found = found || in.Op == op })
	return found
}

// axes is a set of parallel axes: bit i is axis i. A value that does not depend on an axis is computed once for all points along it.
// Example: the masks of a chunk, for all batch rows and heads.
//
// A value on no axes and one on {h} meet in a body like this (h:2):
//
//	%m = compare %i, %j {cmp=ge} : bool[8,8]      on {}, made once     bool[8,8]
//	%y = select %m, %x, %0 : f32[8,8]             %x on {h}            f32[2,8,8], %m broadcast where it is read
type axes uint64

// batched is a value for all points of its axes at once: its leading dimensions are these axes, in ascending order. So values on the
// same axes have the same leading dimensions, and no op between them needs a transpose.
type batched struct {
	v  *ir.Value
	on axes
}

// batcher rewrites one grid. Axes of size 1 are dropped, since their id is 0.
type batcher struct {
	*ir.Builder
	g     *ir.Grid
	outer func(*ir.Value) *ir.Value // the new value of one from outside the grid
	env   map[*ir.Value]batched
	step  *ir.Value // id of the sequential axis; nil without one
}

// list returns the axes in ascending order.
func (s axes) list() []int {
	var out []int
	for i := 0; s>>i != 0; i++ {
		if s>>i&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// sizes returns the extents of the axes, followed by a shape.
//
// For axes {0, 2} of sizes 2 and 3, and the shape [8, 4] of a value in the body: [2, 3, 8, 4].
func (b *batcher) sizes(on axes, shape ...int) []int {
	var out []int
	for _, a := range on.list() {
		out = append(out, b.g.Dims[a].Size)
	}
	return append(out, shape...)
}

// align repeats a value over more axes. Example: over axes {0, 2} of sizes 2 and 3, a value [2, 8] on {0} becomes [2, 3, 8] by a
// broadcast with dimensions 0 to 0 and 1 to 2.
//
// on must contain the axes of x. A value can not lose an axis, since its points differ.
func (b *batcher) align(x batched, on axes) *ir.Value {
	if x.on == on {
		return x.v
	}
	var dims []int
	all := on.list()
	for _, a := range x.on.list() {
		dims = append(dims, slices.Index(all, a))
	}
	shape := x.v.Type.Shape[len(dims):]
	for i := range shape {
		dims = append(dims, len(all)+i)
	}
	return b.Broadcast(x.v, b.sizes(on, shape...), dims...)
}

// value returns the batched value for a value of the body. A value from outside the grid is on no axes.
func (b *batcher) value(old *ir.Value) batched {
	if x, ok := b.env[old]; ok {
		return x
	}
	return batched{v: b.outer(old)}
}

func (b *batcher) scalar(n int) *ir.Value { return b.Const(ir.T(ir.I32), float64(n)) }
