package build

import (
	"cmp"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences by visits. A chunk is a visit of a block of tokens as they lie by one of the sequences that share it, so nothing is
// gathered, for any rule and in both directions. Rows of other sequences are inert in it: they are zeros, whatever they were, with beta 0
// and decay 1. So the chunk is what it would be if its sequence were alone and padded, and no algorithm knows of visits:
//
//	inert are    K = 0       no product with K sees the row, and nothing is written along it
//	             Q = 0       its output is 0
//	             V, dO = 0   even NaN times 0 would be NaN
//	             g = 0       the decay of the rows behind it starts as if it were not there
//	             beta = 0    its row and its column of the inverse are those of the unit matrix
//
// What a visit makes for its rows joins what the visits before it made for others of the block, which the steps carry. With blocks of 8, and
// sequences of 5 and 6 tokens, outputs pass so:
//
//	visit  block  rows   makes        carries     writes to the block
//	0      0      0..5   o0..o4 0 0 0  its own     o0..o4 0 0 0
//	1      0      5..8   0.. 0 o5..o7  both        o0..o7
//	2      1      0..3   o8..o10 0..   its own     o8..o10 0 ..
//
// Block 0 leaves vector memory once, when visit 2 goes on to another. Backwards, the visits come in reverse, and rows of later sequences are
// there first.
//
// The state of a sequence is found by a table. What the forward pass keeps lies by visits, and the backward pass walks them from the last to
// the first. Tokens that are of no sequence, behind the last, get zeros, or what zeros make of a state that is not finite.

// visiting says whether packed sequences are taken by visits.
func (p *plan) visiting() bool { return p.s.Seqs > 0 && p.v.Mapping.Pack == gdn.PackSegments }

// single is the schedule of the visits: a table of the steps, which is read before them, and marks of each visit, which its step has as a window.
type single struct {
	segments.Single
	table *ir.Value
	marks *operand
}

// newSingle makes the schedule of the visits, in the order of the walk.
func newSingle(p *plan) *single {
	x := &single{Single: segments.Single{Sequences: p.s.Seqs, Blocks: p.blocks(), Chunk: p.c, Segments: p.nc, Places: placesOf(p), Down: p.down}}
	table, marks := x.Make(p.b, p.args["cu_seqlens"])
	x.table, x.marks = table, &operand{value: marks, axes: []axis{axisStep, axisNone, axisNone}, block: []int{x.Places, segments.Rows, p.c}}
	return x
}

// ran says which visits must run: bool [visits]. What others leave in arrays that are kept by visits is undefined.
func (x *single) ran(b *ir.Builder) *ir.Value {
	number := b.Iota(ir.T(ir.I32, x.Segments), 0)
	return b.Compare(ir.LT, number, b.Broadcast(b.SliceAxis(x.table, 0, 0, 1), number.Type.Shape, 0))
}

// tokenAxis is the axis along which blocks of tokens follow one another.
func (p *plan) tokenAxis() axis {
	if p.visiting() {
		return axisBlock
	}
	return axisChunk
}

// placesOf is how many visits a step has. What needs no state is done for all of them interleaved, as for chunks in flight; then they go through the
// state one after another. Where there are several, each has windows of its own on what a table places (perSegment), and outputs and states are
// written when the table says that they are complete: what shares a block, or a sequence, may be in one step.
func placesOf(p *plan) int {
	if p.visiting() {
		return p.v.Mapping.Chunks
	}
	return 1
}

// perSegment is an operand as each visit of a step sees it; one where it is the same for all, or lies by visits, as what is kept does.
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

// firsts are the outputs of a step with one of each array: outputs of later visits write to the arrays of the first, as arraysOf says.
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

// looked is the index of what a table says of a chunk: its sequence, its block, or its number. Of chunks that are gathered a table has the sequence
// alone, since they are in their order.
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

// mark is the marks of the visits of a step.
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

// tokensOf is the token of each element of a shape [N, C, D] or [N, C]: [C, D], or [N, C].
func (e *tiles) tokensOf(s []int) *ir.Value {
	if len(s) == 2 {
		return e.Iota(s[0], s[1], 1)
	}
	return e.Iota(s[1], s[2], 0)
}

// own clears the rows of x [N, C, D], or the lanes of x [N, C], that are of other sequences. The mask is of words, where a condition would do, since
// conditions can not pass between phases: K and V are wanted in several.
func (e *tiles) own(x *ir.Value) *ir.Value {
	if !e.visiting() || x == nil {
		return x
	}
	b, s := e.b, slices.Clone(x.Type.Shape)
	n := placesOf(e.plan)
	s[0] /= n
	var masks []*ir.Value // of each visit, over its entries
	for j := range n {
		within := func(token *ir.Value) *ir.Value { return e.mark().Within(j, segments.OneFirst, segments.OneEnd, token) }
		if x.Type.DType == ir.BF16 { // two rows a word
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

// ofSegments describes outputs [heads, C, V] of the visits of a step, each with a window of its own.
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

// joined is x, what a visit makes for rows [N, C, D] or lanes [N, C] of tokens, with what visits before it made for others of the block. Rows before
// its own are kept going up, those behind it going down: what else the visit has no rows of comes later, or is of nobody.
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

// carried is what the visit before left of a type, of each program: a carry more.
func (e *tiles) carried(t ir.Type) *ir.Value {
	return e.b.Reshape(e.b.Param("", ir.T(t.DType, join(ones(e.step), t.Shape)...)), t.Shape...)
}

// enter is the state before a visit: what the visit before left, nil of a step before, or, where it is the first of its sequence, what the
// sequence begins with, nil for zeros.
//
// It is no carry by the table of sequences, as where chunks are gathered: then a sequence begins with a branch in the body of each step, and the array of
// states, whose unvisited blocks must stay, is copied before the kernel. Here each sequence has a visit, so each state is written.
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

// storesStates says whether somebody wants the states that sequences leave: final states, or the gradients of initial ones.
func (x *gridding) storesStates() bool { return x.s.Final && !x.down || x.s.Init && x.down }

// carries has the grid carry values by programs.
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
