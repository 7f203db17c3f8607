package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// A grid's body has layers: loads and results of a step, which use operands and windows, and below them
// packages that use tiles only.
//
//	chunks            tokenwise        reverse          a chunk at a time, a token at a time, and backwards
//	            gated                                   loads of keys, values and gates
//	            tiles                                   loads and outputs
//	chunkwise.Chunks  recurrence.Step  gradient.Step    the algorithms
//	            chunkwise.Rule                          sums, products and decay
//	            inverse.Solver                          T = (I + A)^-1
//	            tile.Body                               stores, dots, shapes and masks
//
// Values of N entries are ordered chunk in flight, batch row, head.

// tiles are the values of a grid step: its blocks, and their conversion to tiles of rows and lanes. Loading an operand that the grid does not read
// gives nil.
type tiles struct {
	*plan
	*tile.Body
	b      *ir.Builder
	in     *operands
	step   int // the grid's dimension of steps
	blocks map[*operand]*ir.Value
	state  *ir.Value                  // [batch x heads, K, V] f32; nil where the grid has none
	caches []*ir.Value                // of the convolution, of each sequence of the step, [1, rows, channels]; none where the kernel has none
	conv   *continued                 // of aligned blocks, where the kernel convolves them
	lying  map[*convolution]*ir.Value // q, k and v behind their caches, [N, rows + C, D], as they were loaded
	after  []*ir.Value                // the states after each token of the recurrence, or after each chunk in flight

	// For packed sequences by visits: blocks of an operand if a step has several visits, the state before a later visit, and values joined by
	// visits of a block. visit and before are set in tiles of one visit (ofOne): its index, and the value joined by the previous one.
	slots   map[*operand][]*ir.Value
	enters  func(visit int, state *ir.Value) *ir.Value
	held    []*ir.Value
	segment int
	before  *ir.Value
}

// newTiles begins a body. The caller sets blocks and state; a loop of plain ops, which has no windows, sets slices.
func newTiles(p *plan, b *ir.Builder, in *operands) *tiles {
	return &tiles{plan: p, Body: tile.New(b, p.v, p.c), b: b, in: in, blocks: map[*operand]*ir.Value{}, slots: map[*operand][]*ir.Value{}, lying: map[*convolution]*ir.Value{}}
}

// rule returns the rule of the spec in this body.
func (e *tiles) rule() *chunkwise.Rule { return &chunkwise.Rule{Body: e.Body, Spec: e.s, Group: e.gb} }

// gated loads the rule's inputs for the chunks in flight: keys and queries (keys.go), gates (gates.go, channel.go) and values (split_gates.go). Unlike
// tiles it depends on the rule: the kinds of gates, and whether rows are normalized.
type gated struct{ *tiles }

func newGated(t *tiles) *gated { return &gated{t} }

// tokenwise takes tokens through the state one after another (token.go).
type tokenwise struct{ gated }

func newTokenwise(t *tiles) *tokenwise { return &tokenwise{*newGated(t)} }

// takes makes the body of a grid from an algorithm: takes(newChunks, (*chunks).fused) makes chunks from the tiles of a step and calls fused.
func takes[E any](make func(*tiles) *E, body func(*E) []blockOut) func(*tiles) []blockOut {
	return func(t *tiles) []blockOut { return body(make(t)) }
}

// loadRows converts a window of tokens to [N, C, D], with N = chunks in flight x batch rows x heads of the operand (key or value heads).
//
//	layout=bhtd            [batch, heads, chunks C, D]      split at chunks, chunks before batch rows
//	layout=bthd, bt_hd     [batch, chunks C, heads, D]      split at chunks, and heads before tokens
//	layout=bhdt            [batch, heads, D, chunks C]      each chunk transposed, since tokens are along the lanes
//
// The bthd window is [batch, chunks C heads, D] if a program has all heads; the bt_hd window is [batch, chunks C, heads D]. The element order is the same.
func (e *tiles) loadRows(o *operand) *ir.Value {
	if l := e.slots[o]; l != nil {
		return newGated(e).each(l, o, func(one *gated, o *operand) *ir.Value { return one.loadRows(o) })
	}
	b, v := e.b, e.v
	x := e.blocks[o]
	d := x.Type.Shape[x.Type.Rank()-1]
	if v.Layout == gdn.LayoutBTHD || v.Layout == gdn.LayoutBTLanes {
		d = cmp.Or(o.width, d)
		h := x.Type.Size() / (v.Mapping.Batch * v.Mapping.Chunks * e.c * d)
		if v.Mapping.Batch*v.Mapping.Chunks == 1 {
			return b.Transpose(b.Reshape(x, e.c, h, d), 1, 0, 2)
		}
		x = b.Transpose(b.Reshape(x, v.Mapping.Batch*v.Mapping.Chunks, e.c, h, d), 0, 2, 1, 3)
		return e.chunksFirst(b.Reshape(x, v.Mapping.Batch, v.Mapping.Chunks, h, e.c, d))
	}
	if v.Layout == gdn.LayoutBHDT { // a slice of tokens is a slice of lanes, transposed separately
		d = x.Type.Size() / (v.Mapping.Chunks * e.c * e.blockHeads(o))
		x = b.Reshape(x, e.blockHeads(o), d, v.Mapping.Chunks*e.c)
		var chunks []*ir.Value
		for i := range v.Mapping.Chunks {
			chunks = append(chunks, b.Transpose(b.SliceAxis(x, 2, i*e.c, (i+1)*e.c), 0, 2, 1))
		}
		return b.Concat(0, chunks...)
	}
	n := x.Type.Size() / (v.Mapping.Chunks * e.c * d)
	return e.chunksFirst(b.Reshape(x, n, v.Mapping.Chunks, e.c, d))
}

// loadTokens is loadRows after the convolution of the spec, with zeros in the rows of other sequences.
func (e *tiles) loadTokens(o *operand) *ir.Value {
	if e.conv != nil {
		return e.conv.convolved(e.segment, e.blocks[o], o)
	}
	x := e.loadRows(o)
	if o.conv != nil {
		x = e.convolved(x, o.conv)
	}
	return e.own(x)
}

// blockHeads returns batch rows x heads of a window with heads before tokens: the product of all dimensions but the last two.
func (e *tiles) blockHeads(o *operand) int {
	n := 1
	for _, k := range o.block[:len(o.block)-2] {
		n *= k
	}
	return n
}

// chunksFirst swaps the leading dimension with the chunks after it, and merges all but the last two: [batch, chunks, heads, C, D] becomes
// [chunks batch heads, C, D]. Then the entries of one chunk are adjacent, as the state's products need them.
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

// loadGate converts a window of a gate to [N, C]. If a step reads all gates at once, it returns [C, Hv, B] f32, or [B, Hv] for few rows. A_log and dt_bias
// of all heads come as [1, Hv], and are broadcast to [C, Hv, B] or [B, Hv] like the gates.
func (e *tiles) loadGate(o *operand) *ir.Value {
	if l := e.slots[o]; l != nil {
		return newGated(e).each(l, o, func(one *gated, o *operand) *ir.Value { return one.loadGate(o) })
	}
	if !e.copying() {
		return e.b.Reshape(e.b.Convert(e.blocks[o], ir.F32), e.entries(), e.c)
	}
	x := e.b.Convert(e.blocks[o], ir.F32)
	switch {
	case x.Type.Rank() == 3:
		return x
	case e.few() && o == e.in.g || o == e.in.beta:
		return x
	case e.few():
		return e.b.Broadcast(e.b.Reshape(x, e.s.HeadsV), []int{e.s.Batch, e.s.HeadsV}, 1)
	}
	return e.Over(e.c, gate.Upright(e.b, x, e.s.Batch))
}

// ofStep selects the step's gates [C, N, lanes of a state] from all gates, [C, Hv, B] or [B, Hv].
//
// A gate is one number per token and head, far less than a register per step. So in a kernel that copies, each step reads the gates of all sequences,
// selects its rows by masked sums (gate.OfRows), and broadcasts them over the lanes of a state.
func (e *tiles) ofStep(x *ir.Value) *ir.Value { return e.rowsOfStep(x, e.striding()) }

// rowsOfStep is ofStep for rows at a stride of the number of steps, or adjacent.
func (e *tiles) rowsOfStep(x *ir.Value, strided bool) *ir.Value {
	b, n := e.b, e.v.Mapping.Batch
	r := gate.Rows{First: b.ProgramID(e.step), Count: n, Stride: e.s.Batch / n}
	if !strided {
		r.First, r.Stride = b.Mul(r.First, b.Const(ir.T(ir.I32), float64(n))), 1
	}
	if x.Type.Rank() == 2 {
		return gate.OfFew(b, x, r, e.state.Type.Shape[2])
	}
	return gate.OfRows(b, x, r, e.state.Type.Shape[2])
}

// kept returns the output [N, C, V] of a step, with zeros for sequences without a state in the pool.
func (e *tiles) kept(o *ir.Value) *ir.Value {
	if e.in.held == nil {
		return o
	}
	b, s := e.b, o.Type.Shape
	id := b.Convert(e.blocks[e.in.held], ir.F32)
	held := b.Reshape(e.rowsOfStep(b.Select(e.pool().Names(b, id), b.Like(id, 1), b.Like(id, 0)), true), e.v.Mapping.Batch, e.state.Type.Shape[2])
	held = b.Broadcast(b.SliceAxis(held, 1, 0, 1), []int{e.v.Mapping.Batch, e.v.Mapping.Heads, s[1], s[2]}, 0, 3)
	return b.Select(b.Reshape(b.Compare(ir.GT, held, b.Like(held, 0)), s...), o, b.Like(o, 0))
}

// loadMade converts a window of an earlier grid's result to [N, C, D].
func (e *tiles) loadMade(o *operand) *ir.Value {
	s := o.shape
	r, l := s[len(s)-2], s[len(s)-1]
	return e.chunksFirst(e.b.Reshape(e.blocks[o], e.v.Mapping.Batch, e.v.Mapping.Chunks, e.v.Mapping.Heads, r, l))
}

// made describes [N, R, L] as an output of this grid for a later one, [B, chunks, heads, R, L]; loadMade is its inverse.
func (e *tiles) made(x *ir.Value) blockOut {
	v, s := e.v, x.Type.Shape
	x = e.b.Reshape(x, v.Mapping.Chunks, v.Mapping.Batch, v.Mapping.Heads, s[1], s[2])
	if v.Mapping.Chunks > 1 && v.Mapping.Batch > 1 {
		x = e.b.Transpose(x, 1, 0, 2, 3, 4)
	}
	o := &operand{
		dtype: x.Type.DType,
		shape: join([]int{e.s.Batch, e.nc}, e.valueHeads(), s[1:]),
		axes:  join([]axis{axisBatch, axisChunk}, e.headAxes(), []axis{axisNone, axisNone}),
		block: join([]int{v.Mapping.Batch, v.Mapping.Chunks}, e.headBlock(), s[1:]),
	}
	return blockOut{e.b.Reshape(x, o.block...), o}
}

// outputs describes the outputs [batch x heads, C, V] of the chunks in flight as the grid's token outputs: one for all, or one per visit.
func (e *tiles) outputs(chunks []*ir.Value) []blockOut {
	if placesOf(e.plan) == 1 {
		return []blockOut{e.output(chunks)}
	}
	return e.ofSegments(chunks)
}

// output describes the outputs [batch x heads, C, V] of the chunks in flight as one token output.
func (e *tiles) output(chunks []*ir.Value) blockOut { return e.tokenRows(chunks, e.in.v, e.s.Out) }

// tokenRows describes [batch x heads, C, D] of each chunk in flight as a token output in an operand's layout: the inverse of loadRows.
func (e *tiles) tokenRows(chunks []*ir.Value, like *operand, d ir.DType) blockOut {
	b, v := e.b, e.v
	o := &operand{dtype: d, axes: like.axes, block: like.block, shape: like.value.Type.Shape}
	if e.visiting() {
		chunks = []*ir.Value{e.joined(chunks[0])}
	}
	if v.Layout == gdn.LayoutBHDT {
		for i, x := range chunks {
			chunks[i] = b.Transpose(b.Convert(x, d), 0, 2, 1)
		}
		return blockOut{b.Reshape(b.Concat(2, chunks...), o.block...), o}
	}
	// From [chunks, batch, heads, C, D] to [batch, chunks, C, heads, D], or with heads before tokens to [batch, heads, chunks, C, D].
	order := []int{1, 0, 3, 2, 4}
	if v.Layout == gdn.LayoutBHTD {
		order = []int{1, 2, 0, 3, 4}
	}
	x := b.Convert(b.Concat(0, chunks...), d)
	s := x.Type.Shape
	x = b.Reshape(x, len(chunks), v.Mapping.Batch, s[0]/(len(chunks)*v.Mapping.Batch), s[1], s[2])
	return blockOut{b.Reshape(b.Transpose(x, order...), o.block...), o}
}

// betaRows describes [N, C] as an output in beta's layout, also for the log decay: both have one number per token and value head.
func (e *tiles) betaRows(x *ir.Value) blockOut {
	like := e.in.beta
	x = e.joined(e.own(x))
	return blockOut{e.b.Reshape(x, like.block...), &operand{dtype: ir.F32, axes: like.axes, block: like.block, shape: like.value.Type.Shape}}
}

// perValue repeats key-head values for each value head of the program: Rule.PerValue, for loads.
func (e *tiles) perValue(x *ir.Value) *ir.Value { return tile.Repeated(e.b, x, e.gb) }
