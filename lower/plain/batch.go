package plain

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Batch rewrites every grid into plain ops: parallel axes become leading dimensions of the values that depend on them,
// the sequential axis a loop. Windows become reshapes and transposes outside the loop, one block index a leading
// dimension there, so that a step reads and writes contiguous blocks; Moves then collapses them. Sums of dots may be made in another order.
func Batch(m *ir.Module) (*ir.Module, error) {
	for {
		found := false
		n, err := passes.Transform(m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
			if in.Op != ir.OpGrid || contains(in.Body, ir.OpGrid) {
				return nil, false // a grid within a grid goes first
			}
			found = true
			b := &batcher{Builder: r.Builder, g: in.Attrs.Grid, outer: r.Value, env: map[*ir.Value]batched{}}
			return b.grid(in, args), true
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
func contains(b *ir.Block, op ir.Op) bool {
	found := false
	b.Walk(func(in *ir.Instr) { found = found || in.Op == op })
	return found
}

// axes is a set of parallel axes, bit i standing for axis i.
type axes uint64

// batched is a value for all points of its axes at once: these are its leading dimensions, in ascending order.
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
func (b *batcher) sizes(on axes, shape ...int) []int {
	var out []int
	for _, a := range on.list() {
		out = append(out, b.g.Dims[a].Size)
	}
	return append(out, shape...)
}

// align repeats a value over more axes.
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

func (b *batcher) value(old *ir.Value) batched {
	if x, ok := b.env[old]; ok {
		return x
	}
	return batched{v: b.outer(old)}
}

func (b *batcher) scalar(n int) *ir.Value { return b.Const(ir.T(ir.I32), float64(n)) }

// grid rewrites the grid and returns what stands for its results.
func (b *batcher) grid(in *ir.Instr, args []*ir.Value) []*ir.Value {
	g := b.g
	tables := args[:g.Tables]
	var ins, outs, carries []*view
	for i, w := range g.In {
		ins = append(ins, b.view(fmt.Sprintf("input %d", i), w, args[g.Tables+i].Type, tables))
	}
	for i, w := range g.Out {
		outs = append(outs, b.view(fmt.Sprintf("output %d", i), w, g.Outs[i], tables))
	}
	initial := args[g.Tables+len(g.In):]
	for i, w := range g.Carry {
		carries = append(carries, b.view(fmt.Sprintf("carry %d", i), w, initial[i].Type, tables))
	}
	steps := 1
	if n := len(g.Dims); n > 0 && g.Dims[n-1].Seq {
		steps = g.Dims[n-1].Size
	}
	// What a step reads, laid out before the first: inputs and initial carries.
	var staged, fresh []*ir.Value
	for i, w := range ins {
		staged = append(staged, w.split(args[g.Tables+i]))
	}
	for i, w := range carries {
		fresh = append(fresh, w.split(initial[i]))
	}
	// What steps hand on: output arrays, carried blocks, and the final arrays of carries whose block varies.
	var state []*ir.Value
	base := make([]*ir.Value, len(outs)) // of an array with an alias
	for _, a := range g.Alias {
		base[a[0]] = args[g.Tables+a[1]]
	}
	arrays := 0
	var first []*view // of each array's windows
	for i, w := range outs {
		switch {
		case g.Array(i) < arrays:
			if !slices.Equal(first[g.Array(i)].cut, w.cut) {
				b.Failf("grid %s: output window %d moves along other dimensions than an earlier one of its array", g.Name, i)
				return make([]*ir.Value, len(in.Results))
			}
			continue
		case base[arrays] != nil:
			state = append(state, w.split(base[arrays]))
		default:
			state = append(state, b.Const(ir.T(g.Outs[i].DType, w.stagedShape()...), 0))
		}
		arrays++
		first = append(first, w)
	}
	for i, w := range carries {
		if w.varies() {
			state = append(state, b.Const(ir.T(initial[i].Type.DType, w.stagedBlock()...), 0), fresh[i])
		} else {
			state = append(state, fresh[i])
		}
	}
	point := func(nb *ir.Builder, step *ir.Value, state []*ir.Value) []*ir.Value {
		defer func(old *ir.Builder) { b.Builder, b.step = old, nil }(b.Builder)
		b.Builder, b.step = nb, step
		b.Of(in)
		for i, w := range ins {
			b.env[in.Body.Params[i]] = batched{b.Reshape(w.read(staged[i], w.scalars(step)), w.fullBlock()...), w.on()}
		}
		var at [][]*ir.Value
		s := state[arrays:]
		for i, w := range carries {
			idx := w.scalars(step)
			at = append(at, idx)
			block := s[0]
			if w.varies() {
				block = w.read(fresh[i], idx)
				if step != nil {
					if changed := w.changed(idx, step); changed != nil {
						block = b.Select(changed, block, s[0])
					}
				}
				s = s[1:]
			}
			s = s[1:]
			b.env[in.Body.Params[len(ins)+i]] = batched{b.Reshape(block, w.fullBlock()...), w.on()}
		}
		b.block(in.Body)
		if b.Err() != nil {
			return state
		}
		b.Of(in)
		next := slices.Clone(state[:arrays])
		for i, w := range outs {
			a, idx, x := g.Array(i), w.scalars(step), w.fit(b.value(in.Body.Yield[i]))
			if g.Into != nil {
				for _, at := range idx {
					x = b.Select(b.Broadcast(b.Compare(ir.GE, at, b.scalar(0)), x.Type.Shape), x, w.read(next[a], idx))
				}
			}
			next[a] = w.write(next[a], x, idx)
		}
		s = state[arrays:]
		for i, w := range carries {
			y := w.fit(b.value(in.Body.Yield[len(outs)+i]))
			next = append(next, y)
			if w.varies() {
				next = append(next, w.write(s[1], y, at[i]))
				s = s[1:]
			}
			s = s[1:]
		}
		return next
	}
	if steps == 1 {
		state = point(b.Builder, nil, state)
	} else {
		state = b.Loop(steps, state, point)
	}
	if b.Err() != nil {
		return make([]*ir.Value, len(in.Results))
	}
	b.Of(in)
	var results []*ir.Value
	for i, w := range first {
		results = append(results, w.join(state[i], base[i]))
	}
	s := state[arrays:]
	for i, w := range carries {
		if w.varies() {
			s = s[1:]
		}
		results = append(results, w.join(s[0], initial[i]))
		s = s[1:]
	}
	return results
}
