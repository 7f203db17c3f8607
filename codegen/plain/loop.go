package plain

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// gridLoop is a grid as a loop over its sequential axis. The loop's state holds the output arrays, then the block of each carry. If the
// block varies, the array of its final blocks follows. All are in staged form (view).
//
// A carry's block is loaded when its window's index changes, and stored before it changes, as for every grid. If the window does not
// move with the steps, such as the state of a head over its chunks, the block just passes from step to step. A table may move it, as
// with packed sequences: the state changes where the next sequence begins. Then a step compares its index with the step before. If it
// changed, the block comes from the initial array, else from the last step. Each step writes its block to the array of final blocks; the
// last write of a sequence remains. So no step looks ahead.
//
//	steps           0    1    2    3        blocks by the table: 0 0 1 1
//	block           I[0] s0   I[1] s2       I: initial blocks, si: the block that step i made
//	writes to final F[0] F[0] F[1] F[1]
type gridLoop struct {
	*batcher
	in                 *ir.Instr
	ins, outs, carries []*view
	staged             []*ir.Value // inputs
	initial, fresh     []*ir.Value // carries before the first step: as operands, and in staged form
	arrays             []*view     // the first window of each output array
	base               []*ir.Value // the value of each array before the loop, its alias; nil: none
	slot               []int       // index of each carry's block in the state
}

// newGridLoop prepares the windows. A grid's operands are its tables, its inputs and its initial carries, in this order. Inputs and
// carries are staged here, before the loop, so once and not in each step.
func newGridLoop(b *batcher, in *ir.Instr, args []*ir.Value) *gridLoop {
	g := b.g
	tables, inputs, initial := args[:g.Tables], args[g.Tables:][:len(g.In)], args[g.Tables+len(g.In):][:len(g.Carry)]
	l := &gridLoop{batcher: b, in: in, initial: initial, base: make([]*ir.Value, len(g.Out))}
	for i, w := range g.In {
		l.ins = append(l.ins, b.view(fmt.Sprintf("input %d", i), w, inputs[i].Type, tables))
	}
	for i, w := range g.Out {
		l.outs = append(l.outs, b.view(fmt.Sprintf("output %d", i), w, g.Outs[i], tables))
	}
	for i, w := range g.Carry {
		l.carries = append(l.carries, b.view(fmt.Sprintf("carry %d", i), w, initial[i].Type, tables))
	}
	for i, w := range l.ins {
		l.staged = append(l.staged, w.split(inputs[i]))
	}
	for i, w := range l.carries {
		l.fresh = append(l.fresh, w.split(initial[i]))
	}
	// An output with an alias starts as that input: blocks that no window writes keep their values.
	for _, a := range g.Alias {
		l.base[a[0]] = inputs[a[1]]
	}
	return l
}

// results emits the loop and returns the values of the grid's results; after an error, nil values.
//
// With two output windows in one array, and carries A, whose block does not vary, and B, whose block a table selects, the state is
//
//	[array 0, block of A, block of B, final blocks of B]      slot = [1, 2]
//
// and the results are array 0, A and B, each joined from staged form. B is joined from its final blocks, not from the block of the last
// step.
func (l *gridLoop) results() []*ir.Value {
	b, steps := l.batcher, 1
	if n := len(b.g.Dims); n > 0 && b.g.Dims[n-1].Seq {
		steps = b.g.Dims[n-1].Size
	}
	state := l.start()
	switch {
	case b.Err() != nil:
	// An axis of one step has the id 0, which view treats as a constant: no loop, and no slices at run-time indices.
	case steps == 1:
		state = l.point(b.Builder, nil, state)
	default:
		state = b.Loop(steps, state, l.point)
	}
	if b.Err() != nil {
		return make([]*ir.Value, len(l.in.Results))
	}
	// The builder still has the task of the body's last instruction; the rest belongs to the grid.
	b.Of(l.in)
	var out []*ir.Value
	for a, w := range l.arrays {
		out = append(out, w.join(state[a], l.base[a]))
	}
	for i, w := range l.carries {
		final := state[l.slot[i]]
		if w.varies() {
			final = state[l.slot[i]+1]
		}
		out = append(out, w.join(final, l.initial[i]))
	}
	return out
}

// start returns the state before the first step.
func (l *gridLoop) start() []*ir.Value {
	b := l.batcher
	var state []*ir.Value
	for i, w := range l.outs {
		// Arrays are numbered in the order of their first windows, so array a is entry a of the state. A later window of an array has no
		// entry. It must cut the array like the first, since there is one staged form.
		a := b.g.Array(i)
		if a < len(l.arrays) {
			if !slices.EqualFunc(l.arrays[a].cut, w.cut, cut.alike) {
				b.Failf("grid %s: output window %d moves along other dimensions than an earlier one of its array", b.g.Name, i)
			}
			continue
		}
		l.arrays = append(l.arrays, w)
		if l.base[a] != nil {
			state = append(state, w.split(l.base[a]))
		} else {
			// These zeros are never read: windows must cover an output without alias.
			state = append(state, b.Const(ir.T(b.g.Outs[i].DType, w.stagedShape()...), 0))
		}
	}
	for i, w := range l.carries {
		l.slot = append(l.slot, len(state))
		// The block before the first step is never read, since the first step counts as a change. The final blocks start as the initial
		// ones, for blocks that no point shows.
		if w.varies() {
			state = append(state, b.Const(ir.T(l.initial[i].Type.DType, w.stagedBlock()...), 0))
		}
		state = append(state, l.fresh[i])
	}
	return state
}

// point emits all points of one step at once, from its state to the next. step is nil without a sequential axis: there is no loop, and
// every window is read at a constant position.
//
// Two points of h with block [1,4,8] are [2,4,8] in staged form and [2,1,4,8] in the body, whose ops expect the dimension of 1. Outputs
// are converted back.
func (l *gridLoop) point(nb *ir.Builder, step *ir.Value, state []*ir.Value) []*ir.Value {
	b := l.batcher
	// The batcher emits into the loop's body until this returns.
	defer func(old *ir.Builder) { b.Builder, b.step = old, nil }(b.Builder)
	b.Builder, b.step = nb, step
	b.Of(l.in)
	for i, w := range l.ins {
		block := l.shown(w, l.staged[i], w.scalars(step))
		b.env[l.in.Body.Params[i]] = batched{b.Reshape(block, w.fullBlock()...), w.on()}
	}
	at := make([][]*ir.Value, len(l.carries))
	for i, w := range l.carries {
		at[i] = w.scalars(step)
		block := l.carried(i, step, at[i], state[l.slot[i]])
		b.env[l.in.Body.Params[len(l.ins)+i]] = batched{b.Reshape(block, w.fullBlock()...), w.on()}
	}
	b.block(l.in.Body)
	if b.Err() != nil {
		// The builder has its error; the loop only needs as many values as it carries.
		return state
	}
	b.Of(l.in)
	next := slices.Clone(state)
	for i := range l.outs {
		// From next, not state: windows of one array write one after another, and the last one wins.
		a := b.g.Array(i)
		next[a] = l.written(i, step, next[a])
	}
	for i, w := range l.carries {
		y := w.fit(b.value(l.in.Body.Yield[len(l.outs)+i]))
		if next[l.slot[i]] = y; w.varies() {
			next[l.slot[i]+1] = w.write(state[l.slot[i]+1], y, at[i])
		}
	}
	return next
}

// shown returns the block of an input at a step; zeros for a block number out of range, in grids with Copies.
//
// A dyn_slice clamps its start. So a decode whose table has -1, for a sequence without a state, would read state 0 of the pool, and a
// number beyond the pool the last one: states of other sequences.
func (l *gridLoop) shown(w *view, staged *ir.Value, idx []*ir.Value) *ir.Value {
	b, x := l.batcher, w.read(staged, idx)
	if b.g.Copies == 0 || !slices.ContainsFunc(w.w.Index, func(x ir.Index) bool { return x.Table >= 0 }) {
		return x
	}
	for i, at := range idx {
		x = b.Select(b.Broadcast(b.below(at, w.counts()[i]), x.Type.Shape), x, b.Like(x, 0))
	}
	return x
}

// below emits 0 <= i < n for a scalar. Tables use -1 for "no block", and a number beyond the array counts as one too.
func (b *batcher) below(i *ir.Value, n int) *ir.Value {
	return b.And(b.Compare(ir.GE, i, b.scalar(0)), b.Compare(ir.LT, i, b.scalar(n)))
}

// carried returns the block of a carry at a step: the block of the step before or, if the window has moved since, the initial block.
//
// Blocks are loaded from the initial carry, never from the final one. So a window that returns to a block starts it again, and no step
// reads a block stored by another.
func (l *gridLoop) carried(i int, step *ir.Value, at []*ir.Value, handed *ir.Value) *ir.Value {
	w := l.carries[i]
	if !w.varies() {
		return handed
	}
	block := w.read(l.fresh[i], at)
	if step == nil {
		return block
	}
	if changed := w.changed(at, step); changed != nil {
		block = l.Select(changed, block, handed)
	}
	return block
}

// written returns an output array after the write of a window's yielded value. If windows share the array, a block number out of range
// writes nothing: the old block is written back. read and write clamp a start alike, so they use the same block. A condition around the
// write would need a branch, which no plain op is.
func (l *gridLoop) written(i int, step, array *ir.Value) *ir.Value {
	b, w := l.batcher, l.outs[i]
	idx, x := w.scalars(step), w.fit(b.value(l.in.Body.Yield[i]))
	if b.g.Into != nil {
		for i, at := range idx {
			x = b.Select(b.Broadcast(b.below(at, w.counts()[i]), x.Type.Shape), x, w.read(array, idx))
		}
	}
	return w.write(array, x, idx)
}
