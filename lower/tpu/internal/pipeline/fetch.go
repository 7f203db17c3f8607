package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/lower/tpu/internal/tiles"
)

// fetch is a window of a pipelined kernel that is read from a buffer of two halves. The kernel
// copies the block of the next step into one while a step reads the other, so that a window costs
// no control but its copy.
type fetch struct {
	window            ir.Window
	axis              int // along which its blocks are counted
	seen              seen
	from, buffer, sem *ir.Value
}

// fetches says along which dimension the kernel is to copy the blocks of an input itself: of those
// that a table numbers where there is one that says how many steps run, else of those that follow
// the steps of the only program.
func (l *pipeline) fetches(w ir.Window, t ir.Type) (axis int, ok bool) {
	if last := l.opt.Lags[len(l.opt.Lags)-1]; !l.opt.Fetch || last == 0 || l.opt.Steps > 1 {
		return 0, false
	}
	looked := l.g.Live > 0
	axis = slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq && (x.Table >= 0) == looked })
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

// fetch begins a step, in blocks of their own before its body: the compiler puts a copy that starts
// in a straight line where it is waited for, at the end. It waits for the blocks of the step and
// starts the copies of the next step's. A window of delay d has blocks in the steps from d to live
// + d - 1, and its first copy has no step before it where d is 0. So the first step waits for what
// it reads alone; the compiler's windows wait for the first block of all.
//
//	step 0 of delays 0 and 1:  start 0 of delay 0; wait for it and start 0 of delay 1; start 1 of delay 0
//	step 1:                    wait for 0 of delay 1; wait for 1 of delay 0 and start 1 of delay 1; start 2 of delay 0
func (l *pipeline) fetch(b *ir.Builder, step, live *ir.Value) {
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	most := 0
	for _, f := range l.fetched {
		most = max(most, f.seen.delay)
	}
	// What waits for delay d does at the same steps as what starts delay d + 1.
	for d := most; d >= -1; d-- {
		if d == 0 {
			first := b.And(b.Compare(ir.EQ, step, i32(0)), b.Compare(ir.GT, live, i32(0)))
			b.When(first, func(b *ir.Builder) { l.copyBlocks(b, ir.OpDMAStart, step, 0, 0) })
		}
		holds := b.Compare(ir.LT, step, b.Add(live, i32(d)))
		if d > 0 {
			holds = b.And(holds, b.Compare(ir.GE, step, i32(d)))
		}
		b.When(holds, func(b *ir.Builder) {
			l.copyBlocks(b, ir.OpDMAWait, step, 0, d)
			l.copyBlocks(b, ir.OpDMAStart, step, 1, d+1)
		})
	}
}

// copyBlocks starts or awaits the copies of the step after some more, of the windows of a delay.
func (l *pipeline) copyBlocks(b *ir.Builder, op ir.Op, step *ir.Value, more, delay int) {
	if !slices.ContainsFunc(l.fetched, func(f *fetch) bool { return f.seen.delay == delay }) {
		return
	}
	var tables []*ir.Value
	for i := range l.g.Tables {
		tables = append(tables, l.params[seen{i, 0}])
	}
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	half := b.And(b.Add(step, i32(more)), i32(1))
	for _, f := range l.fetched {
		if f.seen.delay == delay {
			at := tiles.LookUp(b, f.window.Index[f.axis], step, more, tables)
			b.Append(op, []*ir.Value{f.from, f.buffer, f.sem, at, half}, ir.Attrs{Dims: f.window.Block}, nil)
		}
	}
}
