package build

import (
	"cmp"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences by visits. A chunk is a visit: a block of tokens in place, for one of its sequences. Nothing is gathered, for any rule and in both
// directions. Rows of other sequences are made inert: zeros, with beta 0 and decay 1. So the chunk equals its sequence alone with padding, and no
// algorithm depends on visits:
//
//	inert are    K = 0       products with K do not see the row, and nothing is written along it
//	             Q = 0       its output is 0
//	             V, dO = 0   even NaN times 0 would be NaN
//	             g = 0       the decay of later rows ignores the row
//	             beta = 0    its row and column of the inverse are those of the identity
//
// Results for a visit's rows are joined with the results of earlier visits for other rows of the block, which the steps carry. Outputs for blocks of 8 and
// sequences of 5 and 6 tokens:
//
//	visit  block  rows   makes        carries     writes to the block
//	0      0      0..5   o0..o4 0 0 0  its own     o0..o4 0 0 0
//	1      0      5..8   0.. 0 o5..o7  both        o0..o7
//	2      1      0..3   o8..o10 0..   its own     o8..o10 0 ..
//
// Block 0 is written back once, when visit 2 goes on to the next block. Backwards the visits come in reverse, and rows of later sequences come
// first.
//
// A table gives the state of a sequence. Values saved by the forward pass are stored by visit, and the backward pass reads them from last to first.
// Outputs of padding after the last sequence are zero, or NaN if the state is not finite.

// visiting reports whether packed sequences are processed by visits.
func (p *plan) visiting() bool { return p.s.Seqs > 0 && p.v.Mapping.Pack == gdn.PackSegments }

// single is the schedule of the visits: a table for the windows of steps, and marks that each step reads for its visits.
type single struct {
	segments.Single
	table *ir.Value
	marks *operand
}

// newSingle makes the schedule of the visits, in traversal order.
func newSingle(p *plan) *single {
	x := &single{Single: segments.Single{Sequences: p.s.Seqs, Blocks: p.blocks(), Chunk: p.c, Segments: p.nc, Places: placesOf(p), Down: p.down}}
	table, marks := x.Make(p.b, p.args["cu_seqlens"])
	x.table, x.marks = table, &operand{value: marks, axes: []axis{axisStep, axisNone, axisNone}, block: []int{x.Places, segments.Rows, p.c}}
	return x
}

// ran returns which visits must run, bool [visits]. Arrays stored by visit are undefined for the others.
func (x *single) ran(b *ir.Builder) *ir.Value {
	number := b.Iota(ir.T(ir.I32, x.Segments), 0)
	return b.Compare(ir.LT, number, b.Broadcast(b.SliceAxis(x.table, 0, 0, 1), number.Type.Shape, 0))
}

// tokenAxis returns the axis along which blocks of tokens move.
func (p *plan) tokenAxis() axis {
	if p.visiting() {
		return axisBlock
	}
	return axisChunk
}

// placesOf returns the number of visits per step. Their work without the state is interleaved, as for chunks in flight; then they pass through the
// state in order. With several visits, each has its own windows on operands placed by a table (perSegment). Outputs and states are
// written when the table says that they are complete, so visits of one block or sequence may be in one step.
func placesOf(p *plan) int {
	if p.visiting() {
		return p.v.Mapping.Chunks
	}
	return 1
}

// perSegment returns an operand for each visit of a step; one operand if all share it, or if it is stored by visit, like saved values.
func (x *gridding) perSegment(o *operand, leaves bool) []*operand {
	n := placesOf(x.plan)
	if n == 1 || !slices.ContainsFunc(o.axes, func(a axis) bool { return a == axisSeq || a == axisBlock }) {
		return []*operand{o}
	}
	l := make([]*operand, n)
	for j := range l {
		y := *o
		y.place, y.conditional = j, leaves
		l[j] = &y
	}
	return l
}

// firsts returns one output of a step per array. Outputs of later visits write to the same arrays, as arraysOf says.
func firsts(outs []blockOut) []blockOut {
	return slices.DeleteFunc(slices.Clone(outs), func(o blockOut) bool { return o.operand.place > 0 })
}

func arraysOf(outs []blockOut) (arrays []int) {
	n := -1
	for _, o := range outs {
		if o.operand.place == 0 {
			n++
		}
		arrays = append(arrays, n)
	}
	return arrays
}

// looked returns an index by a table for a chunk: its sequence, block, or number. For gathered chunks the table has only the sequence,
// since they are in order.
func (x *gridding) looked(a axis, place int, leaves bool) ir.Index {
	if !x.visiting() {
		return ir.IndexTable(x.at[axisChunk], 0)
	}
	columns := map[axis]int{axisSeq: segments.OneSequence, axisBlock: segments.OneBlock, axisChunk: segments.OneSegment}
	if leaves {
		columns = map[axis]int{axisSeq: segments.OneClosed, axisBlock: segments.OneDone}
	}
	return x.in.single.Entry(x.at[axisChunk], columns[a], place)
}

// mark returns the marks of the visits of a step.
func (e *tiles) mark() *segments.Marks {
	o := e.in.single.marks
	m := &segments.Marks{Builder: e.b}
	n := o.block[0]
	if n == 1 {
		m.Tiles = []*ir.Value{e.b.Reshape(e.blocks[o], o.block[1:]...)}
		return m
	}
	all := e.b.Reshape(e.blocks[o], n*segments.Rows, e.c)
	for j := range n {
		m.Tiles = append(m.Tiles, e.b.SliceAxis(all, 0, j*segments.Rows, (j+1)*segments.Rows))
	}
	return m
}

// tokensOf returns the token index of each element of a shape [N, C, D] or [N, C], as [C, D] or [N, C].
func (e *tiles) tokensOf(s []int) *ir.Value {
	if len(s) == 2 {
		return e.Iota(s[0], s[1], 1)
	}
	return e.Iota(s[1], s[2], 0)
}

// own zeroes the rows of x [N, C, D], or the lanes of x [N, C], of other sequences. The mask is made of integer words, since bool values cannot
// pass between phases, and K and V are needed in several.
func (e *tiles) own(x *ir.Value) *ir.Value {
	if !e.visiting() || x == nil {
		return x
	}
	b, s := e.b, slices.Clone(x.Type.Shape)
	n := placesOf(e.plan)
	s[0] /= n
	var masks []*ir.Value // per visit, over its entries
	for j := range n {
		within := func(token *ir.Value) *ir.Value { return e.mark().Within(j, segments.OneFirst, segments.OneEnd, token) }
		if x.Type.DType == ir.BF16 { // two rows per word
			masks = append(masks, e.Over(s[0], e.WordsWhere(s[1], s[2], func(row, _ *ir.Value) *ir.Value { return within(row) })))
			continue
		}
		token := e.tokensOf(s)
		t := ir.T(ir.U32, token.Type.Shape...)
		mask := b.Select(within(token), b.Const(t, 0xffff_ffff), b.Const(t, 0))
		if len(s) == 3 {
			mask = e.Over(s[0], mask)
		}
		masks = append(masks, mask)
	}
	mask := masks[0]
	if n > 1 {
		mask = b.Concat(0, masks...)
	}
	if x.Type.DType == ir.BF16 {
		return b.Halves(b.And(b.Words(x), mask))
	}
	return b.Bitcast(b.And(b.Bitcast(x, ir.U32), mask), ir.F32)
}

// ofSegments describes outputs [heads, C, V] of the visits of a step, each with its own window.
func (e *tiles) ofSegments(chunks []*ir.Value) (outs []blockOut) {
	var before *ir.Value
	for j, x := range chunks {
		one := e.ofOne()
		one.segment, one.before = j, before
		out := one.output([]*ir.Value{x})
		out.operand.place, out.operand.conditional, before = j, true, one.held[0]
		outs = append(outs, out)
	}
	e.held = append(e.held, before)
	return outs
}

// joined combines x, a visit's result for rows [N, C, D] or lanes [N, C] of tokens, with earlier visits' results for the block. Going up, rows before
// the visit's own are kept; going down, rows after them. The remaining rows come later or belong to no sequence.
func (e *tiles) joined(x *ir.Value) *ir.Value {
	if !e.visiting() {
		return x
	}
	b, token := e.b, e.tokensOf(x.Type.Shape)
	kept := e.mark().At(e.segment, segments.OneKept, token.Type.Shape[0], token.Type.Shape[1])
	relation := ir.LT
	if e.down {
		relation = ir.GE
	}
	keeps := b.Compare(relation, token, kept)
	if s := x.Type.Shape; len(s) == 3 {
		keeps = e.Over(s[0], keeps)
	}
	before := e.before
	if before == nil {
		before = e.carried(x.Type)
	}
	x = b.Select(keeps, before, x)
	e.held = append(e.held, x)
	return x
}

// carried adds a carry of a type for each program, and returns the value that the previous visit left.
func (e *tiles) carried(t ir.Type) *ir.Value {
	return e.b.Reshape(e.b.Param("", ir.T(t.DType, join(ones(e.step), t.Shape)...)), t.Shape...)
}

// enter returns the state before a visit: left, the previous visit's final state (nil: from the previous step), or for a sequence's first visit
// its initial state (begins; nil: zeros).
//
// It is not a carry by the table of sequences, as for gathered chunks. That would need a branch in the body of each step, and a copy of the array of
// states before the kernel to keep unused blocks. Here each sequence has a visit, so each state is written.
func (x *gridding) enter(e *tiles, visit int, begins, left *ir.Value) *ir.Value {
	b := e.b.Stage("enter")
	if visit > 0 {
		b = e.b.At(ir.Task{Stage: "enter", Chunk: visit, Head: -1})
	}
	n := x.v.Mapping.Batch * x.v.Mapping.Heads
	r := len(x.state.block)
	rows, lanes := x.state.block[r-2], x.state.block[r-1]
	state := left
	if state == nil {
		state = e.carried(ir.T(ir.F32, n, rows, lanes))
	}
	enters := e.mark().At(visit, segments.OneEnters, rows, lanes)
	return b.Select(e.Over(n, b.Compare(ir.GT, enters, b.Like(enters, 0))), cmp.Or(begins, b.Like(state, 0)), state)
}

// storesStates reports whether final states, or the gradients of initial ones, are outputs.
func (x *gridding) storesStates() bool { return x.s.Final && !x.down || x.s.Init && x.down }

// carries adds values to the grid's carries, per program.
func (x *gridding) carries(e *tiles, values []*ir.Value) (next []*ir.Value) {
	for _, y := range values {
		y = e.b.Reshape(y, join(ones(e.step), y.Type.Shape)...)
		w := ir.Window{Block: y.Type.Shape}
		for d := range w.Block {
			at := ir.IndexConst(0)
			if d < e.step {
				at = ir.IndexAxis(d)
			}
			w.Index = append(w.Index, at)
		}
		x.grid.Carry, next = append(x.grid.Carry, w), append(next, y)
	}
	return next
}
