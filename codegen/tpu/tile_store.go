package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// laneCount is the number of lanes of a register. Only references of exactly this many lanes can be read and written by a row stride.
const laneCount = target.Lanes

// columns is four-byte scratch in which rows of any number of lanes can be read and written by a stride: one reference per 128 lanes. A
// load by a stride takes one register per row; a row of 256 lanes is two registers, so each half has its own reference.
//
//	rows of 320 lanes   refs[0] lanes 0-127   refs[1] 128-255   refs[2] 256-319, and 64 unused
type columns struct {
	refs  []*ir.Value
	lanes int
}

// newColumns adds the scratch for [rows, lanes] of d. Two-byte elements are held as f32, which is exact.
func (t *tiler) newColumns(d ir.DType, rows, lanes int) *columns {
	if d.Bytes() == 2 {
		d = ir.F32
	}
	c := &columns{lanes: lanes}
	for range (lanes + laneCount - 1) / laneCount {
		c.refs = append(c.refs, t.scratch(ir.VMEM, d, rows, laneCount))
	}
	return c
}

// cut returns the lanes [lo, hi) of the i-th reference; the last may be partly used.
func (c *columns) cut(i int) (lo, hi int) { return i * laneCount, min((i+1)*laneCount, c.lanes) }

// store writes [count, lanes] to rows row, row+stride, ...
func (c *columns) store(t *tiler, x *ir.Value, row, stride int) {
	x = t.convert(x, c.refs[0].Type.DType)
	for i, ref := range c.refs {
		lo, hi := c.cut(i)
		part := x
		if hi-lo != c.lanes {
			part = t.emit(ir.OpSlice, ir.Attrs{Starts: []int{0, lo}, Limits: []int{x.Type.Shape[0], hi}}, x)
		}
		if hi-lo < laneCount && stride > 1 { // a store by a stride writes whole registers
			part = t.b().Concat(1, part, t.splat(ir.T(part.Type.DType, x.Type.Shape[0], laneCount-(hi-lo)), 0))
		}
		t.b().Store(part, ref, []int{row, 0}, strides(ref, stride))
	}
}

// load reads count rows row, row+stride, ... as [count, lanes]. A load by a stride takes whole registers: lanes that no store wrote are
// cut off.
func (c *columns) load(t *tiler, row, count, stride int) (*ir.Value, error) {
	var parts []*ir.Value
	for i, ref := range c.refs {
		lo, hi := c.cut(i)
		x := t.b().Load(ref, []int{count, laneCount}, []int{row, 0}, strides(ref, stride))
		if hi-lo < laneCount {
			x = t.b().Slice(x, []int{0, 0}, []int{count, hi - lo})
		}
		parts = append(parts, x)
	}
	return t.b().Concat(1, parts...), t.b().Err()
}

// columns copies a reference to scratch whose rows can be read by a stride. A pure source is copied once per block, another at each
// read. The key has the first lane: heads next to each other in one reference each have a copy.
func (t *tiler) columns(src *source) *columns {
	key := fmt.Sprintf("columns %p %d", src.ref, src.lane)
	for s := t.sc; s != nil; s = s.up {
		if c := s.cols[key]; c != nil {
			return c
		}
	}
	c := t.newColumns(src.ref.Type.DType, src.rows, src.lanes)
	per := src.ref.Type.Shape[src.ref.Type.Rank()-2]
	for r := 0; r < src.rows; r += per {
		starts, _ := unravel(src.ref, r, per, 1)
		starts[len(starts)-1] = src.lane
		c.store(t, t.b().Load(src.ref, []int{per, src.lanes}, starts, nil, src.within(t.b(), src.ref)...), r, 1)
	}
	if src.pure {
		t.sc.cols[key] = c
	}
	return c
}

// toScratch stores a value's tiles one after another into four-byte scratch and returns the view of the value there. Strides through
// tiles become strides through rows, so any order of rows is loads by strides. It errs for elements of one byte.
//
//	two tiles of 8 rows, read as row 0 of both, row 1 of both ...:   row 8x1 tile 2x1
//	the same in scratch:                                            row 8x1 row 2x8
func (t *tiler) toScratch(v *tiled) (*tiled, error) {
	src := v.src
	d := src.elems[0].Type.DType
	if d.Bytes() != 4 && d.Bytes() != 2 {
		return nil, fmt.Errorf("rows of %s can not be moved between tiles", d)
	}
	key := fmt.Sprintf("scratch %p", src)
	var cols *columns
	for s := t.sc; s != nil && cols == nil; s = s.up {
		cols = s.cols[key]
	}
	// All views of one source share its copy.
	if cols == nil {
		cols = t.newColumns(d, len(src.elems)*src.rows, src.lanes)
		for i, x := range src.elems {
			cols.store(t, x, i*src.rows, 1)
		}
		t.sc.cols[key] = cols
	}
	// Tile i begins at row i * rows: strides through tiles become strides through rows.
	u := &tiled{dtype: v.dtype, row: v.row + v.tile*src.rows,
		src: &source{cols: cols, rows: len(src.elems) * src.rows, lanes: src.lanes, pure: true}}
	for _, dim := range v.dims {
		var fs []factor
		for _, f := range dim {
			if f.kind == byTile {
				f = factor{f.size, byRow, f.stride * src.rows}
			}
			fs = append(fs, f)
		}
		u.dims = append(u.dims, fs)
	}
	return u, nil
}

// upright transposes the tiles of a value whose lanes are the rows of its tiles, and returns other values as they are. A store takes
// whole rows, so the transpose can not wait for a consumer.
//
//	tiles [128, 64] seen as [64, 128]   lane 64x1 | row 128x1   ->   transposed, row 64x1 | lane 128x1
func (t *tiler) upright(v *tiled) *tiled {
	rows := []factor{{v.src.rows, byRow, 1}}
	if v.src.elems == nil || v.row != 0 || v.src.rows == 1 || !slices.Equal(clean(v.dims[len(v.dims)-1]), rows) {
		return v
	}
	u := &tiled{dtype: v.dtype, tile: v.tile, src: &source{rows: v.src.lanes, lanes: v.src.rows}}
	for _, x := range v.src.elems {
		u.src.elems = append(u.src.elems, t.turn(x))
	}
	for _, d := range v.dims {
		d = slices.Clone(d)
		for i := range d {
			switch d[i].kind {
			case byRow:
				d[i].kind = byLane
			case byLane:
				d[i].kind = byRow
			}
		}
		u.dims = append(u.dims, d)
	}
	return u
}

// prepareStore brings a value into registers in a form that can be stored to all of ref, and returns a function that emits the stores.
// All other results are prepared before it is called: a store to a carry's window must follow every read of it.
//
//	f32 heads [8, 64, 128] to such a window           8 stores of [64, 128]
//	f32 heads to [64 tokens, 8 heads, 128]            8 stores by a stride of 8 rows
//	bf16 heads to [64, 8, 128]                        4 stores of words of two heads, by 4
//	heads of 64 lanes to [64, 8, 64]                  8 to columns, and from there in runs
func (t *tiler) prepareStore(v *tiled, ref *ir.Value) (func() error, error) {
	n := len(v.dims)
	if n < 2 {
		return nil, fmt.Errorf("a result block of rank %d; windows have at least 2 dimensions", n)
	}
	plain := func() (*tiled, error) {
		xs, err := t.tiles(v)
		if err != nil {
			return nil, err
		}
		return normal(v.dtype, v.shape(), xs), nil
	}
	v = t.joined(v)
	u := t.upright(v)
	_, ok := storable(u)
	if !ok {
		var err error
		if u, err = plain(); err != nil {
			return nil, err
		}
		if _, ok = storable(u); !ok {
			return nil, fmt.Errorf("shape %v can not be stored by rows", v.shape())
		}
	}
	// Three ways: whole tiles; rows by a stride, if they are four bytes and one register wide; else by words or through columns.
	puts, _ := storable(u)
	count := u.src.rows
	stride := 1
	if len(puts) > 0 {
		stride = puts[0].stride
	}
	narrow := ref.Type.DType.Bytes() == 2 || u.src.lanes != laneCount
	if stride > 1 && (narrow || slices.ContainsFunc(puts, func(p put) bool { return !joins(ref, t.into.of(), p.row, count, p.stride) })) {
		return t.storeWords(u, ref, puts, count, stride)
	}
	return func() error {
		for _, p := range puts {
			ref := t.flat(ref, t.into.of(), p.row, count, p.stride)
			starts, err := unravel(ref, p.row, count, p.stride)
			if err != nil {
				return err
			}
			starts[len(starts)-1] = p.lane
			t.store(u.src.elems[p.tile], ref, starts, strides(ref, p.stride))
		}
		return nil
	}, nil
}

// joined joins tiles that are next to each other along the lanes, and do not fill registers, to tiles that do, if each of these takes as many; other values
// are as they were.
//
//	[64 tokens, 4 heads x 192] of four tiles [64, 192]:   two tiles [64, 384]
func (t *tiler) joined(v *tiled) *tiled {
	n := len(v.dims)
	c := clean(v.dims[n-1])
	if v.src.elems == nil || v.row != 0 || len(c) != 2 || c[0].kind != byTile || v.src.lanes%laneCount == 0 || !whole(c[1:], v.src.lanes) {
		return v
	}
	few := 1
	for few*v.src.lanes%laneCount != 0 {
		few *= 2
	}
	heads := c[0]
	if heads.size%few != 0 {
		few = heads.size
	}
	u := *v
	u.src, u.mat = &source{rows: v.src.rows, lanes: few * v.src.lanes}, nil
	u.dims = slices.Clone(v.dims)
	// Tiles of other dimensions keep their order: tile i of the value is joined with the next ones of its row.
	for i := range v.src.elems {
		var xs []*ir.Value
		for j := range few {
			if k := i + j*heads.stride; k < len(v.src.elems) {
				xs = append(xs, v.src.elems[k])
			}
		}
		var x *ir.Value
		if len(xs) == few && i >= v.tile && (i-v.tile)/heads.stride%heads.size%few == 0 {
			x = t.emit(ir.OpConcat, ir.Attrs{Axis: 1}, xs...)
		}
		u.src.elems = append(u.src.elems, x)
	}
	u.dims[n-1] = []factor{{heads.size / few, byTile, heads.stride * few}, {few * v.src.lanes, byLane, 1}}
	return &u
}

// put says that the rows of a whole tile go to rows row, row+stride, ... of the target, from a lane on.
type put struct{ tile, row, stride, lane int }

// storable lists the puts of a value whose tiles can be stored whole; else false. Tiles that are the heads of token-major rows have puts
// by a stride:
//
//	[4 tokens, 2 heads, 128] of two tiles [4, 128]:   row 4x1 tile 2x1 | lane 128x1
//	puts: tile 0 to rows 0 2 4 6, tile 1 to rows 1 3 5 7
func storable(v *tiled) ([]put, bool) {
	n := len(v.dims)
	if v.src.elems == nil || v.row != 0 {
		return nil, false
	}
	if c := clean(v.dims[n-1]); len(c) == 2 && c[0].kind == byTile && v.src.lanes%laneCount == 0 && whole(c[1:], v.src.lanes) {
		return sideBySide(v, c[0])
	}
	if !whole(v.dims[n-1], v.src.lanes) {
		return nil, false
	}
	var flat []factor
	for _, d := range v.dims[:n-1] {
		flat = append(flat, d...)
	}
	flat = clean(flat)
	var tiles []factor
	var at []int // stride in rows of the target, per tile factor
	rowStride := 1
	seen := v.src.rows == 1
	inner := 1
	// From the innermost factor out. inner is the distance, in rows of the target, between two steps of a factor. A tile's rows must be
	// one factor, so that its store has one stride.
	for i := len(flat) - 1; i >= 0; i-- {
		f := flat[i]
		switch f.kind {
		case byRow:
			if seen || f.stride != 1 || f.size != v.src.rows {
				return nil, false
			}
			seen, rowStride = true, inner
		case byTile:
			tiles, at = append(tiles, f), append(at, inner)
		default:
			return nil, false
		}
		inner *= f.size
	}
	if !seen {
		return nil, false
	}
	// All combinations of the tile factors, outer first: each gives a tile and its first row.
	puts := []put{{v.tile, 0, rowStride, 0}}
	for i := len(tiles) - 1; i >= 0; i-- {
		var next []put
		for _, p := range puts {
			for j := range tiles[i].size {
				next = append(next, put{p.tile + j*tiles[i].stride, p.row + j*at[i], rowStride, 0})
			}
		}
		puts = next
	}
	return puts, true
}

// sideBySide lists the puts of a value whose tiles are next to each other along the lanes.
//
//	[64 tokens, 4 heads x 128] of four tiles [64, 128]:   row 64x1 | tile 4x1 lane 128x1
//	puts: tile i to rows 0 1 2 ..., from lane 128 i
func sideBySide(v *tiled, heads factor) ([]put, bool) {
	var all []put
	for i := range heads.size {
		u := *v
		u.tile += i * heads.stride
		u.dims = append(slices.Clone(v.dims[:len(v.dims)-1]), []factor{{v.src.lanes, byLane, 1}})
		puts, ok := storable(&u)
		if !ok || len(puts) > 0 && puts[0].stride != 1 {
			return nil, false
		}
		for _, p := range puts {
			p.lane = i * v.src.lanes
			all = append(all, p)
		}
	}
	return all, true
}

// storeWords stores rows by a stride that can not be stored directly. Two bf16 tiles with alternating rows are stored together as u32
// words; any other value goes through scratch. bf16 outputs with tokens before heads are the first case: head 0 is the low half of each
// word, head 1 the high half. So two heads cost as much as one in f32, and no transpose is needed outside the kernel.
//
// Four heads, a row of the output for each token t and head h:
//
//	rows     t0 h0    t0 h1    t0 h2    t0 h3    t1 h0    t1 h1
//	words    0                 1                 2
//	stores   h0 and h1 to words 0 2 4 ..., h2 and h3 to words 1 3 5 ...
func (t *tiler) storeWords(u *tiled, ref *ir.Value, puts []put, count, stride int) (func() error, error) {
	byRowNo := map[int]int{}
	for _, p := range puts {
		byRowNo[p.row] = p.tile
	}
	// Rows r and r^1 share a word. Tiles can be paired if every tile that starts at an even row has a partner that starts at the next
	// row.
	paired := stride%2 == 0 && u.src.lanes == laneCount && ref.Type.DType == ir.BF16 && ref.Type.Shape[ref.Type.Rank()-2]%2 == 0
	for _, p := range puts {
		if _, ok := byRowNo[p.row^1]; !ok || !joins(ref, t.into.of(), p.row, count, p.stride) {
			paired = false
		}
	}
	// A tile that was just rounded to bf16 is replaced by the f32 value before, since packing rounds.
	wide := func(tile int) *ir.Value {
		x := u.src.elems[tile]
		if x.Type.DType.Bytes() == 4 {
			return x
		}
		if x.Def != nil && x.Def.Op == ir.OpConvert && x.Def.Args[0].Type.DType == ir.F32 {
			return x.Def.Args[0]
		}
		return t.convert(x, ir.F32)
	}
	if paired {
		return func() error {
			// Only the reference is needed here, so rows need not be right.
			words := t.words(&source{ref: ref, rows: 2, lanes: u.src.lanes}).ref
			for _, p := range puts {
				if p.row%2 != 0 {
					continue
				}
				words := t.flat(words, t.into.of(), p.row/2, count, stride/2)
				starts, err := unravel(words, p.row/2, count, stride/2)
				if err != nil {
					return err
				}
				w := t.pack(wide(p.tile), wide(byRowNo[p.row+1]))
				t.store(w, words, starts, strides(words, stride/2))
			}
			return nil
		}, nil
	}
	return func() error {
		// Otherwise rows are put in order in columns, and stored in runs.
		rows := len(puts) * count // of the whole reference, or of the part that is written
		cols := t.newColumns(ref.Type.DType, rows, u.src.lanes)
		for _, p := range puts {
			cols.store(t, wide(p.tile), p.row, stride)
		}
		per := ref.Type.Shape[ref.Type.Rank()-2]
		for r := 0; r < rows; r += per {
			starts, err := unravel(ref, r, per, 1)
			if err != nil {
				return err
			}
			x, err := cols.load(t, r, per, 1)
			if err != nil {
				return err
			}
			t.store(t.b().Convert(x, ref.Type.DType), ref, starts, nil)
		}
		return nil
	}, nil
}
