package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// view is a window of an operand as the batched program sees it. Each dimension d of the operand is cut into a block
// count and the block. The staged form of the operand has, in order: the block counts of the dimensions whose index is a
// scalar known only at a step, the parallel axes of the window, and the dimensions of the block that are not 1.
//
// The loop's index comes first so that what a step takes is one piece of memory; a slice in the middle of a tensor is a copy by rows on a
// CPU, in each step. Dimensions of 1 are left out, since compilers make copies to change their order.
type view struct {
	b      *batcher
	what   string
	w      ir.Window
	whole  ir.Type
	tables []*ir.Value
	cut    []cut
}

// How a dimension's block index is known.
// Blocks [2, 8] of x f32[6, 8], by the index of dimension 0, and what becomes of it:
//
//	1                    fixed     a slice, f32[2,8]
//	h, h:3               plain     a reshape, f32[3,2,8]: block i is that of point i
//	max(h - 1, 0)        picked    reshaped, and gathered by [0 0 1]
//	c, c:3:seq           dynamic   reshaped, and in each step a dyn_slice at c
type kind uint8

const (
	fixed   kind = iota // the constant at
	plain               // the id of the parallel axis at: the first blocks, in order
	picked              // a function of the parallel axis at, shifted, clamped, reversed or looked up: by gathering
	dynamic             // a scalar of the step, or a table's entry
)

type cut struct {
	kind kind
	at   int
	n    int // block count in the staged form, the axis's size for plain and picked
}

// alike tells whether two windows of one array have the same staged form in this dimension. Which block a step takes is its own matter:
// t0[0] and t0[1] of decode, whose states come two a step, are alike.
func (c cut) alike(d cut) bool {
	if c.kind == dynamic {
		c.at = d.at
	}
	return c == d
}

// view sorts the dimensions of a window of an operand of type t by how their index is known. what names the window in errors.
func (b *batcher) view(what string, w ir.Window, t ir.Type, tables []*ir.Value) *view {
	v := &view{b: b, what: what, w: w, whole: t, tables: tables}
	var seen axes
	for d, x := range w.Index {
		c := cut{kind: fixed, at: x.Const, n: 1}
		if x.Axis >= 0 {
			dim := b.g.Dims[x.Axis]
			last := max(dim.Size-1+x.Shift, 0)
			// A clamp that no id reaches is none: that of a reversed index, for one, where Max only says from which block to count down.
			clamped := x.Max >= 0 && x.Max < last
			switch {
			// The id is 0, so the index is the constant that ir.Index makes of it, step by step.
			case dim.Size == 1:
				c.at = max(x.Shift, 0)
				if clamped {
					c.at = x.Max
				}
				if x.Down {
					c.at = x.Max - c.at
				}
				c.at = c.at/max(x.Every, 1) + x.Const
			case dim.Seq:
				c = cut{kind: dynamic}
			case x.Shift == 0 && x.Const == 0 && !clamped && !x.Down && x.Every < 2 && x.Table < 0:
				c = cut{plain, x.Axis, dim.Size}
			default:
				c = cut{picked, x.Axis, dim.Size}
			}
		}
		// Which entry is known, but what is there only when the program runs.
		if c.kind == fixed && x.Table >= 0 {
			c = cut{kind: dynamic, at: c.at}
		}
		// All blocks of the operand, since any may be asked for.
		if c.kind == dynamic {
			c.n = t.Shape[d] / w.Block[d]
		}
		if c.kind == plain || c.kind == picked {
			// Such a window is the diagonal of the blocks. The staged form has one dimension for an axis, and can not say that.
			if seen>>c.at&1 == 1 {
				b.Failf("grid %s: %s: two dimensions of the window follow the parallel axis %s; cut one of them into blocks in the body", b.g.Name, what, b.g.Dims[c.at].Name)
			}
			seen |= 1 << c.at
		}
		v.cut = append(v.cut, c)
	}
	return v
}

// on is the set of parallel axes of the window.
func (v *view) on() axes {
	var s axes
	for _, c := range v.cut {
		if c.kind == plain || c.kind == picked {
			s |= 1 << c.at
		}
	}
	return s
}

// varies tells whether the block is known only at a step.
//
// By constants and parallel axes a window shows the same blocks in all steps: a carry of that kind is handed on, without an array of final blocks.
func (v *view) varies() bool { return len(v.counts()) > 0 }

// counts are the block counts of the dynamic dimensions.
func (v *view) counts() []int {
	var n []int
	for _, c := range v.cut {
		if c.kind == dynamic {
			n = append(n, c.n)
		}
	}
	return n
}

// stagedShape is the shape of the staged form: for the package's example [3, 2, 4, 8], its steps, points of h, and the block [1, 4, 8] without its 1.
func (v *view) stagedShape() []int { return append(v.counts(), v.stagedBlock()...) }

// stagedBlock is the shape of a step's blocks in the staged form; fullBlock that in the body.
func (v *view) stagedBlock() []int {
	var wide []int
	for _, n := range v.w.Block {
		if n != 1 {
			wide = append(wide, n)
		}
	}
	return v.b.sizes(v.on(), wide...)
}

func (v *view) fullBlock() []int { return v.b.sizes(v.on(), v.w.Block...) }

// order gives, for each dimension of the staged form, its position among the cut dimensions (count 0, block 0, count 1,
// block 1, ...; fixed dimensions have no count). For the window of the package's example, with dimension 0 plain, 1 dynamic and 2 fixed,
// cut dimensions are [2, 1, 3, 4, 8] at positions 0 to 4, and the order is 2, 0, 1, 3, 4: the steps, the points, and the block.
func (v *view) order() []int {
	pos, next := make([][2]int, len(v.cut)), 0
	for d, c := range v.cut {
		if c.kind != fixed {
			pos[d][0] = next
			next++
		}
		pos[d][1] = next
		next++
	}
	var out []int
	for d, c := range v.cut {
		if c.kind == dynamic {
			out = append(out, pos[d][0])
		}
	}
	for _, a := range v.on().list() {
		for d, c := range v.cut {
			if (c.kind == plain || c.kind == picked) && c.at == a {
				out = append(out, pos[d][0])
			}
		}
	}
	for d := range v.cut {
		out = append(out, pos[d][1])
	}
	return out
}

// region is the part of the operand that the blocks of the staged form cover, picked dimensions counting whole.
//
// For a window on the second half of a joined operand [K; Q] only that half is cut and transposed, and join writes it back into the rest. Of picked
// dimensions all blocks stay: which of them are asked for, a table may say.
func (v *view) region() (lo, hi []int) {
	for d, c := range v.cut {
		n, at := c.n, 0
		switch c.kind {
		case fixed:
			at = c.at
		case picked:
			n = v.whole.Shape[d] / v.w.Block[d]
		}
		lo, hi = append(lo, at*v.w.Block[d]), append(hi, (at+n)*v.w.Block[d])
	}
	return lo, hi
}

// cutShape is the shape of the region with its counts apart; whole tells whether picked dimensions keep all blocks.
func (v *view) cutShape(whole bool) []int {
	var s []int
	for d, c := range v.cut {
		if n := c.n; c.kind != fixed {
			if c.kind == picked && whole {
				n = v.whole.Shape[d] / v.w.Block[d]
			}
			s = append(s, n)
		}
		s = append(s, v.w.Block[d])
	}
	return s
}

// split gives the staged form of an operand.
//
// It cuts off what no block covers, cuts each dimension into a count and a block, gathers where points pick their blocks, and brings counts to
// the front.
func (v *view) split(x *ir.Value) *ir.Value {
	b := v.b
	lo, hi := v.region()
	if !slices.Equal(hi, x.Type.Shape) || slices.Max(append([]int{0}, lo...)) > 0 {
		x = b.Slice(x, lo, hi)
	}
	x = b.Reshape(x, v.cutShape(true)...)
	// The position among the cut dimensions: two for a dimension with a count, one for a fixed one.
	at := 0
	for d, c := range v.cut {
		if c.kind == picked {
			x = b.GatherRows(x, v.vector(d), at)
		}
		if c.kind != fixed {
			at++
		}
		at++
	}
	return b.Reshape(b.permute(x, v.order()), v.stagedShape()...)
}

// permute transposes, unless the order is already right.
func (b *batcher) permute(x *ir.Value, perm []int) *ir.Value {
	if slices.IsSorted(perm) {
		return x
	}
	return b.Transpose(x, perm...)
}

// vector is the block index of picked dimension d at every point of its axis.
func (v *view) vector(d int) *ir.Value {
	x := v.w.Index[d]
	i := v.clamped(v.b.Iota(ir.T(ir.I32, v.cut[d].n), 0), x)
	if x.Table >= 0 {
		i = v.b.Take(v.tables[x.Table], i, 0)
	}
	return i
}

// clamped applies shift, clamp, direction, the points of a block and the constant to ids.
//
// The order is that of ir.Index, whose bound below only matters where a shift is negative. A table comes after it, by who asks.
func (v *view) clamped(i *ir.Value, x ir.Index) *ir.Value {
	b := v.b
	if x.Shift != 0 {
		i = b.Max(b.Add(i, b.Like(i, float64(x.Shift))), b.Like(i, 0))
	}
	if x.Max >= 0 && x.Max < b.g.Dims[x.Axis].Size-1+x.Shift {
		i = b.Min(i, b.Like(i, float64(x.Max)))
	}
	if x.Down {
		i = b.Sub(b.Like(i, float64(x.Max)), i)
	}
	if x.Every > 1 {
		i = b.Div(i, b.Like(i, float64(x.Every)))
	}
	if x.Const != 0 {
		i = b.Add(i, b.Like(i, float64(x.Const)))
	}
	return i
}

// scalars are the block indices of the dynamic dimensions at a step.
func (v *view) scalars(step *ir.Value) []*ir.Value {
	var out []*ir.Value
	for d, c := range v.cut {
		if c.kind != dynamic {
			continue
		}
		x := v.w.Index[d]
		i := v.b.scalar(c.at)
		if x.Axis >= 0 && v.b.g.Dims[x.Axis].Size > 1 {
			i = v.clamped(step, x)
		}
		if x.Table >= 0 {
			// One entry, [1], then a scalar.
			t := v.b.Append(ir.OpDynSlice, []*ir.Value{v.tables[x.Table], i}, ir.Attrs{}, nil, ir.T(ir.I32, 1))[0]
			i = v.b.Reshape(t)
		}
		out = append(out, i)
	}
	return out
}

// changed tells whether the block differs from the previous step's, as a bool scalar; nil where it always does, as where the index is the step
// itself. At the first step there is none before, and that step is asked in its place: hence the comparison with 0.
func (v *view) changed(idx []*ir.Value, step *ir.Value) *ir.Value {
	b := v.b
	// Without a table, a clamp that holds it, a shift below zero, which gives 0 to several steps, or several points of one block, the index is another in each step.
	for d, c := range v.cut {
		if x := v.w.Index[d]; c.kind == dynamic && x.Axis >= 0 && x.Table < 0 && x.Every < 2 && x.Shift >= 0 && (x.Max < 0 || x.Max >= b.g.Dims[x.Axis].Size-1+x.Shift) {
			return nil
		}
	}
	before := b.Max(b.Sub(step, b.scalar(1)), b.scalar(0))
	changed := b.Compare(ir.EQ, step, b.scalar(0))
	for i, old := range v.scalars(before) {
		changed = b.Or(changed, b.Compare(ir.NE, idx[i], old))
	}
	return changed
}

// starts completes the indices of dynamic dimensions to those of the staged form.
func (v *view) starts(idx []*ir.Value) []*ir.Value {
	zero := v.b.scalar(0)
	out := slices.Clone(idx)
	for range len(v.stagedShape()) - len(idx) {
		out = append(out, zero)
	}
	return out
}

// read takes the blocks of a step out of the staged form.
func (v *view) read(staged *ir.Value, idx []*ir.Value) *ir.Value {
	if len(idx) == 0 {
		return staged
	}
	b, block := v.b, v.stagedBlock()
	one := append(filled(len(idx), 1), block...)
	x := b.Append(ir.OpDynSlice, append([]*ir.Value{staged}, v.starts(idx)...), ir.Attrs{}, nil, ir.T(staged.Type.DType, one...))[0]
	return b.Reshape(x, block...)
}

// write puts the blocks of a step into the staged form.
//
// Where nothing is known only at a step, the blocks are all there is, and take the place of what was.
func (v *view) write(staged, x *ir.Value, idx []*ir.Value) *ir.Value {
	if len(idx) == 0 {
		return x
	}
	b := v.b
	x = b.Reshape(x, append(filled(len(idx), 1), x.Type.Shape...)...)
	return b.Append(ir.OpDynUpdate, append([]*ir.Value{staged, x}, v.starts(idx)...), ir.Attrs{}, nil)[0]
}

// fit brings a yielded value to the window's axes and the staged block.
//
// Points along an axis that the window lacks would write one block, and no order says which of them counts. A value on fewer axes is well: all
// points write the same.
func (v *view) fit(x batched) *ir.Value {
	for _, a := range (x.on &^ v.on()).list() {
		v.b.Failf("grid %s: %s: points along the parallel axis %s write the same block; name the axis in the window or make it sequential", v.b.g.Name, v.what, v.b.g.Dims[a].Name)
		return x.v
	}
	return v.b.Reshape(v.b.align(x, v.on()), v.stagedBlock()...)
}

// join is the inverse of split: the operand from its staged form. What no block covers is taken from base, which may be
// nil where all is covered. A picked dimension was a gather, whose inverse would be a scatter, which the IR has not: so it is a
// gather too, by the points that hold each block, found by comparing all points with all blocks.
//
//	blocks of points [2 0] of 3:  held by point [1 -1 0]; block 1 is that of base
func (v *view) join(x, base *ir.Value) *ir.Value {
	b := v.b
	order := v.order()
	back := make([]int, len(order))
	for i, p := range order {
		back[p] = i
	}
	// Counts, points and blocks go back into their places: [3, 2, 1, 4, 8] of the package's example to [2, 1, 3, 4, 8].
	x = b.permute(b.Reshape(x, append(v.counts(), v.fullBlock()...)...), back)
	lo, hi := v.region()
	at := 0
	var mask *ir.Value
	for d, c := range v.cut {
		if c.kind == picked {
			// Which point, if any, holds each block.
			n := v.whole.Shape[d] / v.w.Block[d]
			ids := ir.T(ir.I32, c.n, n)
			hit := b.Compare(ir.EQ, b.Broadcast(v.vector(d), ids.Shape, 0), b.Iota(ids, 1))
			// Of several points that hold a block the last counts, as if points ran one after the other; -1 is none, and a gather gives zeros for it.
			from := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(hit, b.Iota(ids, 0), b.Const(ids, -1))}, ir.Attrs{Dims: []int{0}}, nil)[0]
			x = b.GatherRows(x, from, at)
			held := b.Broadcast(b.Compare(ir.GE, from, b.Like(from, 0)), v.cutShape(true), at)
			// Several picked dimensions hold a block together: it is new only where all of them say so.
			if mask != nil {
				held = b.And(mask, held)
			}
			mask = held
		}
		if c.kind != fixed {
			at++
		}
		at++
	}
	if mask != nil && base != nil {
		x = b.Select(mask, x, b.Reshape(b.Slice(base, lo, hi), v.cutShape(true)...))
	}
	var shape []int
	for d := range lo {
		shape = append(shape, hi[d]-lo[d])
	}
	x = b.Reshape(x, shape...)
	// A region that is a part of the operand is put back where region found it.
	if base == nil || slices.Equal(shape, v.whole.Shape) {
		return x
	}
	idx := []*ir.Value{base, x}
	for _, s := range lo {
		idx = append(idx, b.scalar(s))
	}
	return b.Append(ir.OpDynUpdate, idx, ir.Attrs{}, nil)[0]
}

func filled(n, v int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = v
	}
	return s
}
