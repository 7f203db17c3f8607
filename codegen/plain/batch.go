// Package plain lowers grids to plain ops, for backends that have no kernels: those of CPUs and GPUs, and frameworks.
//
// A grid's body says what happens at one point, on blocks. Here it is said of all points of the parallel axes at once (batch.go, and ops.go for
// each op): a value that depends on such an axis gets it as a leading dimension, one that does not stays as it is. That is
// what vmap does in JAX, but for several axes, each with a bit in a set, so that nothing is repeated that all points share. The
// sequential axis becomes a loop (loop.go), whose state is what points hand on: output arrays and carries. Windows are laid out
// before the loop so that a step takes one contiguous piece of each (window.go), and the moves that this takes are collapsed
// afterwards (moves.go).
//
//	grid h:2, c:3:seq            x f32[2,12,8], window [1,4,8] at (h, c, 0)
//
//	x:      [2,12,8]             as it is
//	split:  [2,3,4,8]            each dimension as blocks and what is in one
//	staged: [3,2,4,8]            the loop's index first, then the parallel axes, then the block without its 1s
//	step c: staged[c] [2,4,8]    one slice; in the body it is [2, 1,4,8]: block [1,4,8] for both points of h
package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Batch rewrites every grid into plain ops: parallel axes become leading dimensions of the values that depend on them,
// the sequential axis a loop. Windows become reshapes and transposes outside the loop, one block index a leading
// dimension there, so that a step reads and writes contiguous blocks; Moves then collapses them. Sums of dots may be made in another order.
func Batch(m *ir.Module) (*ir.Module, error) {
	// A round takes the innermost grids: their instructions become plain ones, which the next round can batch over the axes of the grid around them. For
	// grids two deep there are three rounds, the last of which finds none.
	for {
		found := false
		n, err := passes.Transform(m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
			if in.Op != ir.OpGrid || contains(in.Body, ir.OpGrid) {
				return nil, false // a grid within a grid goes first
			}
			found = true
			// A batcher for each grid: what values stand for, and on which axes, means nothing outside.
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

// contains tells whether a block holds an op at any depth.
//
// It looks into the body of the old module, where a grid is still a grid.
func contains(b *ir.Block, op ir.Op) bool {
	found := false
	b.Walk(func(in *ir.Instr) { found = found || in.Op == op })
	return found
}

// axes is a set of parallel axes, bit i standing for axis i. What does not depend on an axis is made
// once for all points along it: the masks of a chunk, say, for all batch rows and heads.
//
// A value on no axes and one on {h} meet in a body like this (h:2):
//
//	%m = compare %i, %j {cmp=ge} : bool[8,8]      on {}, made once     bool[8,8]
//	%y = select %m, %x, %0 : f32[8,8]             %x on {h}            f32[2,8,8], %m broadcast where it is read
type axes uint64

// batched is a value for all points of its axes at once: these are its leading dimensions, in ascending order.
//
// Their order is fixed so that two values on the same axes have the same leading dimensions, and no op between them needs a transpose.
type batched struct {
	v  *ir.Value
	on axes
}

// batcher rewrites one grid. Axes of size 1 are dropped: their id is 0.
type batcher struct {
	*ir.Builder
	g     *ir.Grid
	outer func(*ir.Value) *ir.Value // values from outside the grid
	env   map[*ir.Value]batched
	step  *ir.Value // id of the sequential axis; nil where there is none
}

// list gives the axes in ascending order.
func (s axes) list() []int {
	var out []int
	for i := 0; s>>i != 0; i++ {
		if s>>i&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// sizes gives the extents of the axes, followed by a shape.
//
// For axes {0, 2} of sizes 2 and 3, and the shape [8, 4] of a value in the body: [2, 3, 8, 4].
func (b *batcher) sizes(on axes, shape ...int) []int {
	var out []int
	for _, a := range on.list() {
		out = append(out, b.g.Dims[a].Size)
	}
	return append(out, shape...)
}

// align repeats a value over more axes: over axes {0, 2}, of sizes 2 and 3, a value [2, 8] on {0} becomes [2, 3, 8] by a broadcast of
// dimensions 0 to 0 and 1 to 2.
//
// on must contain the axes of x. What is on more axes can not lose one: the points of that axis have values of their own.
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

// value is what stands for a value of the body. One that the body does not make comes from around the grid, where there are no points: it is on no
// axes, and is used as it is.
func (b *batcher) value(old *ir.Value) batched {
	if x, ok := b.env[old]; ok {
		return x
	}
	return batched{v: b.outer(old)}
}

func (b *batcher) scalar(n int) *ir.Value { return b.Const(ir.T(ir.I32), float64(n)) }
