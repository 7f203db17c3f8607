package tpu

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// copied is an output window that the kernel copies itself. The parts of its buffer are the blocks of successive points. So several
// windows of a step can write one array, and a table may choose a block or none. The compiler's own windows can do neither.
type copied struct {
	window          ir.Window
	block           tiles.Numbering
	buffer, to, sem *ir.Value
	carried         bool // the buffer is a carry's window, one block: its copy ends within the point
}

// copied adds a window of an array in HBM. It makes the window's buffer, unless held, the window of a carry, already has the value.
func (t *tiler) copied(w ir.Window, to, held *ir.Value) (copied, error) {
	block, err := tiles.BlockOf(t.g, w, to.Type)
	if err != nil {
		return copied{}, err
	}
	c := copied{window: w, block: block, buffer: held, to: to, carried: held != nil}
	if t.src.Attrs.Grid.Copies == 0 {
		c.sem = t.scratch(ir.VMEM, ir.Sem)
	}
	if held == nil {
		shape := slices.Clone(w.Block)
		shape[0] *= partsOf(t.src.Attrs.Grid)
		c.buffer = t.scratch(ir.VMEM, to.Type.DType, shape...)
	}
	return c, nil
}

// blockAt returns the number of the block that the point c+shift shows, or a negative number for none. A caller's table may name a block
// beyond the array. That counts as none, so no copy leaves the array, which nothing else checks. A table that says how many steps run
// (Live) is made with the other tables by the program itself, so its block numbers are valid.
//
//	a pool of 256 blocks, table 3 -1 300:   blocks 3, -1, -1
func blockAt(t *tiler, b *ir.Builder, x tiles.Numbering, array ir.Type, block []int, c *ir.Value, shift int) *ir.Value {
	i := x.At(b, c, shift, t.tables)
	if x.Table < 0 || t.src.Attrs.Grid.Live > 0 && !t.bounded() {
		return i
	}
	blocks := array.Size() / ir.T(array.DType, block...).Size()
	return b.Select(b.Compare(ir.LT, i, b.Const(i.Type, float64(blocks))), i, b.Const(i.Type, -1))
}

// copyOut ends a point by starting the copies of its outputs to HBM. A copy may take until the end of the next point. If its buffer is a
// carry, the next point writes it at once, so the copy ends here. The last point that runs waits for its own copies.
//
//	point 0:  store to half 0;                  start half 0
//	point 1:  store to half 1;  await half 0;   start half 1
//	point 2:  store to half 0;  await half 1;   start half 0;   await half 0, being the last
func (t *tiler) copyOut(copies []copied, own part) {
	if len(copies) == 0 {
		return
	}
	if t.src.Attrs.Grid.Copies > 0 {
		copyBehind(t, copies, own)
		return
	}
	half := own.number
	b := t.b().Stage("copy")
	n := len(t.g.Dims) - 1
	c := b.ProgramID(n)
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	move := func(b *ir.Builder, op ir.Op, x copied, half, block *ir.Value) {
		b.Append(op, []*ir.Value{x.buffer, x.to, x.sem, half, block}, ir.Attrs{Dims: x.window.Block}, nil)
	}
	lasting := slices.DeleteFunc(slices.Clone(copies), func(x copied) bool { return x.carried })
	other := b.Sub(i32(1), half)
	blocks := func(b *ir.Builder, shift int) (list []*ir.Value) {
		for _, x := range lasting {
			list = append(list, blockAt(t, b, x.block, x.to.Type, x.window.Block, c, shift))
		}
		return list
	}
	await := func(b *ir.Builder, half *ir.Value, blocks []*ir.Value) {
		for i, x := range lasting {
			b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { move(b, ir.OpDMAWait, x, half, blocks[i]) })
		}
	}
	zero := i32(0)
	if len(lasting) > 0 {
		// Each wait looks its block up again: a point without a block started no copy, and a wait for a copy not started never ends. All
		// look-ups come first, since no load can move across a wait.
		b.When(b.Compare(ir.GT, c, zero), func(b *ir.Builder) { await(b, other, blocks(b, -1)) })
	}
	for _, x := range copies {
		now := blockAt(t, b, x.block, x.to.Type, x.window.Block, c, 0)
		b.When(b.Compare(ir.GE, now, zero), func(b *ir.Builder) {
			if !x.carried {
				move(b, ir.OpDMAStart, x, half, now)
				return
			}
			move(b, ir.OpDMAStart, x, zero, now)
			move(b, ir.OpDMAWait, x, zero, now)
		})
	}
	if len(lasting) == 0 {
		return
	}
	// The last point that must run waits for its own copies: points after it may not run (Grid.Live).
	last := i32(t.g.Dims[n].Size - 1)
	if t.g.Live > 0 {
		last = b.Sub(b.Load(t.tables[t.g.Live-1], nil, []int{0}, nil), i32(1))
	}
	given := blocks(b, 0)
	b.When(b.Compare(ir.EQ, c, last), func(b *ir.Builder) { await(b, half, given) })
}

// copyBehind is copyOut for a grid that fetches ahead: a copy may take as many points as a fetch. The buffer has a part per block in
// flight. A point waits only for the oldest copy, whose part the next point writes. Each part has its own semaphore, since copies may
// end out of order. With three parts:
//
//	point 0:  store to part 0;  start part 0
//	point 1:  store to part 1;  start part 1
//	point 2:  store to part 2;  start part 2;  await part 0
//	point 3:  store to part 0;  start part 0;  await part 1;   await parts 2 and 0, being the last
func copyBehind(t *tiler, copies []copied, own part) {
	b := t.b().Stage("copy")
	last, parts := len(t.g.Dims)-1, partsOf(t.src.Attrs.Grid)
	size := t.g.Dims[last].Size
	c := b.ProgramID(last)
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	var sems []*ir.Value
	for range parts {
		sems = append(sems, t.scratch(ir.VMEM, ir.Sem))
	}
	of := func(shift int) (blocks []*ir.Value) { // all look-ups first: no load can move across a wait
		for _, x := range copies {
			blocks = append(blocks, blockAt(t, b, x.block, x.to.Type, x.window.Block, c, shift))
		}
		return blocks
	}
	now, before := of(0), make([][]*ir.Value, parts) // before[j]: blocks of the point j points before
	for j := 1; j < parts; j++ {
		before[j] = of(-j)
	}
	before[0] = now
	move := func(b *ir.Builder, op ir.Op, part int, blocks []*ir.Value) {
		for i, x := range copies {
			do := func(b *ir.Builder) {
				b.Append(op, []*ir.Value{x.buffer, x.to, sems[part], b.Const(ir.T(ir.I32), float64(part)), blocks[i]}, ir.Attrs{Dims: x.window.Block}, nil)
			}
			if x.block.Table >= 0 {
				b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), do)
			} else {
				do(b)
			}
		}
	}
	for k := range parts {
		when(b, t.g, func() *ir.Value { return b.Compare(ir.EQ, own.number, i32(k)) }, func(b *ir.Builder) {
			move(b, ir.OpDMAStart, k, now)
		})
	}
	if parts > 1 { // frees the part that the next point writes
		for k := range parts {
			b.When(b.And(b.Compare(ir.EQ, own.number, i32(k)), b.Compare(ir.GE, c, i32(parts-1))), func(b *ir.Builder) {
				move(b, ir.OpDMAWait, (k+1)%parts, before[parts-1])
			})
		}
	}
	if t.bounded() {
		end := t.points(b, 1)
		for k := range parts {
			b.When(b.And(b.Compare(ir.EQ, own.number, i32(k)), b.Compare(ir.EQ, c, end)), func(b *ir.Builder) {
				for j := min(parts-1, size) - 1; j >= 0; j-- {
					b.When(b.Compare(ir.GE, c, i32(j)), func(b *ir.Builder) { move(b, ir.OpDMAWait, (k+parts-j)%parts, before[j]) })
				}
			})
		}
		return
	}
	when(b, t.g, func() *ir.Value { return b.Compare(ir.EQ, c, i32(size-1)) }, func(b *ir.Builder) {
		// The part that the next point would write is already free; the other copies end here, oldest first.
		for j := min(parts-1, size) - 1; j >= 0; j-- {
			move(b, ir.OpDMAWait, (size-1-j)%parts, before[j])
		}
		if parts == 1 {
			move(b, ir.OpDMAWait, 0, now)
		}
	})
}

// bounded reports whether a table limits how many points run, in a kernel that fetches ahead.
func (t *tiler) bounded() bool {
	g := t.src.Attrs.Grid
	return g.Live > 0 && g.Copies > 0 && g.Dims[len(g.Dims)-1].Size > 1
}

// points returns the number of points of the sequential axis that run, minus less, as an i32 scalar.
func (t *tiler) points(b *ir.Builder, less int) *ir.Value {
	g := t.src.Attrs.Grid
	if !t.bounded() {
		return b.Const(ir.T(ir.I32), float64(g.Dims[len(g.Dims)-1].Size-less))
	}
	live := b.Load(t.tables[g.Live-1], nil, []int{0}, nil)
	return b.Sub(live, b.Const(live.Type, float64(less)))
}

// when runs do under a condition on the point's number; unconditionally if the sequential axis has one point, which always meets it.
func when(b *ir.Builder, g *ir.Grid, condition func() *ir.Value, do func(b *ir.Builder)) {
	if g.Dims[len(g.Dims)-1].Size == 1 {
		do(b)
		return
	}
	b.When(condition(), do)
}

// store writes v to a reference, or to the part t.into of it. t.into is set only for results that go to a buffer.
func (t *tiler) store(v, ref *ir.Value, starts, strides []int) {
	b := t.b()
	b.Store(v, ref, starts, strides, t.into.within(b, ref)...)
}

// within returns the index of the source's part in ref, to add to the starts of a load; nil without parts.
func (s *source) within(b *ir.Builder, ref *ir.Value) []*ir.Value {
	return s.part.within(b, ref)
}

// part is a section of a buffer that holds the blocks of several points of a grid, one section per point.
type part struct {
	number *ir.Value
	count  int // up to 1: the buffer is the only part
}

// of returns the number of parts of the reference, at least 1.
func (p part) of() int { return max(p.count, 1) }

// within returns the index at which the part begins in ref; nil if there is only one part.
//
//	a buffer [6, 8, 128] of 3 parts, part 2:   from (4, 0, 0)
func (p part) within(b *ir.Builder, ref *ir.Value) []*ir.Value {
	if p.count <= 1 {
		return nil
	}
	idx := make([]*ir.Value, ref.Type.Rank())
	for i := range idx {
		idx[i] = b.Const(ir.T(ir.I32), 0)
	}
	idx[0] = p.number
	if n := ref.Type.Shape[0] / p.count; n > 1 {
		idx[0] = b.Mul(p.number, b.Const(ir.T(ir.I32), float64(n)))
	}
	return idx
}

// partOf returns the part of a buffer that belongs to a point: the point's number modulo count. For 2 and 4 that is a mask, for 3 it
// takes a quotient.
func partOf(b *ir.Builder, point *ir.Value, count int) part {
	switch {
	case count == 1:
		return part{b.Const(ir.T(ir.I32), 0), 1}
	case count&(count-1) == 0:
		return part{b.And(point, b.Const(ir.T(ir.I32), float64(count-1))), count}
	}
	n := b.Const(ir.T(ir.I32), float64(count))
	return part{b.Sub(point, b.Mul(b.Div(point, n), n)), count}
}
