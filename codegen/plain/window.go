package plain

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// view is a window of an operand in the batched program. Each dimension d of the operand is split into a block count and a block. The
// staged form of the operand has these dimensions, in order: the block counts of dimensions whose index is known only at a step, the
// parallel axes of the window, and the dimensions of the block other than 1.
//
// The counts come first so that a step takes one contiguous range; on a CPU, a slice in the middle of a tensor is a copy by rows in each
// step. Dimensions of 1 are left out, since compilers make copies to change their order.
type view struct {
	b      *batcher
	what   string
	w      ir.Window
	whole  ir.Type
	tables []*ir.Value
	cut    []cut
}

// kind says how a dimension's block index is known. Examples are blocks [2, 8] of x f32[6, 8], by the index of dimension 0:
//
//	1                    fixed     a slice, f32[2,8]
//	h, h:3               plain     a reshape, f32[3,2,8]: point i has block i
//	max(h - 1, 0)        picked    reshaped, and gathered by [0 0 1]
//	c, c:3:seq           dynamic   reshaped, and in each step a dyn_slice at c
type kind uint8

const (
	fixed   kind = iota // the constant at
	plain               // the id of the parallel axis at: block i for point i
	picked              // a function of the parallel axis at: shifted, clamped, reversed or looked up; by gathering
	dynamic             // a scalar known at a step: from the sequential axis or a table
)

type cut struct {
	kind kind
	at   int
	n    int // block count in the staged form: for plain and picked, the axis's size
}

// alike reports whether two windows of one array have the same staged form in this dimension, whichever blocks they show. Example: t0[0]
// and t0[1] of a decode that handles two states per step.
func (c cut) alike(d cut) bool {
	if c.kind == dynamic {
		c.at = d.at
	}
	return c == d
}

// view classifies the dimensions of a window of an operand of type t by kind. what names the window in errors.
func (b *batcher) view(what string, w ir.Window, t ir.Type, tables []*ir.Value) *view {
	v := &view{b: b, what: what, w: w, whole: t, tables: tables}
	var seen axes
	for d, x := range w.Index {
		c := cut{kind: fixed, at: x.Const, n: 1}
		if x.Axis >= 0 {
			dim := b.g.Dims[x.Axis]
			last := max(dim.Size-1+x.Shift, 0)
			// A clamp that no id reaches has no effect. Example: a reversed index, where Max is only the block to count down from.
			clamped := x.Max >= 0 && x.Max < last
			switch {
			// The id is 0, so the index is a constant, computed as ir.Index does.
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
		// The table's entry is fixed, but its value is known only at run time.
		if c.kind == fixed && x.Table >= 0 {
			c = cut{kind: dynamic, at: c.at}
		}
		// All blocks of the operand, since any may be shown.
		if c.kind == dynamic {
			c.n = t.Shape[d] / w.Block[d]
		}
		if c.kind == plain || c.kind == picked {
			// Two dimensions on one axis are a diagonal of blocks. The staged form has one dimension per axis, and can not express it.
			if seen>>c.at&1 == 1 {
				b.Failf("grid %s: %s: two dimensions of the window follow the parallel axis %s; cut one of them into blocks in the body", b.g.Name, what, b.g.Dims[c.at].Name)
			}
			seen |= 1 << c.at
		}
		v.cut = append(v.cut, c)
	}
	return v
}

// on returns the set of parallel axes of the window.
func (v *view) on() axes {
	var s axes
	for _, c := range v.cut {
		if c.kind == plain || c.kind == picked {
			s |= 1 << c.at
		}
	}
	return s
}

// varies reports whether the block is known only at a step. Otherwise the window shows the same blocks in all steps: a carry passes from
// step to step, without an array of final blocks.
func (v *view) varies() bool { return len(v.counts()) > 0 }

// counts returns the block counts of the dynamic dimensions.
func (v *view) counts() []int {
	var n []int
	for _, c := range v.cut {
		if c.kind == dynamic {
			n = append(n, c.n)
		}
	}
	return n
}

// stagedShape returns the shape of the staged form: for the package's example [3, 2, 4, 8], its steps, points of h, and block [1, 4, 8]
// without the 1.
func (v *view) stagedShape() []int { return append(v.counts(), v.stagedBlock()...) }

// stagedBlock returns the shape of a step's blocks in the staged form; fullBlock the shape in the body.
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

// order returns, for each dimension of the staged form, its position among the split dimensions (count 0, block 0, count 1, block 1,
// ...; a fixed dimension has no count). In the package's example dimension 0 is plain, 1 dynamic and 2 fixed: the split dimensions are
// [2, 1, 3, 4, 8], and the order is 2, 0, 1, 3, 4: steps, points, block.
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

// region returns the part lo..hi of the operand that the staged blocks cover; picked dimensions count whole.
//
// For a window on the second half of a joined operand [K; Q], only that half is split and transposed, and join writes it back into the
// rest. All blocks of picked dimensions are included, since a table may select any.
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

// cutShape returns the shape of the region with counts and blocks as separate dimensions; with whole, picked dimensions keep all blocks.
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

// split returns the staged form of an operand: it slices the region, splits dimensions into counts and blocks, gathers picked blocks,
// and moves counts to the front.
func (v *view) split(x *ir.Value) *ir.Value {
	b := v.b
	lo, hi := v.region()
	if !slices.Equal(hi, x.Type.Shape) || slices.Max(append([]int{0}, lo...)) > 0 {
		x = b.Slice(x, lo, hi)
	}
	x = b.Reshape(x, v.cutShape(true)...)
	// The position among the split dimensions: two per dimension with a count, one per fixed dimension.
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

// permute transposes, unless perm is the identity.
func (b *batcher) permute(x *ir.Value, perm []int) *ir.Value {
	if slices.IsSorted(perm) {
		return x
	}
	return b.Transpose(x, perm...)
}

// vector returns the block index of picked dimension d at every point of its axis.
func (v *view) vector(d int) *ir.Value {
	x := v.w.Index[d]
	i := v.clamped(v.b.Iota(ir.T(ir.I32, v.cut[d].n), 0), x)
	if x.Table >= 0 {
		i = v.b.Take(v.tables[x.Table], i, 0)
	}
	return i
}

// clamped applies to ids, in the order of ir.Index: shift, clamp, reversal, division by Every, constant. The lower bound only matters
// for a negative shift. A table look-up comes after it, in the caller.
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

// scalars returns the block indices of the dynamic dimensions at a step.
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
			// A slice of one entry, [1], as a scalar.
			t := v.b.Append(ir.OpDynSlice, []*ir.Value{v.tables[x.Table], i}, ir.Attrs{}, nil, ir.T(ir.I32, 1))[0]
			i = v.b.Reshape(t)
		}
		out = append(out, i)
	}
	return out
}

// changed returns whether the block differs from the previous step's, as a bool scalar; nil if it always differs, for example if the
// index is the step itself. The first step counts as a change: it has no step before, so it is compared with itself.
func (v *view) changed(idx []*ir.Value, step *ir.Value) *ir.Value {
	b := v.b
	// The index differs in each step, unless there is a table, an effective clamp, a negative shift (several steps have index 0), or
	// Every > 1.
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

// starts appends zeros to the indices of dynamic dimensions, one per other dimension of the staged form.
func (v *view) starts(idx []*ir.Value) []*ir.Value {
	zero := v.b.scalar(0)
	out := slices.Clone(idx)
	for range len(v.stagedShape()) - len(idx) {
		out = append(out, zero)
	}
	return out
}

// read returns the blocks of a step from the staged form.
func (v *view) read(staged *ir.Value, idx []*ir.Value) *ir.Value {
	if len(idx) == 0 {
		return staged
	}
	b, block := v.b, v.stagedBlock()
	one := append(filled(len(idx), 1), block...)
	x := b.Append(ir.OpDynSlice, append([]*ir.Value{staged}, v.starts(idx)...), ir.Attrs{}, nil, ir.T(staged.Type.DType, one...))[0]
	return b.Reshape(x, block...)
}

// write returns the staged form with the blocks of a step replaced. Without dynamic dimensions, the blocks are the whole form.
func (v *view) write(staged, x *ir.Value, idx []*ir.Value) *ir.Value {
	if len(idx) == 0 {
		return x
	}
	b := v.b
	x = b.Reshape(x, append(filled(len(idx), 1), x.Type.Shape...)...)
	return b.Append(ir.OpDynUpdate, append([]*ir.Value{staged, x}, v.starts(idx)...), ir.Attrs{}, nil)[0]
}

// fit brings a yielded value to the window's axes and the staged block. It fails if the value is on an axis that the window lacks: its
// points would write one block in no defined order. A value on fewer axes is fine, since all points write the same.
func (v *view) fit(x batched) *ir.Value {
	for _, a := range (x.on &^ v.on()).list() {
		v.b.Failf("grid %s: %s: points along the parallel axis %s write the same block; name the axis in the window or make it sequential", v.b.g.Name, v.what, v.b.g.Dims[a].Name)
		return x.v
	}
	return v.b.Reshape(v.b.align(x, v.on()), v.stagedBlock()...)
}

// join is the inverse of split: the operand from its staged form. Elements that no block covers come from base, which may be nil if
// there are none. The inverse of a picked dimension's gather would be a scatter, which the IR lacks. So it is a gather too, by the point
// that holds each block, found by comparing all points with all blocks.
//
//	blocks of points [2 0] of 3:  held by point [1 -1 0]; block 1 comes from base
func (v *view) join(x, base *ir.Value) *ir.Value {
	b := v.b
	order := v.order()
	back := make([]int, len(order))
	for i, p := range order {
		back[p] = i
	}
	// Counts, points and blocks go back to their positions: [3, 2, 1, 4, 8] of the package's example to [2, 1, 3, 4, 8].
	x = b.permute(b.Reshape(x, append(v.counts(), v.fullBlock()...)...), back)
	lo, hi := v.region()
	at := 0
	var mask *ir.Value
	for d, c := range v.cut {
		if c.kind == picked {
			// The point that holds each block, if any.
			n := v.whole.Shape[d] / v.w.Block[d]
			ids := ir.T(ir.I32, c.n, n)
			hit := b.Compare(ir.EQ, b.Broadcast(v.vector(d), ids.Shape, 0), b.Iota(ids, 1))
			// If several points hold a block, the last wins, as if points ran one after another. -1 means none; a gather gives zeros for
			// it.
			from := b.Append(ir.OpReduceMax, []*ir.Value{b.Select(hit, b.Iota(ids, 0), b.Const(ids, -1))}, ir.Attrs{Dims: []int{0}}, nil)[0]
			x = b.GatherRows(x, from, at)
			held := b.Broadcast(b.Compare(ir.GE, from, b.Like(from, 0)), v.cutShape(true), at)
			// With several picked dimensions, a block is new only if all of them hold it.
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
	// A region smaller than the operand is written back into base.
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
