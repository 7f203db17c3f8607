package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// take gathers along rows or lanes of each tile, with one index per element. The XLU can do it if index and operand fill one register
// each. Example: solve leaves by substitution use it to broadcast a column of D to all lanes of its block.
//
//	along lanes:   out[r, l] = x[r, index[r, l]]
//	along rows:    out[r, l] = x[index[r, l], l]
func (t *tiler) take(in *ir.Instr) error {
	ax := in.Attrs.Axis - (in.Result().Type.Rank() - 2)
	if ax < 0 {
		return fmt.Errorf("along a leading dimension")
	}
	xs, err := t.tiles(t.arg(in, 0))
	if err != nil {
		return err
	}
	is, err := t.tiles(t.arg(in, 1))
	if err != nil {
		return err
	}
	out := make([]*ir.Value, len(xs))
	for i := range xs {
		t.ofHead(in, i, len(xs))
		out[i] = t.emit(ir.OpTake, ir.Attrs{Axis: ax}, xs[i], is[i])
	}
	return t.bind(in, out)
}

// broadcast stretches operand tiles to tiles of the result. Per leading point of the result it picks the operand's part along the
// result's rows and lanes. Points along leading dimensions that the operand lacks share a tile: a mask is stretched once for all heads.
//
// A gate [N, C] that is stretched along lanes, [N, C, K], is a row of lanes in its window. All N rows are transposed to columns at once,
// and then cut: the transpose of one row costs as much as the transpose of the whole tile.
//
// To [8, 64, 128], eight heads:
//
//	[64, 128] along 1, 2    one tile for all heads
//	[8, 128] along 0, 2     tile i is row i [1, 128], stretched along rows
//	[8, 64] along 0, 1      tile i is column i [64, 1], stretched along the lanes
func (t *tiler) broadcast(in *ir.Instr) error {
	v, r := t.arg(in, 0), in.Result().Type
	n := r.Rank()
	lead, rows, lanes := tiles.RowsLanes(r.Shape)
	if column := slices.Index(in.Attrs.Dims, n-2); v.src.ref != nil && column == len(v.dims)-1 {
		// The operand's lanes become rows: transpose the whole tile, not each row.
		xs, err := t.tiles(v)
		if err != nil {
			return err
		}
		v = normal(v.dtype, v.shape(), xs)
	}
	// u is the operand with its dimensions in the order of the result: leading, rows, lanes. A dimension that the operand lacks is nil,
	// so its tiles are [rows or 1, lanes or 1].
	u := *v
	u.dims, u.mat = nil, nil
	var rowD, laneD []factor
	var leadSizes, leadAt []int // operand size and result dimension of each leading operand dimension
	for i, d := range in.Attrs.Dims {
		switch d {
		case n - 1:
			laneD = v.dims[i]
		case n - 2:
			rowD = v.dims[i]
		default:
			u.dims = append(u.dims, v.dims[i])
			leadSizes, leadAt = append(leadSizes, size(v.dims[i])), append(leadAt, d)
		}
	}
	var xs []*ir.Value
	var err error
	if len(v.dims) == 0 {
		xs, err = t.tiles(v)
	} else {
		u.dims = append(u.dims, rowD, laneD)
		if v.mat != nil && len(leadSizes) == len(v.dims)-2 && rowD != nil && laneD != nil {
			xs = v.mat
		} else {
			xs, err = t.tiles(&u)
		}
	}
	if err != nil {
		return err
	}
	all := points(lead)
	out := make([]*ir.Value, len(all))
	for j, p := range all {
		t.ofHead(in, j, len(all))
		// k is the operand tile at this point; dimensions of size 1 are stretched too.
		k := 0
		// Example: with leading sizes [1, 4] of the operand and [3, 4] of the result, point (2, 1) takes tile 1.
		for i, s := range leadSizes {
			k *= s
			if s > 1 {
				k += p[leadAt[i]]
			}
		}
		x := xs[k]
		// Scalars come from tables and program ids, and have had no tile so far.
		if x.Type.Rank() == 0 {
			x = t.emitT(ir.OpBroadcast, ir.T(r.DType, rows, lanes), ir.Attrs{Dims: []int{}}, x)
		} else if x.Type.Shape[0] != rows || x.Type.Shape[1] != lanes {
			x = t.emitT(ir.OpBroadcast, ir.T(r.DType, rows, lanes), ir.Attrs{Dims: []int{0, 1}}, x)
		}
		out[j] = x
	}
	return t.bind(in, out)
}

// keep makes tiles of its operand now, so that consumers that take parts of it share them, and do not each load and widen rows.
//
// Example: K times the decays of several levels. Each level takes halves of the rows of K; without keep each would read its rows from
// the window, in bf16 by words.
func (t *tiler) keep(in *ir.Instr) error {
	xs, err := t.tiles(t.arg(in, 0))
	if err != nil {
		return err
	}
	return t.bind(in, xs)
}

// reshape only rewrites factors, unless a boundary falls into lanes or across a stride. Then tiles with whole rows are made first, and
// regrouped. It errs if lanes would be split.
//
//	rows by a stride, [4, 128] of row 4x2, to [2, 2, 128]   row 2x4 | row 2x2 | lane 128x1
//	[2, 4, 128] with heads in tiles, to [8, 128]            tile 2x1 row 4x1 | lane 128x1
func (t *tiler) reshape(in *ir.Instr) error {
	v, shape := t.arg(in, 0), in.Result().Type.Shape
	u, ok := v.reshape(shape)
	if !ok {
		xs, err := t.tiles(v)
		if err != nil {
			return err
		}
		if u, ok = normal(v.dtype, v.shape(), xs).reshape(shape); !ok {
			return fmt.Errorf("%v to %v splits lanes", v.shape(), shape)
		}
	}
	t.sc.env[in.Result()] = u
	return nil
}

// transpose only reorders factors.
func (t *tiler) transpose(in *ir.Instr) error {
	t.sc.env[in.Result()] = t.arg(in, 0).transpose(in.Attrs.Dims)
	return nil
}

// slice only rewrites factors if it chooses tiles and rows. A part of the lanes is cut from each tile: the first register of two is
// free, anything else takes a rotation.
//
//	rows 2 and 4 of [8, 128]        row 2x2 | lane 128x1 from row 2: a view
//	lanes 0 to 127 of [8, 256]      the first register of each row of registers
//	lanes 64 to 191                 rotations and a select
func (t *tiler) slice(in *ir.Instr) error {
	v, a := t.arg(in, 0), &in.Attrs
	if u, ok := v.slice(a.Starts, a.Limits, a.Step); ok {
		t.sc.env[in.Result()] = u
		return nil
	}
	xs, err := t.tiles(v)
	if err != nil {
		return err
	}
	// Leading dimensions choose tiles; rows and lanes are cut.
	shape := v.shape()
	n := len(shape)
	if n == 0 {
		return fmt.Errorf("of a scalar")
	}
	cut := ir.Attrs{Starts: []int{0}, Limits: []int{1}}
	if n > 1 {
		cut = ir.Attrs{Starts: []int{a.Starts[n-2]}, Limits: []int{a.Limits[n-2]}, Strides: []int{a.Step(n - 2)}}
	} else {
		cut.Strides = []int{1}
	}
	cut.Starts, cut.Limits = append(cut.Starts, a.Starts[n-1]), append(cut.Limits, a.Limits[n-1])
	cut.Strides = append(cut.Strides, a.Step(n-1))
	if cut.Strides[0] == 1 && cut.Strides[1] == 1 {
		cut.Strides = nil
	}
	lead, _, _ := tiles.RowsLanes(shape)
	outLead, _, _ := tiles.RowsLanes(in.Result().Type.Shape)
	var out []*ir.Value
	for j, p := range points(outLead) {
		t.ofHead(in, j, product(outLead))
		k := 0
		for i := range lead {
			k = k*lead[i] + a.Starts[i] + p[i]*a.Step(i)
		}
		out = append(out, t.emit(ir.OpSlice, cut, xs[k]))
	}
	return t.bind(in, out)
}

// concat along a leading dimension lists tiles one after another. Along rows or lanes it joins tiles, which is free if both end at a
// register boundary.
//
// x and y [2, 64, 128], of tiles x0 x1 and y0 y1:
//
//	along 0   x0 x1 y0 y1                  nothing is emitted
//	along 1   x0 above y0, x1 above y1     64 rows are whole registers: free
//	along 2   x0 left of y0, x1 left of y1   free too
func (t *tiler) concat(in *ir.Instr) error {
	r := in.Result().Type
	parts := make([][]*ir.Value, len(in.Args))
	for i := range in.Args {
		var err error
		if parts[i], err = t.tiles(t.arg(in, i)); err != nil {
			return err
		}
	}
	lead, _, _ := tiles.RowsLanes(r.Shape)
	ax := in.Attrs.Axis - (r.Rank() - 2)
	if ax >= 0 {
		out := make([]*ir.Value, product(lead))
		for j := range out {
			t.ofHead(in, j, len(out))
			xs := make([]*ir.Value, len(parts))
			for i := range parts {
				xs[i] = parts[i][j]
			}
			out[j] = t.emit(ir.OpConcat, ir.Attrs{Axis: ax}, xs...)
		}
		return t.bind(in, out)
	}
	var out []*ir.Value
	for o := range product(lead[:in.Attrs.Axis]) {
		for i, p := range parts {
			inner := product(in.Args[i].Type.Shape[in.Attrs.Axis : r.Rank()-2])
			out = append(out, p[o*inner:(o+1)*inner]...)
		}
	}
	return t.bind(in, out)
}

// dynSlice reads rows from a row number known at run time. The other dimensions must be taken whole, else it errs.
//
// Example: a loop over tokens reads row i of q, k and v, [N, C, D], with one load per head.
func (t *tiler) dynSlice(in *ir.Instr) error {
	v, r := t.arg(in, 0), in.Result().Type
	shape := v.shape()
	n := len(shape)
	for i := range shape {
		if i != n-2 && shape[i] != r.Shape[i] {
			return fmt.Errorf("dimension %d of %v is cut; only rows can be read from a place known at run time", i, shape)
		}
	}
	count := r.Shape[n-2]
	// Only four-byte rows can be loaded from any row: a bf16 row is half of a word. So the value is copied to scratch as f32, once for
	// all iterations of the loop.
	if v.src.ref == nil || v.src.part.count > 1 || v.src.ref.Type.DType.Bytes() != 4 {
		xs, err := t.tiles(v)
		if err != nil {
			return err
		}
		if v, err = t.toScratch(normal(v.dtype, shape, xs)); err != nil {
			return err
		}
	}
	rf := clean(v.dims[n-2])
	if len(rf) != 1 || rf[0].kind != byRow || !whole(v.dims[n-1], v.src.lanes) {
		return fmt.Errorf("rows of shape %v do not lie one stride apart", shape)
	}
	idx, err := t.tiles(t.arg(in, 1+n-2))
	if err != nil {
		return err
	}
	b := t.b()
	zero := t.splat(ir.T(ir.I32), 0)
	// As dynslice is defined, a start beyond the end is clamped so that all rows exist.
	i := b.Min(b.Max(idx[0], zero), t.splat(ir.T(ir.I32), float64(rf[0].size-count)))
	if rf[0].stride != 1 {
		i = b.Mul(i, t.splat(ir.T(ir.I32), float64(rf[0].stride)))
	}
	at, err := walk(v.dims[:n-2])
	if err != nil {
		return err
	}
	ref, d := v.src.ref, v.src.lanes
	if ref == nil {
		if len(v.src.cols.refs) != 1 {
			return fmt.Errorf("rows of %d lanes can not be read from a place known at run time; at most %d", d, laneCount)
		}
		ref = v.src.cols.refs[0]
	}
	var out []*ir.Value
	for j, p := range at {
		t.ofHead(in, j, len(at))
		starts, err := unravel(ref, v.row+p.row, 1, 1)
		if err != nil {
			return err
		}
		dyn := make([]*ir.Value, ref.Type.Rank())
		for k := range dyn {
			dyn[k] = zero
		}
		dyn[len(dyn)-2] = i
		x := b.Load(ref, []int{count, d}, starts, strides(ref, rf[0].stride), dyn...)
		out = append(out, t.convert(x, r.DType))
	}
	return t.bind(in, out)
}
