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
func (l *pipeline) fetches(w ir.Window, t ir.Type) (axis int, ok bool) {
	if last := l.opt.Lags[len(l.opt.Lags)-1]; !l.opt.Fetch || l.opt.Live == 0 || last == 0 || l.opt.Steps > 1 {
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

// fetchFirst starts the copies of the first step, which no step before it can.
func (l *pipeline) fetchFirst(b *ir.Builder, step *ir.Value) {
	b.When(b.Compare(ir.EQ, step, b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) {
		l.copyBlocks(b, ir.OpDMAStart, step, 0, 0, func(delay int) bool { return delay == 0 })
	})
}

// fetch begins a body of the steps of a run: waits for its blocks and starts the copies of the next step's. past is the number of
// steps since the last one that has a first phase, itself included: 0 in the others. The last one fetches a block for a first
// phase that never comes, which the step after it waits for: without a condition the copies stand in the straight line.
func (l *pipeline) fetch(b *ir.Builder, step *ir.Value, r run, past int) {
	l.copyBlocks(b, ir.OpDMAWait, step, r.turn, 0, func(delay int) bool { return r.lo >= delay && (delay >= past || past == 1) })
	l.copyBlocks(b, ir.OpDMAStart, step, r.turn, 1, func(delay int) bool { return r.lo+1 >= delay && (past == 0 || delay > past) })
}

// copyBlocks starts or awaits the copies of the step after some more, where turn is the remainder of step by 2, of the windows
// whose delay is of interest.
func (l *pipeline) copyBlocks(b *ir.Builder, op ir.Op, step *ir.Value, turn, more int, of func(delay int) bool) {
	var tables []*ir.Value
	for i := range l.g.Tables {
		tables = append(tables, l.params[seen{i, 0}])
	}
	half := b.Const(ir.T(ir.I32), float64((turn+more)%2))
	for _, f := range l.fetched {
		if of(f.seen.delay) {
			at := lookUp(b, f.window.Index[f.axis], step, more, tables)
			b.Append(op, []*ir.Value{f.from, f.buffer, f.sem, at, half}, ir.Attrs{Dims: f.window.Block}, nil)
		}
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
