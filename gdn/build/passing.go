package build

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Packed tokens that go on from caches of a pool are convolved in the kernel of the rule where its programs have all heads (convolvesWithin), and else by a kernel before it: it reads q, k and v, or qkv, as they lie, and
// gives them flat, as the rule's kernel reads them. Nothing is carried from block to block: of a token that is near the first of its sequence
// the earlier ones are rows of the cache (segments.Pass), of others rows of the block, or of the tile before it.
//
// A second kernel writes each sequence's last inputs to its slot. Neither kernel touches slots without a sequence.

// lanesOfMarks is the width of a register. A row is selected by number as a maximum over rows, with all others at negative infinity, which preserves its bits.
const lanesOfMarks = target.Lanes

var negative = math.Inf(-1)

// passing is the convolution of packed tokens.
type passing struct {
	*plan
	arrays []*ir.Value // [1, padded tokens, channels]
	parts  []*passed
	made   *tables
}

// passed is q, k or v.
type passed struct {
	name        string
	array, lane int // its array, and its first lane there
	channel     int // its first channel in a cache
	heads, d    int
}

// convolvesFirst reports whether a separate kernel convolves packed tokens before the rule's.
func convolvesFirst(p *plan) bool {
	s := p.s
	kernel := p.aligned() && p.v.Fuse == gdn.PlaceKernel && p.v.Layout == gdn.LayoutBTLanes
	reach := s.Conv-1 <= segments.PassReach && s.CacheRows() <= segments.Rows && p.c >= segments.PassRows
	return s.ConvState && s.Init && s.Final && s.Pool > 0 && s.Empty == gdn.EmptyKeep && kernel && reach
}

// pass emits the kernels and sets the operands of the rule's kernel. Caches are results.
func (p *plan) pass(in *operands) {
	x := p.passing()
	rows := x.convolved()
	keys := func(y *ir.Value) *operand { return p.rows(y, []int{p.s.HeadsK}, []int{p.kb}, []axis{axisHead}) }
	in.q, in.k, in.v = keys(rows[0]), keys(rows[1]), p.rows(rows[2], p.valueHeads(), p.headBlock(), p.headAxes())
	p.caches = append(p.caches, x.nextCache())
}

// within has the kernel of the rule convolve: it reads q, k and v as one array where they came so. Caches are results, of this kernel or of one behind it.
func (p *plan) within(in *operands) {
	x := p.passing()
	if y := x.arrays[0]; len(x.arrays) == 1 {
		in.whole = &operand{value: y, axes: []axis{axisBatch, p.tokenAxis(), axisNone}, block: []int{1, p.c, y.Type.Shape[2]}}
	}
	if !cachesWithin(p) {
		p.caches = append(p.caches, x.nextCache())
	}
}

// passing has the arrays that tokens lie in, and the tables.
func (p *plan) passing() *passing {
	x := &passing{plan: p}
	lies := func(y *ir.Value) int { // the array of a parameter
		y = p.b.Reshape(y, 1, p.s.Tokens, y.Type.Size()/p.s.Tokens)
		x.arrays = append(x.arrays, p.whole(y, 0))
		return len(x.arrays) - 1
	}
	whole := p.args["qkv"]
	if whole != nil {
		lies(whole)
	}
	first := 0
	for _, name := range []string{"q", "k", "v"} {
		t := p.args[name].Type.Shape
		y := &passed{name: name, lane: first, channel: first, heads: t[len(t)-2], d: t[len(t)-1]}
		if whole == nil {
			y.array, y.lane = lies(p.lanes(p.args[name])), 0
		}
		first += y.heads * y.d
		x.parts = append(x.parts, y)
	}
	if !cachesWithin(p) {
		x.made = x.tables()
	}
	return x
}

// convolved emits the kernel of the convolution.
func (x *passing) convolved() []*ir.Value {
	b, s, c := x.b, x.s, x.c
	plan := x.passes()
	grid := &ir.Grid{Name: "convolution", Dims: []ir.GridDim{{Name: "c", Size: plan.Segments(), Seq: true}}, Main: true, Inside: true}
	args := x.made.passed.steps(grid)
	in := func(y *ir.Value, block []int, at ir.Index, dim int) {
		w := ir.Window{Block: block}
		for d := range block {
			i := ir.IndexConst(0)
			if d == dim {
				i = at
			}
			w.Index = append(w.Index, i)
		}
		grid.In, args = append(grid.In, w), append(args, y)
	}
	for _, y := range x.arrays {
		ch := y.Type.Shape[2]
		in(y, []int{1, c, ch}, plan.Entry(0, segments.PassBlock), 1)
		in(y, []int{1, segments.PassRows, ch}, plan.Entry(0, segments.PassBefore), 1)
	}
	cache := x.args["initial_conv"]
	in(cache, []int{1, s.CacheRows(), s.ConvChannels()}, plan.Entry(0, segments.PassState), 0)
	in(x.made.passed.marks, []int{1, segments.Rows, c}, ir.IndexAxis(0), 0)
	for _, y := range x.parts {
		for _, name := range []string{"conv_", "bias_"} {
			if w := x.args[name+y.name]; w != nil {
				in(w, w.Type.Shape, ir.IndexConst(0), 0)
			}
		}
	}
	for i, y := range x.parts {
		block := []int{1, c, y.heads * y.d}
		t := ir.T(s.DType, 1, x.padded(), y.heads*y.d)
		at := []ir.Index{ir.IndexConst(0), ir.IndexConst(0), ir.IndexConst(0)}
		grid.Carry = append(grid.Carry, ir.Window{Block: block, Index: at})
		args = append(args, b.Const(ir.T(s.DType, block...), 0))
		at = []ir.Index{ir.IndexConst(0), plan.Entry(0, segments.PassDone), ir.IndexConst(0)}
		grid.Out, grid.Outs, grid.Into = append(grid.Out, ir.Window{Block: block, Index: at}), append(grid.Outs, t), append(grid.Into, i)
	}
	*x.carriers = append(*x.carriers, schedule.Carrier{Grid: grid.Name, Heads: 1, Stateless: true})
	return b.Grid(grid, bounded(grid, args, x.made.passed.live), x.segment)[:len(x.parts)]
}

// head returns the lanes of a head, [1, rows, D] in float32, from rows [1, rows, channels] whose first head begins at lane first.
func (y *passed) head(b *ir.Builder, rows *ir.Value, first, head int) *ir.Value {
	from := first + head*y.d
	return b.Convert(b.SliceAxis(rows, 2, from, from+y.d), ir.F32)
}

// segment is a step of the convolution: the rows of a block from the visit's first on; rows before it keep the results of earlier visits.
func (x *passing) segment(b *ir.Builder, blocks, carried []*ir.Value) (ys, next []*ir.Value) {
	b = b.Stage("convolution")
	n := 2 * len(x.arrays)
	v := &passSegment{passing: x, Body: tile.New(b, x.v, x.c), blocks: blocks[:n], cache: blocks[n]}
	v.Segments = &segments.Marks{Builder: b, Tiles: []*ir.Value{b.Reshape(blocks[n+1], segments.Rows, x.c)}}
	operands := blocks[n+2:]
	take := func() *ir.Value {
		y := b.Scale(b.Convert(operands[0], ir.F32), .5)
		operands = operands[1:]
		return y
	}
	for i, y := range x.parts {
		v.taps = take()
		if x.s.ConvBias {
			v.bias = take()
		}
		var heads []*ir.Value
		for h := range y.heads {
			heads = append(heads, v.head(y, h, y.head(b, carried[i], 0, h)))
		}
		z := b.Reshape(b.Transpose(b.Convert(b.Concat(0, heads...), x.s.DType), 1, 0, 2), 1, x.c, y.heads*y.d)
		ys, next = append(ys, z), append(next, z)
	}
	return ys, next
}

// passSegment is a visit, with halves of the taps [heads, W, D] and of the biases [heads, D] of q, k or v.
type passSegment struct {
	*passing
	*tile.Body
	blocks     []*ir.Value // for each array the block, and the tile before it
	cache      *ir.Value   // [1, rows, channels]
	taps, bias *ir.Value
}

// head convolves the rows of a head in strips that fit registers. It returns [1, C, D] in float32, with rows before the visit's first taken
// from held.
func (v *passSegment) head(y *passed, head int, held *ir.Value) *ir.Value {
	b, s, r := v.B, v.s, v.s.CacheRows()
	mark := func(which, rows int) *ir.Value { return v.Segments.At(0, which, rows, y.d) }
	row := func(x *ir.Value, rows int) *ir.Value { // one row [1, D] for all
		return b.Broadcast(x, []int{1, rows, y.d}, 0, 2)
	}
	before := y.head(b, v.blocks[2*y.array+1], y.lane, head)
	rows := b.Concat(1, b.SliceAxis(before, 1, segments.PassRows-segments.PassReach, segments.PassRows), y.head(b, v.blocks[2*y.array], y.lane, head))
	cache := y.head(b, v.cache, y.channel, head)
	fresh := mark(segments.PassFresh, r)
	cache = b.Select(v.Over(1, b.Compare(ir.GT, fresh, b.Like(fresh, 0))), b.Like(cache, 0), cache)
	taps := b.SliceAxis(v.taps, 0, head, head+1)
	terms := s.Conv
	if s.ConvBias {
		terms++
	}
	var strips []*ir.Value
	for from := 0; from < v.c; from += strip {
		to := min(from+strip, v.c)
		n := to - from
		pos := b.Sub(v.Plus(v.Iota(n, y.d, 0), from+segments.PassReach), mark(segments.PassBegin, n)) // position of each row in its sequence
		z := siluOfTaps(b, terms, func(j int) *ir.Value {
			if j == s.Conv {
				return row(b.SliceAxis(v.bias, 0, head, head+1), n)
			}
			back := s.Conv - 1 - j
			z := b.SliceAxis(rows, 1, segments.PassReach-back+from, segments.PassReach-back+to)
			for i := range back { // cache rows before the i-th token
				own := b.Reshape(b.SliceAxis(cache, 1, r-back+i, r-back+i+1), 1, y.d)
				z = b.Select(v.Over(1, b.Compare(ir.EQ, pos, b.Like(pos, float64(i)))), row(own, n), z)
			}
			return b.Mul(z, row(b.Reshape(b.SliceAxis(taps, 1, j, j+1), 1, y.d), n))
		})
		kept := b.Compare(ir.LT, v.Plus(v.Iota(n, y.d, 0), from), mark(segments.PassFirst, n))
		strips = append(strips, b.Select(v.Over(1, kept), b.SliceAxis(held, 1, from, to), z))
	}
	return b.Concat(1, strips...)
}

// nextCache emits the kernel that writes the final caches of sequences to the pool, one step per sequence.
//
// The last inputs of a sequence are in its last two tiles. If the sequence is shorter than a cache, they are preceded by rows of its initial
// cache. Marks select the rows of the new cache from these three, concatenated:
//
//	tiles of 16, a sequence from token 30 to 34, rows 4     tile 0..15   tile 16..31   cache      rows 14, 15 of the first and 16, 17
//	                                  tokens 16 to 47       0..15        16..31        32..35
func (x *passing) nextCache() *ir.Value {
	b, s, r := x.b, x.s, x.s.CacheRows()
	n, tiles := s.Seqs, segments.PassRows
	entry := func(column int) ir.Index {
		i := ir.IndexTable(0, 0)
		i.Const = column * segments.Stride(n, x.ready != nil)
		return i
	}
	zero := ir.IndexConst(0)
	grid := &ir.Grid{Name: "caches", Dims: []ir.GridDim{{Name: "c", Size: n, Seq: true}}, Main: true, Inside: true, Into: []int{0}}
	*x.carriers = append(*x.carriers, schedule.Carrier{Grid: grid.Name, Heads: 1, Stateless: true})
	args := x.made.left.steps(grid)
	in := func(y *ir.Value, block []int, index ...ir.Index) {
		grid.In, args = append(grid.In, ir.Window{Block: block, Index: index}), append(args, y)
	}
	for _, y := range x.arrays {
		for i := range 2 {
			in(y, []int{1, tiles, y.Type.Shape[2]}, zero, entry(3+i), zero)
		}
	}
	in(x.made.left.marks, []int{1, segments.Rows, lanesOfMarks}, ir.IndexAxis(0), zero, zero)
	pool := x.args["initial_conv"]
	block := []int{1, r, s.ConvChannels()}
	grid.Alias = [][2]int{{0, len(grid.In)}}
	in(pool, block, entry(2), zero, zero)
	grid.Out, grid.Outs = []ir.Window{{Block: block, Index: []ir.Index{entry(1), zero, zero}}}, []ir.Type{pool.Type}
	return b.Grid(grid, bounded(grid, args, x.made.left.live), func(b *ir.Builder, blocks, _ []*ir.Value) (ys, next []*ir.Value) {
		b = b.Stage("convolution")
		e := tile.New(b, x.v, x.c)
		m := 2 * len(x.arrays)
		which := &segments.Marks{Builder: b, Tiles: []*ir.Value{b.Reshape(blocks[m], segments.Rows, lanesOfMarks)}}
		var channels []*ir.Value
		for _, y := range x.parts {
			for h := range y.heads {
				all := b.Concat(1, y.head(b, blocks[2*y.array], y.lane, h), y.head(b, blocks[2*y.array+1], y.lane, h), y.head(b, blocks[m+1], y.channel, h))
				rows := all.Type.Shape[1]
				var left []*ir.Value
				for j := range r {
					hit := b.Compare(ir.EQ, e.Iota(rows, y.d, 0), which.At(0, j, rows, y.d))
					z := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(e.Over(1, hit), all, b.Like(all, negative))}, ir.Attrs{Dims: []int{1}}, nil)[0]
					none := which.At(0, j, 1, y.d)
					left = append(left, b.Select(b.Compare(ir.LT, none, b.Like(none, 0)), b.Like(z, 0), z))
				}
				channels = append(channels, b.Convert(b.Concat(0, left...), s.DType))
			}
		}
		return []*ir.Value{b.Reshape(b.Concat(1, channels...), 1, r, s.ConvChannels())}, nil
	})[0]
}
