package build

import (
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// The convolution of packed tokens whose sequences resume from caches of a pool, in the kernel of the rule. The block of a visit has two sequences: the
// open one, whose last rows before the block are carried (one tile), and the next one, which begins with a cache. All rows are convolved in their order,
// after the carried ones. Then the first W-1 results of the next sequence, whose taps reach into the cache, are replaced. Their inputs and the rows of
// the cache fit into one tile, in which each row has its place modulo the rows of a tile:
//
//	W 4, the next sequence begins with row 13     tile of rows 8 to 15   tile of rows 16 to 23
//	rows c of the cache, x of the sequence        . . c c c x x x        (all three of x lie in the first here)
//	the next one begins with row 6                x . . c c c x x        a tile of row 5 to row 8, by the place in their own tiles
//
// The next block gets the last rows of this one; if a sequence begins within them, rows of the same tile.
//
// For a mixed batch the kernel also writes the caches that sequences leave (cachesWithin). The open sequence ends where the next one begins, so its last
// rows lie before the start, in the same tile until the cache takes their place, and are rotated to the first rows of it. If the open sequence began in this
// block too, rows before that are those of its own cache, which the visit before carried.

// convolvesWithin reports whether the kernel of the rule convolves: its programs have all heads, and the rows on both sides of a start fit into one tile.
func convolvesWithin(p *plan) bool {
	return convolvesFirst(p) && p.v.Mapping.Heads == p.s.HeadsV && 2*(p.s.Conv-1) <= target.Sublanes && p.c%target.Sublanes == 0
}

// cachesWithin reports whether that kernel also writes the caches that sequences leave: lengths of a mixed batch add up to all tokens, and the rows of a
// cache fit into the tile too.
func cachesWithin(p *plan) bool {
	return convolvesWithin(p) && p.prompts && p.s.CacheRows()+p.s.Conv-1 <= target.Sublanes
}

// continued is the convolution of a step of visits.
type continued struct {
	*chunks
	caches []*ir.Value                  // for each visit the cache of its next sequence, [1, rows, channels]
	before map[*convolution]*ir.Value   // [heads, Sublanes, D] f32, the rows before the block of the next visit
	own    map[*convolution]*ir.Value   // the cache of the last visit's next sequence, in a tile whose rows have their places; nil: no caches are written
	closed []map[*convolution]*ir.Value // for each visit the cache that the open sequence leaves, [heads, rows, D] f32
	blocks map[*operand]*ir.Value       // taps and biases
	square map[*convolution][]*ir.Value
	starts map[[2]int]*ir.Value // by visit and lanes, the first row of the next sequence; far beyond the block if there is none
}

// newContinued begins with what the step before carried, [1, Sublanes, channels] each: the rows, and the cache if caches are written.
func newContinued(e *chunks, caches, carried []*ir.Value) *continued {
	x := &continued{chunks: e, caches: caches, before: map[*convolution]*ir.Value{}, blocks: e.blocks, square: map[*convolution][]*ir.Value{}, starts: map[[2]int]*ir.Value{}}
	if len(carried) > 1 {
		x.own = map[*convolution]*ir.Value{}
		for range caches {
			x.closed = append(x.closed, map[*convolution]*ir.Value{})
		}
	}
	for _, o := range x.parts() {
		x.before[o.conv] = x.heads(carried[0], o.conv.first, o)
		if x.own != nil {
			x.own[o.conv] = x.heads(carried[1], o.conv.first, o)
		}
	}
	return x
}

// parts are the operands of the channels, in their order.
func (x *continued) parts() []*operand { return []*operand{x.in.q, x.in.k, x.in.v} }

// heads returns the channels of q, k or v, [heads, R, D] in float32, from rows [1, R, lanes] whose first channel is at lane first.
func (x *continued) heads(rows *ir.Value, first int, o *operand) *ir.Value {
	var l []*ir.Value
	for from := first; from < first+o.block[2]; from += o.width {
		l = append(l, x.b.Convert(x.b.SliceAxis(rows, 2, from, from+o.width), ir.F32))
	}
	return x.b.Concat(0, l...)
}

// carry returns what newContinued takes in the next step.
func (x *continued) carry() []*ir.Value {
	x.b.Stage(stageKeys)
	l := []*ir.Value{x.channels(x.before, 0, target.Sublanes)}
	if x.own != nil {
		l = append(l, x.channels(x.own, 0, target.Sublanes))
	}
	return l
}

// left returns the caches to write, [1, rows, channels]: of each visit's open sequence, and of the one that is open after the last visit and ends with its block.
func (x *continued) left() (closed []*ir.Value, last *ir.Value) {
	b, r := x.b.Stage(stageKeys), x.s.CacheRows()
	for _, rows := range x.closed {
		closed = append(closed, b.Convert(x.channels(rows, 0, r), x.s.DType))
	}
	return closed, b.Convert(x.channels(x.before, target.Sublanes-r, target.Sublanes), x.s.DType)
}

// channels returns rows from to to of all heads, [1, rows, channels].
func (x *continued) channels(of map[*convolution]*ir.Value, from, to int) *ir.Value {
	var l []*ir.Value
	for _, o := range x.parts() {
		for head := range of[o.conv].Type.Shape[0] {
			l = append(l, x.b.Reshape(x.b.Slice(of[o.conv], []int{head, from, 0}, []int{head + 1, to, o.width}), to-from, o.width))
		}
	}
	return x.b.Reshape(x.b.Concat(1, l...), 1, to-from, x.s.ConvChannels())
}

// start returns a tile filled with the first row of the next sequence of a visit.
func (x *continued) start(visit, lanes int) *ir.Value {
	key := [2]int{visit, lanes}
	if x.starts[key] == nil {
		b := x.b
		from := x.Segments.At(visit, segments.From, target.Sublanes, lanes)
		x.starts[key] = b.Select(b.Compare(ir.GT, from, b.Like(from, float64(x.c))), b.Like(from, float64(2*x.c)), from)
	}
	return x.starts[key]
}

// convolved returns the convolved rows [heads, C, D] of a visit with the block [1, C, heads D]: keys and queries in the type of the inputs, values in
// float32.
func (x *continued) convolved(visit int, block *ir.Value, o *operand) *ir.Value {
	b, s := x.b.Stage(o.conv.stage), x.s
	heads, d, tile, w := o.block[2]/o.width, o.width, target.Sublanes, o.conv.taps
	wide := x.heads(block, 0, o)
	start := x.start(visit, d)
	from := b.Sub(x.Iota(tile, d, 0), start)                    // places of the rows of the first tile in the next sequence
	between := func(first int, lo *ir.Value, n int) *ir.Value { // rows of the tile at row first whose place is lo to n - 1
		at := x.Plus(from, first)
		return x.Over(heads, b.And(b.Compare(ir.GE, at, lo), b.Compare(ir.LT, at, b.Like(at, float64(n)))))
	}
	within := func(first, n int) *ir.Value { return between(first, b.Like(from, 0), n) }
	// The tile with the rows on both sides of the start.
	place := b.And(from, b.Like(from, float64(tile-1)))
	fresh := x.Segments.At(visit, segments.Fresh, s.CacheRows(), d)
	fresh = x.Over(1, b.Compare(ir.GT, fresh, b.Like(fresh, 0)))
	earlier := w - 1 // rows of the cache in it
	if x.own != nil {
		earlier = s.CacheRows()
	}
	var each []*ir.Value // by head
	for head := range heads {
		first := o.conv.first + head*d
		cache := b.Convert(b.SliceAxis(x.caches[visit], 2, first, first+d), ir.F32)
		cache = b.Select(fresh, b.Like(cache, 0), cache)
		held := b.Const(ir.T(ir.F32, 1, tile, d), 0)
		for back := 1; back <= earlier; back++ {
			own := b.Reshape(b.SliceAxis(cache, 1, s.CacheRows()-back, s.CacheRows()-back+1), 1, d)
			held = b.Select(x.Over(1, b.Compare(ir.EQ, place, b.Like(place, float64(tile-back)))), b.Broadcast(own, held.Type.Shape, 0, 2), held)
		}
		each = append(each, held)
	}
	held := b.Concat(0, each...)
	both, lowest := held, b.Like(from, 0)
	var row *ir.Value // the first row of the visit: behind the first row of its block, the open sequence has none here
	if x.own != nil {
		row = x.Segments.At(visit, segments.First, tile, d)
		both = b.Select(x.Over(heads, b.Compare(ir.GT, row, b.Like(row, 0))), x.own[o.conv], x.before[o.conv])
		lowest = b.Max(b.Sub(x.Segments.At(visit, segments.Began, tile, d), start), b.Like(from, float64(-earlier)))
	}
	for first := 0; first < x.c; first += tile {
		both = b.Select(between(first, lowest, w-1), b.SliceAxis(wide, 1, first, first+tile), both)
	}
	if x.own != nil {
		x.closed[visit][o.conv] = b.SliceAxis(x.turned(both, b.Sub(start, b.Like(start, float64(earlier)))), 1, 0, earlier)
		both = b.Select(x.Over(heads, b.Compare(ir.GE, place, b.Like(place, float64(tile-earlier)))), held, both)
	}
	half := b.Scale(b.Convert(b.Reshape(x.blocks[o.conv.operand], heads, w, d), ir.F32), .5)
	var bias *ir.Value
	if o.conv.bias != nil {
		bias = b.Scale(b.Convert(b.Reshape(x.blocks[o.conv.bias], heads, d), ir.F32), .5)
	}
	terms := w
	if bias != nil {
		terms++ // the first
	}
	sum := func(n int, shifted func(back int) *ir.Value) *ir.Value {
		over := func(own *ir.Value) *ir.Value { return b.Broadcast(b.Reshape(own, heads, d), []int{heads, n, d}, 0, 2) }
		return sumOfTaps(b, terms, func(j int) *ir.Value {
			if j -= terms - w; j < 0 {
				return over(bias)
			}
			return b.Mul(shifted(w-1-j), over(b.SliceAxis(half, 1, j, j+1)))
		})
	}
	twice := b.Concat(1, both, both)
	starting := sum(tile, func(back int) *ir.Value { return b.SliceAxis(twice, 1, tile-back, 2*tile-back) })
	rows := b.Concat(1, x.before[o.conv], wide)
	var strips []*ir.Value
	for first := 0; first < x.c; first += strip {
		n := min(strip, x.c-first)
		y := sum(n, func(back int) *ir.Value { return b.SliceAxis(rows, 1, tile+first-back, tile+first-back+n) })
		var tiles []*ir.Value
		for at := 0; at < n; at += tile {
			tiles = append(tiles, b.Select(within(first+at, w-1), starting, b.SliceAxis(y, 1, at, at+tile)))
		}
		y = b.Concat(1, tiles...)
		strips = append(strips, siluOfTwice(b, y))
	}
	last := b.Select(between(x.c-tile, b.Like(from, float64(-earlier)), 0), held, b.SliceAxis(wide, 1, x.c-tile, x.c))
	if x.own != nil && visit > 0 { // a visit behind the last changes nothing; it is never the first of a step, so that no rows depend on carried ones
		last = b.Select(x.Over(heads, b.Compare(ir.GE, row, b.Like(row, float64(x.c)))), x.before[o.conv], last)
	}
	if x.own != nil {
		x.own[o.conv] = held
	}
	x.before[o.conv] = last
	y := b.Concat(1, strips...)
	if o == x.in.v {
		return y
	}
	x.square[o.conv] = append(x.square[o.conv], gate.Squares(b, y))
	return b.Convert(y, s.DType)
}

// turned rotates tiles [heads, Sublanes, D] upwards by so many rows, modulo a tile: a tile filled with one number.
func (x *continued) turned(tiles, by *ir.Value) *ir.Value {
	b, heads := x.b, tiles.Type.Shape[0]
	for n := 1; n < target.Sublanes; n *= 2 {
		bit := b.And(by, b.Like(by, float64(n)))
		twice := b.Concat(1, tiles, tiles)
		tiles = b.Select(x.Over(heads, b.Compare(ir.GT, bit, b.Like(bit, 0))), b.SliceAxis(twice, 1, n, n+target.Sublanes), tiles)
	}
	return tiles
}
