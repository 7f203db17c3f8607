package tpu

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// fetched is an input window whose blocks the kernel copies itself, some points ahead. The buffer has one part per point whose blocks
// are there or in flight, or is a single block if all points show the same one. A compiler's window prefetches blocks one point ahead.
// But it evaluates an index per window and step, which costs control; it also reads a block for points without a sequence; and all
// windows wait for the first and the last copy of all.
type fetched struct {
	window       ir.Window
	block        tiles.Numbering
	input        int  // of the grid
	operand      int  // of the kernel, which sees the array whole
	fixed        bool // all points show the same block
	from, buffer *ir.Value
}

func (f *fetched) looked() bool { return f.block.Table >= 0 }

// addFetches makes the input windows of a kernel. If the grid has copies, all windows of one operand share a window of the whole array.
// Example: decode of several sequences per step has one window of the pool per sequence, and the pool is one operand. A window whose
// block is not numbered along one dimension by the sequential axis stays a compiler's window.
//
//	inputs of the grid                         of the kernel
//	0, 1   blocks of the pool, by a table      0   the pool, whole: two fetches
//	2      a block of the gates, by the axis   1   the gates, whole: one
//	3      blocks along two dimensions         2   a window, as it was
//
// t.kept is 0, 2 and 3: the first input of each operand.
func (t *tiler) addFetches(args []*ir.Value) error {
	g, src := t.g, t.src.Attrs.Grid
	in := g.In
	g.In = nil
	whole, moved := map[*ir.Value]int{}, map[int]int{}
	for i, w := range in {
		x := args[src.Tables+i]
		f := fetched{window: w, input: i}
		fetches := src.Copies > 0
		if fetches {
			var err error
			f.fixed = !slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis >= 0 && g.Dims[x.Axis].Size > 1 }) && slices.Equal(w.Block, x.Type.Shape)
			if f.block, err = tiles.BlockOf(g, w, x.Type); err != nil && !f.fixed {
				fetches = false
			}
			if f.fixed {
				f.block = tiles.Numbering{Index: ir.IndexConst(0)}
			}
		}
		at, seen := whole[x]
		if !fetches || !seen {
			at = len(g.In)
			t.kept = append(t.kept, i)
			if fetches {
				whole[x], w = at, ir.Window{}
			}
			g.In = append(g.In, w)
		}
		moved[i] = at
		if f.operand = at; fetches {
			t.fetched = append(t.fetched, f)
		}
	}
	for i, a := range g.Alias {
		g.Alias[i][1] = moved[a[1]]
	}
	return nil
}

// partsOf returns the number of points that have blocks at the same time in a buffer that the kernel copies from or to.
//
//	copies 2, 64 points   3: the point's own and two ahead
//	copies 2, 2 points    2
//	copies 0              2: one part of an output is written while the other is copied out
func partsOf(g *ir.Grid) int {
	if g.Copies == 0 {
		return 2
	}
	return min(g.Copies+1, g.Dims[len(g.Dims)-1].Size)
}

// fetch begins a point: it starts the copies of the blocks of the point `ahead` points later, and waits for its own. The first point
// also starts its own and all between. A negative block number fetches nothing, and the point reads zeros. Each part has its own
// semaphore, since a wait can not tell copies apart. With two points ahead:
//
//	point 0:  start 0 > part 0;  start 1 > part 1;  start 2 > part 2;  await part 0;  work on part 0
//	point 1:                                        start 3 > part 0;  await part 1;  work on part 1
//	point 2:                                        start 4 > part 1;  await part 2;  work on part 2
//
// Each part has a body of its own with constants, not an index: a copy to an address known to the compiler needs no address arithmetic.
func (t *tiler) fetch() {
	if len(t.fetched) == 0 {
		return
	}
	b := t.b().Stage("fetch")
	last, parts := len(t.g.Dims)-1, partsOf(t.src.Attrs.Grid)
	ahead := parts - 1
	c := b.ProgramID(last)
	own := partOf(b, c, parts)
	var sems []*ir.Value
	for range parts {
		sems = append(sems, t.scratch(ir.VMEM, ir.Sem))
	}
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	first := make([][]*ir.Value, max(ahead, 1)) // all look-ups first: no load can move across a wait
	var next []*ir.Value
	for i := range t.fetched {
		f := &t.fetched[i]
		f.makeBuffer(t, own)
		for j := range first {
			first[j] = append(first[j], blockAt(t, b, f.block, f.from.Type, f.window.Block, c, j))
		}
		next = append(next, blockAt(t, b, f.block, f.from.Type, f.window.Block, c, ahead))
	}
	now := first[0]
	move := func(b *ir.Builder, op ir.Op, part int, blocks []*ir.Value, fixed bool) {
		for i, f := range t.fetched {
			if f.fixed && !fixed {
				continue
			}
			copies := func(b *ir.Builder) {
				b.Append(op, []*ir.Value{f.from, f.buffer, sems[part], blocks[i], b.Const(ir.T(ir.I32), float64(part))}, ir.Attrs{Dims: f.window.Block}, nil)
			}
			switch {
			case f.fixed:
				b.Append(op, []*ir.Value{f.from, f.buffer, sems[part]}, ir.Attrs{}, nil)
			case f.looked():
				b.When(b.Compare(ir.GE, blocks[i], b.Const(ir.T(ir.I32), 0)), copies)
			default:
				copies(b)
			}
		}
	}
	arrive := func(b *ir.Builder, part int, fixed bool) {
		move(b, ir.OpDMAWait, part, now, fixed)
		for i, f := range t.fetched {
			if f.looked() {
				b.When(b.Compare(ir.LT, now[i], b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { f.clear(b, part) })
			}
		}
	}
	when(b, t.g, func() *ir.Value { return b.Compare(ir.EQ, c, i32(0)) }, func(b *ir.Builder) {
		for j := range first {
			start := func(b *ir.Builder) { move(b, ir.OpDMAStart, j, first[j], j == 0) }
			if j > 0 && t.bounded() {
				b.When(b.Compare(ir.GT, t.points(b, 0), i32(j)), start)
			} else {
				start(b)
			}
		}
	})
	// A single point has no later one.
	if ahead == 0 {
		arrive(b, 0, true)
		return
	}
	more := b.Compare(ir.LT, c, t.points(b, ahead))
	for part := range parts {
		b.When(b.Compare(ir.EQ, own.number, i32(part)), func(b *ir.Builder) {
			b.When(more, func(b *ir.Builder) { move(b, ir.OpDMAStart, (part+ahead)%parts, next, false) })
			if part > 0 {
				arrive(b, part, false)
				return
			}
			// Blocks that all points share arrive once, with the first point, whose part is 0.
			b.When(b.Compare(ir.EQ, c, b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { arrive(b, part, true) })
			b.When(b.Compare(ir.GT, c, b.Const(ir.T(ir.I32), 0)), func(b *ir.Builder) { arrive(b, part, false) })
		})
	}
}

// makeBuffer makes the buffer of the window, and binds the point's part of it to the body's parameter.
func (f *fetched) makeBuffer(t *tiler, own part) {
	shape := slices.Clone(f.window.Block)
	if f.fixed {
		own = part{}
	}
	shape[0] *= own.of()
	f.from = t.ins[f.operand]
	f.buffer = t.scratch(ir.VMEM, f.from.Type.DType, shape...)
	// The body sees one block. source.within adds the start of the point's part to each load.
	v := window(f.buffer, true)
	v.src.part, v.src.rows = own, v.src.rows/own.of()
	v.dims[0] = []factor{{f.window.Block[0], byRow, v.dims[0][0].stride}}
	t.sc.env[t.src.Body.Params[f.input]] = v
}

// clear fills a part of the buffer with zeros, for a point without a block: the part still has another sequence's data.
func (f *fetched) clear(b *ir.Builder, part int) {
	lead, rows, lanes := tiles.RowsLanes(f.window.Block)
	zero := b.Const(ir.T(f.buffer.Type.DType, rows, lanes), 0)
	for _, at := range points(lead) {
		at[0] += part * f.window.Block[0]
		b.Store(zero, f.buffer, append(at, 0, 0), nil)
	}
}
