package passes

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// fetch is a window of a pipelined kernel that is read from a buffer of two halves. The kernel copies the block of the next step into
// one while a step reads the other, so that a window costs no control but its copy.
type fetch struct {
	window            ir.Window
	axis              int // along which its blocks are counted
	seen              seen
	from, buffer, sem *ir.Value
}

// fetches says along which dimension the kernel is to copy the blocks of an input itself: of those that a table numbers.
func (l *pipeline) fetches(input int, w ir.Window, t ir.Type) (axis int, ok bool) {
	if !l.opt.Fetch || l.opt.Steps > 1 || slices.ContainsFunc(l.g.Alias, func(a [2]int) bool { return a[1] == input }) {
		return 0, false
	}
	axis = slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq && x.Table >= 0 })
	for d, x := range w.Index {
		if fixed := x.Table < 0 && (x.Axis < 0 && x.Const == 0 || x.Axis >= 0 && l.g.Dims[x.Axis].Size == 1); d != axis && (!fixed || w.Block[d] != t.Shape[d]) {
			return 0, false
		}
	}
	return axis, axis >= 0
}

// makeBuffers adds the buffers of the windows that the kernel fetches.
func (l *pipeline) makeBuffers(b *ir.Builder) {
	for _, f := range l.fetched {
		shape := slices.Clone(f.window.Block)
		shape[0] *= 2
		for _, x := range []struct {
			to **ir.Value
			t  ir.Type
		}{{&f.buffer, ir.Ref(ir.VMEM, f.from.Type.DType, shape...)}, {&f.sem, ir.Ref(ir.VMEM, ir.Sem)}} {
			l.ng.Scratch = append(l.ng.Scratch, x.t)
			*x.to = b.Param("", x.t)
		}
		l.params[f.seen] = f.buffer
	}
}

// fetch begins a step: waits for its blocks and starts the copies of the next one's. live is the number of chunks that run.
func (l *pipeline) fetch(b *ir.Builder, step, live *ir.Value) {
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	var tables []*ir.Value
	for i := range l.g.Tables {
		tables = append(tables, l.params[seen{i, 0}])
	}
	delays := map[int][]*fetch{}
	most := 0
	for _, f := range l.fetched {
		delays[f.seen.delay] = append(delays[f.seen.delay], f)
		most = max(most, f.seen.delay)
	}
	for d := range most + 1 {
		// The copies for the step after some more, where that one has a chunk.
		copies := func(op ir.Op, more int, first bool) {
			chunk := b.Add(step, i32(more-d))
			holds := b.Compare(ir.LT, chunk, live)
			switch {
			case first:
				holds = b.Compare(ir.EQ, chunk, i32(0))
			case d > more:
				holds = b.And(holds, b.Compare(ir.GE, chunk, i32(0)))
			}
			b.When(holds, func(b *ir.Builder) {
				half := b.And(b.Add(step, i32(more)), i32(1))
				for _, f := range delays[d] {
					at := lookUp(b, f.window.Index[f.axis], step, more, tables)
					b.Append(op, []*ir.Value{f.from, f.buffer, f.sem, at, half}, ir.Attrs{Dims: f.window.Block}, nil)
				}
			})
		}
		if len(delays[d]) == 0 {
			continue
		}
		if d == 0 {
			copies(ir.OpDMAStart, 0, true)
		}
		copies(ir.OpDMAWait, 0, false)
		copies(ir.OpDMAStart, 1, false)
	}
}

// lookUp is an index that follows the sequential axis, at a point some points on.
func lookUp(b *ir.Builder, x ir.Index, c *ir.Value, shift int, tables []*ir.Value) *ir.Value {
	zero := b.Const(ir.T(ir.I32), 0)
	i := b.Max(b.Add(c, b.Const(ir.T(ir.I32), float64(shift+x.Shift))), zero)
	if x.Max >= 0 {
		i = b.Min(i, b.Const(ir.T(ir.I32), float64(x.Max)))
	}
	if x.Down {
		i = b.Sub(b.Const(ir.T(ir.I32), float64(x.Max)), i)
	}
	if x.Const != 0 {
		i = b.Add(i, b.Const(ir.T(ir.I32), float64(x.Const)))
	}
	if x.Table < 0 {
		return i
	}
	i = b.Min(i, b.Const(ir.T(ir.I32), float64(tables[x.Table].Type.Shape[0]-1)))
	return b.Load(tables[x.Table], nil, []int{0}, nil, i)
}
