package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/visits"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/target"
)

// A grid's body is emitted in layers, each on the one below: what a step is made of, whatever the algorithm, and the algorithms on top.
//
//	chunkwise  tokenwise  gradient    the algorithms: a chunk at a time, a token at a time, and backwards
//	            gated                 gates, decay, and products of keys and queries
//	            solver                T = (I + A)^-1
//	            tiles                 loads, stores, dots, and shapes
//
// Values of N entries are ordered chunk in flight, batch row, head.

// tiles are the values of a grid step: the blocks that it has, and how they become tiles of rows and lanes.
type tiles struct {
	*plan
	b      *ir.Builder
	in     *operands
	blocks map[*operand]*ir.Value
	state  *ir.Value // [batch x heads, K, V] f32; nil where the grid has none
	iotas  map[[3]int]*ir.Value
	parts  map[*ir.Value][]*ir.Value // bf16 parts that are kept instead of a value
	visits *visits.Marks             // where blocks have tokens of several sequences
}

func newTiles(p *plan, b *ir.Builder, in *operands) *tiles {
	return &tiles{plan: p, b: b, in: in, blocks: map[*operand]*ir.Value{}, iotas: map[[3]int]*ir.Value{}, parts: map[*ir.Value][]*ir.Value{}}
}

// solver inverts.
type solver struct{ *tiles }

// gated has the gates of the chunks in flight, and what they weigh.
type gated struct{ solver }

func newGated(t *tiles) *gated { return &gated{solver{t}} }

// chunkwise takes chunks forward.
type chunkwise struct {
	gated
	ready *gates // where not nil, the gates and sums of the chunks in flight

	valueFirst bool                             // states are [V, K]
	enter      func(chunk int) *ir.Value        // where not nil, the state before a chunk in flight
	leave      func(chunk int, state *ir.Value) // and what takes the state after it

	before, values []*ir.Value // of the chunks in flight, as they are taken through the state: the state before each, and U
	inverted       *ir.Value   // T of all of them
}

func newChunkwise(t *tiles) *chunkwise { return &chunkwise{gated: *newGated(t)} }

// tokenwise takes tokens through the state one after another.
type tokenwise struct{ gated }

func newTokenwise(t *tiles) *tokenwise { return &tokenwise{*newGated(t)} }

// gradient takes chunks backwards.
type gradient struct{ gated }

func newGradient(t *tiles) *gradient { return &gradient{*newGated(t)} }

// takes is the body of a grid by an algorithm.
func takes[E any](make func(*tiles) *E, body func(*E) []blockOut) func(*tiles) []blockOut {
	return func(t *tiles) []blockOut { return body(make(t)) }
}

// loadRows brings a window of tokens to [N, C, D].
func (e *tiles) loadRows(o *operand) *ir.Value {
	b, v := e.b, e.v
	x := e.blocks[o]
	d := x.Type.Shape[x.Type.Rank()-1]
	if v.Layout == gdn.HeadsInner || v.Layout == gdn.HeadsLanes {
		d = cmp.Or(o.width, d)
		h := x.Type.Size() / (v.Batch * v.Chunks * e.c * d)
		if v.Batch*v.Chunks == 1 {
			return b.Transpose(b.Reshape(x, e.c, h, d), 1, 0, 2)
		}
		x = b.Transpose(b.Reshape(x, v.Batch*v.Chunks, e.c, h, d), 0, 2, 1, 3)
		return e.chunksFirst(b.Reshape(x, v.Batch, v.Chunks, h, e.c, d))
	}
	if v.Layout == gdn.HeadsTurned {
		d = x.Type.Size() / (v.Chunks * e.c * e.blockHeads(o))
		x = b.Reshape(x, e.blockHeads(o), d, v.Chunks*e.c)
		var chunks []*ir.Value
		for i := range v.Chunks {
			chunks = append(chunks, b.Transpose(b.SliceAxis(x, 2, i*e.c, (i+1)*e.c), 0, 2, 1))
		}
		return b.Concat(0, chunks...)
	}
	n := x.Type.Size() / (v.Chunks * e.c * d)
	return e.chunksFirst(b.Reshape(x, n, v.Chunks, e.c, d))
}

// blockHeads is the batch rows x heads of a window with heads before tokens.
func (e *tiles) blockHeads(o *operand) int {
	n := 1
	for _, k := range o.block[:len(o.block)-2] {
		n *= k
	}
	return n
}

// chunksFirst swaps the leading dimension with the chunks after it, and joins all leading dimensions of the two last.
func (e *tiles) chunksFirst(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	if s[0] > 1 && s[1] > 1 {
		perm := []int{1, 0}
		for i := 2; i < len(s); i++ {
			perm = append(perm, i)
		}
		x = e.b.Transpose(x, perm...)
	}
	r, l := s[len(s)-2], s[len(s)-1]
	return e.b.Reshape(x, x.Type.Size()/(r*l), r, l)
}

// loadGate brings a window of a gate to [N, C].
func (e *tiles) loadGate(o *operand) *ir.Value { return e.b.Reshape(e.blocks[o], e.entries(), e.c) }

// loadMade brings a window of what an earlier grid made to [N, C, D].
func (e *tiles) loadMade(o *operand) *ir.Value {
	s := o.shape
	r, l := s[len(s)-2], s[len(s)-1]
	return e.chunksFirst(e.b.Reshape(e.blocks[o], e.v.Batch, e.v.Chunks, e.v.Heads, r, l))
}

// made describes [N, R, L] as an output of this grid for a later one.
func (e *tiles) made(x *ir.Value) blockOut {
	v, s := e.v, x.Type.Shape
	x = e.b.Reshape(x, v.Chunks, v.Batch, v.Heads, s[1], s[2])
	if v.Chunks > 1 && v.Batch > 1 {
		x = e.b.Transpose(x, 1, 0, 2, 3, 4)
	}
	o := &operand{
		dtype: x.Type.DType,
		shape: join([]int{e.s.Batch, e.nc}, e.valueHeads(), s[1:]),
		axes:  join([]axis{axisBatch, axisChunk}, e.headAxes(), []axis{axisNone, axisNone}),
		block: join([]int{v.Batch, v.Chunks}, e.headBlock(), s[1:]),
	}
	return blockOut{e.b.Reshape(x, o.block...), o}
}

// output describes the outputs [batch x heads, C, V] of the chunks in flight as the grid's output of tokens.
func (e *tiles) output(chunks []*ir.Value) blockOut { return e.tokenRows(chunks, e.in.v, e.s.Out) }

// tokenRows describes [batch x heads, C, D] of each chunk in flight as an output of tokens that lies as an operand does.
func (e *tiles) tokenRows(chunks []*ir.Value, like *operand, d ir.DType) blockOut {
	b, v := e.b, e.v
	o := &operand{dtype: d, axes: like.axes, block: like.block, shape: like.value.Type.Shape}
	if v.Layout == gdn.HeadsTurned {
		for i, x := range chunks {
			chunks[i] = b.Transpose(b.Convert(x, d), 0, 2, 1)
		}
		return blockOut{b.Reshape(b.Concat(2, chunks...), o.block...), o}
	}
	order := []int{1, 0, 3, 2, 4} // of [chunks, batch, heads, C, D]
	if v.Layout == gdn.HeadsOuter {
		order = []int{1, 2, 0, 3, 4}
	}
	x := b.Convert(b.Concat(0, chunks...), d)
	s := x.Type.Shape
	x = b.Reshape(x, len(chunks), v.Batch, s[0]/(len(chunks)*v.Batch), s[1], s[2])
	return blockOut{b.Reshape(b.Transpose(x, order...), o.block...), o}
}

// betaRows describes [N, C] as an output that lies as beta does.
func (e *tiles) betaRows(x *ir.Value) blockOut {
	like := e.in.beta
	return blockOut{e.b.Reshape(x, like.block...), &operand{dtype: ir.F32, axes: like.axes, block: like.block, shape: like.value.Type.Shape}}
}

// iota is the i32 index along an axis of a [rows, lanes] tile.
func (e *tiles) iota(rows, lanes, axis int) *ir.Value {
	key := [3]int{rows, lanes, axis}
	if e.iotas[key] == nil {
		e.iotas[key] = e.b.Iota(ir.T(ir.I32, rows, lanes), axis)
	}
	return e.iotas[key]
}

// over repeats a [R, L] tile over N entries.
func (e *tiles) over(n int, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{n, s[0], s[1]}, 1, 2)
}

// column spreads [N, C] over lanes to [N, C, lanes]; row spreads it over rows to [N, rows, C].
func (e *tiles) column(x *ir.Value, lanes int) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{s[0], s[1], lanes}, 0, 1)
}

func (e *tiles) row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// scalar spreads lane i of [N, C] over [N, rows, lanes].
func (e *tiles) scalar(x *ir.Value, i, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	x = e.b.Broadcast(e.b.SliceAxis(x, 1, i, i+1), []int{n, lanes}, 0, 1)
	return e.row(x, rows)
}

// perValue repeats what belongs to key heads for each value head of the program.
func (e *tiles) perValue(x *ir.Value) *ir.Value {
	if e.gb == 1 {
		return x
	}
	s := x.Type.Shape
	x = e.b.Broadcast(x, []int{s[0], e.gb, s[1], s[2]}, 0, 2, 3)
	return e.b.Reshape(x, s[0]*e.gb, s[1], s[2])
}

// dot multiplies [N, ., .] by [N, ., .] at a precision; tx and ty as in ir.MatMul.
func (e *tiles) dot(x, y *ir.Value, tx, ty bool, p ir.Precision) *ir.Value {
	if p == ir.PrecBF16x3 && e.v.Parts == gdn.PartsKept {
		return e.dotParts(x, y, tx, ty)
	}
	if p == ir.PrecBF16x1 && e.v.Parts == gdn.PartsKept {
		return e.b.MatMul(e.cut(x)[0], e.cut(y)[0], tx, ty, p)
	}
	d := ir.F32
	bx, by := x.Type.DType == ir.BF16, y.Type.DType == ir.BF16
	switch {
	case p == ir.PrecBF16x1 && (e.v.Store == ir.BF16 || bx || by):
		d = ir.BF16
	case p != ir.PrecF32 && bx && by:
		d, p = ir.BF16, ir.PrecBF16x1 // exact
	}
	return e.b.MatMul(e.b.Convert(x, d), e.b.Convert(y, d), tx, ty, p)
}

// store rounds what is kept between stages, or cuts it into the parts that are kept.
func (e *tiles) store(x *ir.Value) *ir.Value {
	x = e.b.Convert(x, e.v.Store)
	if e.v.Parts == gdn.PartsKept {
		e.cut(x)
	}
	return x
}

// storeValues is store for V' [N, C, V]. Where keys are alike, what rounding adds to V' is summed over the tokens. So each of a
// number of blocks of rows takes what rounding left of the one before: in the sum only what it left of the last remains.
//
// Where the kernel normalizes keys, unit and length are 1/|k| and |k| in all lanes, and V' is stored times the first.
func (e *tiles) storeValues(x, unit, length *ir.Value) *ir.Value {
	b, n := e.b, e.v.Feedback
	for n > 1 && e.c%(n*rowsOfWords) != 0 {
		n /= 2
	}
	if n < 2 {
		return e.store(e.by(x, unit))
	}
	var blocks []*ir.Value
	var left *ir.Value
	for i := range n {
		part := func(x *ir.Value) *ir.Value {
			if x == nil {
				return nil
			}
			return b.SliceAxis(x, 1, i*e.c/n, (i+1)*e.c/n)
		}
		own := part(x)
		if left != nil {
			own = b.Add(own, left)
		}
		low := e.store(e.by(own, part(unit)))
		blocks, left = append(blocks, low), b.Sub(own, e.by(b.Convert(low, ir.F32), part(length)))
	}
	return b.Concat(1, blocks...)
}

// rowsOfWords is the number of bf16 rows in a register.
const rowsOfWords = 2 * target.Sublanes
