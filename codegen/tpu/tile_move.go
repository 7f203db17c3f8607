package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// whole reports whether a dimension is exactly the n lanes of the source, in order.
//
//	lane 128x1               whole of 128
//	lane 2x64 lane 64x1      yes: clean joins them
//	lane 64x1                not of 128
//	row 128x1                no: these are rows
func whole(d []factor, n int) bool {
	c := clean(d)
	if n == 1 {
		return len(c) == 0
	}
	return len(c) == 1 && c[0] == factor{n, byLane, 1}
}

// tiles returns the plain tiles of a value: one [rows, lanes] tile per point of the leading dimensions, row-major. The result is
// memoized for the current block, since moving elements costs instructions. It errs if no form of gather fits.
//
//	[2, 4, 8, 128]    8 tiles [8, 128]
//	[2, 128]          1 tile [2, 128]
//	[128]             1 tile [1, 128]
func (t *tiler) tiles(v *tiled) ([]*ir.Value, error) {
	if v.mat != nil {
		return v.mat, nil
	}
	for s := t.sc; s != nil; s = s.up {
		if m := s.mats[v]; m != nil {
			return m, nil
		}
	}
	m, err := t.gather(v)
	if err == nil {
		t.sc.mats[v] = m
	}
	return m, err
}

// gather makes plain tiles of a view; elements move nowhere else. The last two dimensions of a view become rows and lanes of tiles.
// Where their factors are decides the form, tried from the cheapest on:
//
//	rows are        lanes are       form
//	anything        all lanes       rowTiles: rows are loaded, cut or collected
//	all lanes       rows            the last two are swapped: gather unswapped, transpose each tile
//	rows            one             spreadLanes: a leading dimension is along lanes; gather with it last,
//	                                then each tile is a column of the result
//	rows            blocks of lanes laneBlocks: heads next to each other in a reference, each whole registers
//	rows            of [., 1] tiles columns are transposed to rows, and stacked
//
// Any other view errs: its lanes come from several places at once, which no move of tiles can make.
//
// K^T of two heads in a window of 4 tokens by 2 heads, [2, 128, 4]:
//
//	row 2x1 | lane 128x1 | row 4x2     swapped: gather row 2x1 | row 4x2 | lane 128x1
//	                                   2 loads of every second row, [4, 128], and 2 transposes
func (t *tiler) gather(v *tiled) ([]*ir.Value, error) {
	n := len(v.dims)
	var lead [][]factor
	var rowD, laneD []factor
	switch n {
	case 0:
	case 1:
		laneD = v.dims[0]
	default:
		lead, rowD, laneD = v.dims[:n-2], v.dims[n-2], v.dims[n-1]
	}
	b := t.b()
	if out, ok, err := t.spreadLanes(v, lead, rowD, laneD); ok {
		return out, err
	}
	if out, ok, err := t.laneBlocks(v, lead, rowD, laneD); ok {
		return out, err
	}
	if whole(laneD, v.src.lanes) {
		at, err := walk(lead)
		if err != nil {
			return nil, err
		}
		return t.rowTiles(v, at, clean(rowD))
	}
	// With one lane, any dimension of one element would be whole. Columns have a form below.
	if whole(rowD, v.src.lanes) && v.src.lanes > 1 {
		// The last two dimensions are swapped, and each tile is one column of a row of a source tile: transpose the source tile once,
		// then cut its columns. N rows [N, C] seen as N columns [N, C, 1] are one transpose and N cuts; one row alone costs as much as
		// eight.
		if size(laneD) == 1 && v.src.elems != nil && v.src.rows > 1 {
			at, err := walk(lead)
			if err != nil {
				return nil, err
			}
			var out []*ir.Value
			for _, p := range at {
				x := t.turn(v.src.elems[v.tile+p.tile])
				c := v.row + p.row
				out = append(out, t.emit(ir.OpSlice, ir.Attrs{Starts: []int{0, c}, Limits: []int{v.src.lanes, c + 1}}, x))
			}
			return out, nil
		}
		u := *v
		u.dims = append(slices.Clone(lead), laneD, rowD)
		xs, err := t.tiles(&u)
		if err != nil {
			return nil, err
		}
		out := make([]*ir.Value, len(xs))
		for i, x := range xs {
			out[i] = t.turn(x)
		}
		return out, nil
	}
	if v.src.lanes == 1 {
		// Columns that become rows along lanes: transpose each, then stack them.
		u := *v
		// Sums over lanes of N heads, [N, C] of tiles [C, 1]: N transposes to [1, C], then one tile.
		u.dims = append(slices.Clone(lead), rowD, laneD, nil)
		xs, err := t.tiles(&u)
		if err != nil {
			return nil, err
		}
		k := size(rowD)
		var out []*ir.Value
		for i := 0; i < len(xs); i += k {
			var rows []*ir.Value
			for _, x := range xs[i : i+k] {
				rows = append(rows, t.turn(x))
			}
			out = append(out, b.Concat(0, rows...))
		}
		return out, nil
	}
	return nil, fmt.Errorf("lanes of shape %v come from %v of %d lanes: not expressible in tiles", v.shape(), laneD, v.src.lanes)
}

// spreadLanes gathers a value with a leading dimension along the lanes: each tile is one column. The bool reports whether the value has
// that form.
//
// Example: gates [N, C] seen as [C, N, 1], a column of all heads per token. They are gathered as one tile [N, C]; the column of token c
// is its lane c.
func (t *tiler) spreadLanes(v *tiled, lead [][]factor, rowD, laneD []factor) ([]*ir.Value, bool, error) {
	if v.src.lanes == 1 || size(laneD) != 1 {
		return nil, false, nil
	}
	// u has that dimension last, so its lanes are whole, and its tiles are loaded or cut as usual.
	k := slices.IndexFunc(lead, func(d []factor) bool { return whole(d, v.src.lanes) })
	if k < 0 {
		return nil, false, nil
	}
	u := *v
	u.dims, u.mat = append(append(slices.Clone(lead[:k]), lead[k+1:]...), rowD, lead[k]), nil
	xs, err := t.tiles(&u)
	if err != nil {
		return nil, true, err
	}
	rows := size(rowD)
	var out []*ir.Value
	var sizes []int
	for _, d := range lead {
		sizes = append(sizes, size(d))
	}
	for _, p := range points(sizes) {
		i := 0
		for j, n := range sizes {
			if j != k {
				i = i*n + p[j]
			}
		}
		out = append(out, t.emit(ir.OpSlice, ir.Attrs{Starts: []int{0, p[k]}, Limits: []int{rows, p[k] + 1}}, xs[i]))
	}
	return out, true, nil
}

// laneBlocks gathers a value whose tiles are next to each other in a reference: each row has a block of whole registers per tile. The
// bool reports whether the value has that form. It is the layout [tokens, heads x K] with K a multiple of 128 lanes. A head is a load
// from another first lane, and costs no more than separate rows.
//
//	window [64, 512], four heads of 128:
//	reshape, transpose [4, 64, 128]   lane 4x128 | row 64x1 | lane 128x1
//	head 2                            row 64x1 | lane 128x1, of a source that begins at lane 256
//
// Heads that do not fill registers are cut from the registers that they lie in (laneBlock).
func (t *tiler) laneBlocks(v *tiled, lead [][]factor, rowD, laneD []factor) ([]*ir.Value, bool, error) {
	n := size(laneD)
	if whole(rowD, size(rowD)) && n > 1 { // rows and lanes are swapped
		n = size(rowD)
	}
	if v.src.ref == nil || n == v.src.lanes || !whole(laneD, n) && !whole(rowD, n) {
		return nil, false, nil
	}
	// Exactly one leading factor must be along lanes, in steps of whole blocks: the heads.
	at, first := -1, v.src.lane
	var apart [][]factor // the leading factors, each a dimension
	for _, d := range lead {
		for _, f := range clean(d) {
			if f.kind == byLane {
				if at >= 0 || f.stride%n != 0 {
					return nil, false, nil
				}
				at = len(apart)
			}
			apart = append(apart, []factor{f})
		}
	}
	if at < 0 {
		return nil, false, nil
	}
	lead, heads := apart, apart[at][0]
	// Each head is gathered as a value with its own first lane, in any form of gather.
	blocks := make([][]*ir.Value, heads.size)
	for i := range blocks {
		u := *v
		u.dims = slices.Concat(lead[:at], lead[at+1:], [][]factor{rowD, laneD})
		var err error
		if blocks[i], err = t.laneBlock(&u, first+i*heads.stride, n); err != nil {
			return nil, true, err
		}
	}
	var sizes []int
	for _, d := range lead {
		sizes = append(sizes, size(d))
	}
	var out []*ir.Value
	for _, p := range points(sizes) {
		i := 0
		for j, n := range sizes {
			if j != at {
				i = i*n + p[j]
			}
		}
		out = append(out, blocks[p[at]][i])
	}
	return out, true, nil
}

// laneBlock gathers n lanes of a reference, from lane first on, in any form of gather. Loads begin at a register: lanes that begin or end within one
// are cut from the registers that hold them, which takes a rotation and a select a register.
//
//	head 1 of 96 lanes   lanes 96 to 191, cut from two registers
func (t *tiler) laneBlock(v *tiled, first, n int) ([]*ir.Value, error) {
	lo, hi := first/laneCount*laneCount, min((first+n+laneCount-1)/laneCount*laneCount, v.src.lane+v.src.lanes)
	u := *v
	u.src = &source{ref: v.src.ref, rows: v.src.rows, lanes: hi - lo, lane: lo, part: v.src.part, pure: v.src.pure}
	if lo == first && hi == first+n {
		return t.gather(&u)
	}
	d := len(u.dims)
	u.dims = slices.Clone(u.dims)
	turned := size(u.dims[d-1]) != n || u.dims[d-1][0].kind != byLane
	if turned {
		u.dims[d-2], u.dims[d-1] = u.dims[d-1], u.dims[d-2]
	}
	u.dims[d-1] = []factor{{hi - lo, byLane, 1}}
	xs, err := t.gather(&u)
	if err != nil {
		return nil, err
	}
	out := make([]*ir.Value, len(xs))
	for i, x := range xs {
		out[i] = t.emit(ir.OpSlice, ir.Attrs{Starts: []int{0, first - lo}, Limits: []int{x.Type.Shape[0], first - lo + n}}, x)
		if turned {
			out[i] = t.turn(out[i])
		}
	}
	return out, nil
}

// sublanes is the number of rows of a register.
const sublanes = target.Sublanes

// rowTiles makes one tile per point of at; its rows follow the factors rf. The innermost run of rows is one read, by a stride if it has
// one. The factors around it give one read each, and the reads are concatenated along rows.
//
// Only runs of rows are cut from registers. Rows by a stride, rows of several tiles, and single rows of many tiles would need a rotation
// and a select per row. Memory reads them by a stride for the price of a load, so such values are stored to scratch first.
//
//	rows that alternate between two tiles of 4   row 4x1 tile 2x1   in registers: to scratch first
//	the same in scratch                          row 4x1 row 2x4    four loads of 2 rows, 4 apart
//
// Avoid this form. Outputs of several chunks once took it, because they were transposed first and joined along tokens after: 1536 loads
// a step, 24 % of its cycles. Now they are joined first.
func (t *tiler) rowTiles(v *tiled, at []step, rf []factor) ([]*ir.Value, error) {
	var inner factor
	outer := rf
	if k := len(rf); k > 0 && rf[k-1].kind == byRow {
		inner, outer = rf[k-1], rf[:k-1]
	} else {
		inner = factor{1, byRow, 1}
	}
	src := v.src
	// In registers, each of the four cases would move rows one by one.
	if src.elems != nil {
		rowsOuter := slices.ContainsFunc(outer, func(f factor) bool { return f.kind == byRow })
		strided := inner.stride != 1 && inner.size > 1
		single := inner.size == 1 && len(outer) > 0 && src.rows > 1
		// A long run that begins inside a register is cheaper to load than to rotate: of rows 4 to 19, each register of the result takes
		// rows from two.
		turned := inner.size >= 2*sublanes && v.row%sublanes != 0 && len(outer) == 0
		if strided || rowsOuter || single || turned {
			var err error
			if v, err = t.toScratch(v); err != nil {
				return nil, err
			}
			return t.tilesLike(v)
		}
	}
	sub, err := walk([][]factor{outer})
	if err != nil {
		return nil, err
	}
	var out []*ir.Value
	for _, p := range at {
		var parts []*ir.Value
		for _, q := range sub {
			x, err := t.rows(v, p.tile+q.tile, p.row+q.row, inner.size, inner.stride)
			if err != nil {
				return nil, err
			}
			parts = append(parts, x)
		}
		out = append(out, t.b().Concat(0, parts...))
	}
	return out, nil
}

// tilesLike gathers a value whose source was replaced, and converts the tiles to the value's element type.
func (t *tiler) tilesLike(v *tiled) ([]*ir.Value, error) {
	xs, err := t.gather(v)
	if err != nil {
		return nil, err
	}
	for i, x := range xs {
		xs[i] = t.convert(x, v.dtype)
	}
	return xs, nil
}

// rows reads count rows of a source, from memory or from one tile in registers. A stride other than 1 needs memory: rowTiles sends such
// rows of registers to scratch.
func (t *tiler) rows(v *tiled, tile, row, count, stride int) (*ir.Value, error) {
	src := v.src
	tile, row = tile+v.tile, row+v.row
	if src.elems == nil {
		return t.loadRows(src, row, count, stride)
	}
	x := src.elems[tile]
	if row == 0 && count == src.rows {
		return x, nil
	}
	return t.emit(ir.OpSlice, ir.Attrs{Starts: []int{row, 0}, Limits: []int{row + count, src.lanes}}, x), nil
}

// unravel converts a row number of a reference, counted over all leading dimensions, into starts for a load or store of count rows by
// stride. It errs if the rows cross a leading dimension.
//
//	[4, 64, 128], row 70, 8 rows:   (1, 6, 0)
//	row 60, 8 rows:                 an error, since rows 64 to 67 belong to the next index
func unravel(ref *ir.Value, row, count, stride int) ([]int, error) {
	s := ref.Type.Shape
	starts := make([]int, len(s))
	r := row
	for i := len(s) - 2; i >= 0; i-- {
		starts[i] = r % s[i]
		r /= s[i]
	}
	if starts[len(s)-2]+(count-1)*stride >= s[len(s)-2] {
		return nil, fmt.Errorf("%d rows by %d from row %d cross a leading dimension of %s", count, stride, row, ref.Type)
	}
	return starts, nil
}

// strides returns the strides of a load or store of every stride-th row; nil for all rows.
func strides(ref *ir.Value, stride int) []int {
	if stride == 1 {
		return nil
	}
	st := make([]int, ref.Type.Rank())
	for i := range st {
		st[i] = 1
	}
	st[len(st)-2] = stride
	return st
}

// loadRows reads rows of a reference. A load by a stride needs rows of one register of four bytes, so three cases need help:
//
//	  9 of bf16 are the high halves of words 0, 2, 4, so words are read by half the stride, and the
//	  half is taken: that is how token-major heads in bf16 are read.
//	- Rows of another width than 128 lanes. They are copied to columns of registers first
//	  (columns).
//	- Rows that cross a leading dimension at which memory has a gap. So are these (joins).
func (t *tiler) loadRows(src *source, row, count, stride int) (*ir.Value, error) {
	if count == 1 {
		stride = 1
	}
	load := func() (*ir.Value, error) {
		ref := src.ref
		if src.cols != nil {
			return src.cols.load(t, row, count, stride)
		}
		narrow := ref.Type.DType.Bytes() == 2
		if !joins(ref, src.part.of(), row, count, stride) || stride > 1 && (src.lanes != laneCount || narrow && (ref.Type.DType != ir.BF16 || stride%2 != 0 || ref.Type.Shape[ref.Type.Rank()-2]%2 != 0)) {
			x, err := t.columns(src).load(t, row, count, stride)
			if err != nil {
				return nil, err
			}
			return t.convert(x, ref.Type.DType), nil
		}
		if stride > 1 && narrow {
			w, err := t.loadRows(t.words(src), row/2, count, stride/2)
			if err != nil {
				return nil, err
			}
			return t.convert(t.half(w, row%2), ir.BF16), nil
		}
		ref = t.flat(ref, src.part.of(), row, count, stride)
		starts, err := unravel(ref, row, count, stride)
		if err != nil {
			return nil, err
		}
		starts[len(starts)-1] = src.lane
		return t.b().Load(ref, []int{count, src.lanes}, starts, strides(ref, stride), src.within(t.b(), ref)...), nil
	}
	if !src.pure {
		return load()
	}
	var err error
	x := t.once(fmt.Sprintf("load %p %p %d %d %d %d %d", src.ref, src.cols, row, count, stride, src.lane, src.lanes), func() (x *ir.Value) {
		x, err = load()
		return x
	})
	return x, err
}

// joins reports whether count rows by a stride lie inside one leading index of a reference of some parts, or whether the leading
// dimensions of a part can be joined with the rows. Memory has tiles of 32 bytes per lane: 8 rows of f32, 16 of bf16. If the rows of a
// leading index do not fill its tiles, a gap follows, and rows across it are no run. There is no gap if the tiles are full before and
// after the join.
//
//	f32 [4, 8, 128], rows 4 to 15:     yes, as [1, 32, 128]
//	f32 [4, 12, 128], rows 8 to 15:    no: after row 11, four rows of its tiles are empty
func joins(ref *ir.Value, parts, row, count, stride int) bool {
	full := func(rows int) bool { return rows&(rows-1) == 0 || rows*ref.Type.DType.Bytes()%32 == 0 }
	s := ref.Type.Shape
	joined := flatShape(s, parts, row, count, stride)
	return slices.Equal(joined, s) || full(s[len(s)-2]) && full(joined[len(s)-2])
}

// flatShape returns a shape of some parts in which the inner leading dimensions of a part are joined with the rows, as far as count rows
// by a stride cross them. A view with other dimensions is a cast, and accesses by different casts are assumed to overlap, so no more
// dimensions are joined than needed.
//
//	[2, 4, 8, 128], rows 4 to 15:   [2, 1, 32, 128]
//	rows 4 to 7:                    as it is
//
// Parts stay in the first dimension, since the number of the part is known at run time only.
func flatShape(shape []int, parts, row, count, stride int) []int {
	s := slices.Clone(shape)
	s[0] /= parts
	n := len(s) - 2
	for d := n - 1; d >= 0 && row%s[n]+(count-1)*stride >= s[n]; d-- {
		s[n], s[d] = s[n]*s[d], 1
	}
	s[0] *= parts
	return s
}

// flat views a reference in the shape of flatShape.
func (t *tiler) flat(ref *ir.Value, parts, row, count, stride int) *ir.Value {
	s := flatShape(ref.Type.Shape, parts, row, count, stride)
	if slices.Equal(s, ref.Type.Shape) {
		return ref
	}
	return t.once(fmt.Sprintf("flat %p %v", ref, s), func() *ir.Value { return t.b().RefCast(ref, ref.Type.DType, s...) })
}

// words views a bf16 reference as u32 words of two rows: word r has row 2r in its low half and row 2r+1 in its high half.
func (t *tiler) words(src *source) *source {
	ref := src.ref
	s := slices.Clone(ref.Type.Shape)
	s[len(s)-2] /= 2
	w := t.once(fmt.Sprintf("words %p", ref), func() *ir.Value { return t.b().RefCast(ref, ir.U32, s...) })
	return &source{ref: w, rows: src.rows / 2, lanes: src.lanes, lane: src.lane, part: src.part, pure: src.pure}
}

// turn transposes a tile. If the tile is one half of words, the words are transposed once for both halves: a u32 transpose costs as much
// as an f32 one, and moves two bf16 rows.
func (t *tiler) turn(x *ir.Value) *ir.Value {
	if w, which, ok := tiles.HalfOf(x); ok {
		return t.half(t.turn(w), which)
	}
	return t.emit(ir.OpTranspose, ir.Attrs{Dims: []int{1, 0}}, x)
}

// pack returns the words of two f32 tiles, x in the low halves. An op on both halves alike becomes one op on the words: a transpose or
// select of both halves of a word is one of the word itself. Both halves of one word are that word. So values that arrive as words are
// stored as words, without unpacking between.
//
//	pack(half(w, 0), half(w, 1))                 w
//	pack(turn(half(w, 0)), turn(half(w, 1)))     turn(w)
//	pack(f32(bf16(x)), f32(bf16(y)))             pack(x, y), which rounds by itself
func (t *tiler) pack(x, y *ir.Value) *ir.Value {
	if v, i, ok := tiles.HalfOf(x); ok && i == 0 {
		if w, j, ok := tiles.HalfOf(y); ok && j == 1 && v == w {
			return w
		}
	}
	// These ops move all bits of an element together, so they commute with packing.
	if a, b := x.Def, y.Def; a != nil && b != nil && a.Op == b.Op {
		switch a.Op {
		case ir.OpTranspose:
			return t.turn(t.pack(a.Args[0], b.Args[0]))
		case ir.OpSelect:
			if a.Args[0] == b.Args[0] {
				return t.emit(ir.OpSelect, ir.Attrs{}, a.Args[0], t.pack(a.Args[1], b.Args[1]), t.pack(a.Args[2], b.Args[2]))
			}
		case ir.OpConvert: // already rounded
			if u, v := a.Args[0].Def, b.Args[0].Def; a.Args[0].Type.DType == ir.BF16 && u != nil && v != nil && u.Op == ir.OpConvert && v.Op == ir.OpConvert && u.Args[0].Type.DType == ir.F32 && v.Args[0].Type.DType == ir.F32 {
				return t.pack(u.Args[0], v.Args[0])
			}
		}
	}
	return t.emit(ir.OpPack, ir.Attrs{}, x, y)
}

// half returns the low (0) or high (1) bf16 of each word as f32. A bf16 is the high half of the f32 of the same value, so a shift or a
// mask converts it.
//
//	w = 3f80 4000   half 0: 4000 0000, which is 2   half 1: 3f80 0000, which is 1
func (t *tiler) half(w *ir.Value, which int) *ir.Value {
	var x *ir.Value
	if which == 0 {
		x = t.emit(ir.OpShl, ir.Attrs{}, w, t.splat(w.Type, 16))
	} else {
		x = t.emit(ir.OpAnd, ir.Attrs{}, w, t.splat(w.Type, 0xffff0000))
	}
	x = t.emitT(ir.OpBitcast, ir.T(ir.F32, w.Type.Shape...), ir.Attrs{}, x)
	t.exact[x] = true
	return x
}
