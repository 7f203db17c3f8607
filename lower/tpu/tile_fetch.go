package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/lower/tpu/internal/tiles"
)

// fetched is an input window whose blocks the kernel copies by itself: those of the next point
// while it does one. Both halves of the buffer are blocks, of successive points. A compiler's
// window would do as much for blocks in order; but it asks an index for every window at every step,
// which costs control, and reads a block that no sequence has as well.
type fetched struct {
	window       ir.Window
	block        ir.Index // its number
	input        int      // of the grid
	operand      int      // of the kernel: seen whole
	from, buffer *ir.Value
	sem          [2]*ir.Value // of the halves
}

// addFetches makes the windows of a grid with copies that are looked up: those of one operand share
// a window of the whole. Decode of several sequences a step has a window of the pool for each of
// them, and the pool is one operand.
func (t *tiler) addFetches(args []*ir.Value) error {
	g, src := t.g, t.src.Attrs.Grid
	in := g.In
	g.In = nil
	whole, moved := map[*ir.Value]int{}, map[int]int{}
	for i, w := range in {
		x := args[src.Tables+i]
		looked := src.Copies && slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Table >= 0 })
		at, seen := whole[x]
		if !looked || !seen {
			at = len(g.In)
			t.kept = append(t.kept, i)
			if looked {
				whole[x], w = at, ir.Window{}
			}
			g.In = append(g.In, w)
		}
		moved[i] = at
		if looked {
			block, err := blockOf(t.g, in[i], x.Type)
			if err != nil {
				return fmt.Errorf("input window %d: %w", i, err)
			}
			t.fetched = append(t.fetched, fetched{window: in[i], block: block, input: i, operand: at})
		}
	}
	for i, a := range g.Alias {
		g.Alias[i][1] = moved[a[1]]
	}
	return nil
}

// fetch begins a point: it starts the copies of the next one's blocks and awaits its own, which the
// first point starts itself. A number below zero fetches nothing, and the point shows zeros there.
// Each half has its semaphore, since a wait can not tell one copy from another.
//
//	point 0:  start 0 > half 0;  start 1 > half 1;  await half 0;  work on half 0
//	point 1:                     start 2 > half 0;  await half 1;  work on half 1
//	point 2:                     start 3 > half 1;  await half 0;  work on half 0
//
// The half is written as two bodies with constants, and not as an index: a copy to a place that is
// known while compiling needs no address arithmetic, and no alias of the other half.
func (t *tiler) fetch() {
	if len(t.fetched) == 0 {
		return
	}
	b := t.b().Stage("fetch")
	n := len(t.g.Dims) - 1
	c, i32 := b.ProgramID(n), func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	half := b.And(c, i32(1))
	more := b.Compare(ir.LT, c, i32(t.g.Dims[n].Size-1))
	var now, next []*ir.Value // all look-ups first: none can pass a wait
	least := i32(0)
	for i := range t.fetched {
		f := &t.fetched[i]
		now, next = append(now, tiles.LookUp(b, f.block, c, 0, t.tables)), append(next, b.Select(more, tiles.LookUp(b, f.block, c, 1, t.tables), i32(-1)))
		least = b.Min(least, now[i])
		f.makeBuffer(t, half)
	}
	move := func(b *ir.Builder, op ir.Op, to int, blocks []*ir.Value) {
		for i, f := range t.fetched {
			b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) {
				b.Append(op, []*ir.Value{f.from, f.buffer, f.sem[to], blocks[i], b.Const(ir.T(ir.I32), float64(to))}, ir.Attrs{Dims: f.window.Block}, nil)
			})
		}
	}
	b.When(b.Compare(ir.EQ, c, i32(0)), func(b *ir.Builder) { move(b, ir.OpDMAStart, 0, now) })
	for to := range 2 {
		b.When(b.Compare(ir.EQ, half, i32(to)), func(b *ir.Builder) {
			move(b, ir.OpDMAStart, 1-to, next)
			move(b, ir.OpDMAWait, to, now)
			b.When(b.Compare(ir.LT, least, b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) {
				for i, f := range t.fetched {
					b.When(b.Compare(ir.LT, now[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { f.clear(b, to) })
				}
			})
		})
	}
}

// makeBuffer makes what the window is copied to, and shows a half of it to the body.
func (f *fetched) makeBuffer(t *tiler, half *ir.Value) {
	shape := slices.Clone(f.window.Block)
	shape[0] *= 2
	f.from = t.ins[f.operand]
	f.buffer = t.scratch(ir.VMEM, f.from.Type.DType, shape...)
	for i := range f.sem {
		f.sem[i] = t.scratch(ir.VMEM, ir.Sem)
	}
	v := window(f.buffer, true)
	v.src.half, v.src.rows = half, v.src.rows/2
	v.dims[0] = []factor{{f.window.Block[0], byRow, v.dims[0][0].stride}}
	t.sc.env[t.src.Body.Params[f.input]] = v
}

// clear puts zeros into a half of the buffer, for a point that has no block: what an earlier point
// left there is another sequence's.
func (f *fetched) clear(b *ir.Builder, half int) {
	lead, rows, lanes := tiles.RowsLanes(f.window.Block)
	zero := b.Const(ir.T(f.buffer.Type.DType, rows, lanes), 0)
	for _, at := range points(lead) {
		at[0] += half * f.window.Block[0]
		b.Store(zero, f.buffer, append(at, 0, 0), nil)
	}
}
