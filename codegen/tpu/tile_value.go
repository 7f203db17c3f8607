package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// tiled is a view of a batched value held as 2-D tiles. Its logical dimensions are lists of factors, outer first. Each factor is a
// stride through the tiles of the source, the rows of a tile, or its lanes. To find element (i, j, k), write i as digits whose bases are
// the sizes of the first dimension's factors, and add each digit times its stride; then j and k. Reshapes, transposes and slices only
// rewrite factors. Rows and lanes move when a consumer needs tiles of another form (tiler.tiles).
//
//	[2, 4, 128]: two heads of four tokens, token by token in memory:
//	dims  row 2x1 | row 4x2 | lane 128x1
//	element (1, 3, k) is lane k of row 1*1 + 3*2 = 7
type tiled struct {
	dtype ir.DType
	dims  [][]factor
	src   *source
	tile  int // first tile
	row   int // first row
	// the plain tiles, if known; a rewritten view has none
	mat []*ir.Value
}

type factorKind uint8

const (
	byTile factorKind = iota
	byRow
	byLane
)

// factor is size steps of stride tiles, rows or lanes: "row 4x2" is {4, byRow, 2}.
type factor struct {
	size   int
	kind   factorKind
	stride int
}

// source holds elements: tiles in registers, one reference whose leading dimensions are joined with the rows, or scratch in columns of
// registers. Exactly one of elems, ref and cols is set.
//
//	elems   two dots of [64, 64]           rows 64, lanes 64: of one tile
//	ref     a window [4, 8, 128]           rows 32, lanes 128: of the whole reference
//	cols    those dots, in scratch         rows 128, lanes 64: the tiles concatenated along rows
type source struct {
	elems       []*ir.Value
	ref         *ir.Value
	cols        *columns
	rows, lanes int  // of one tile; of a reference, its whole size
	lane        int  // of a reference: the first lane
	part        part // of the reference
	// nothing stores to it before the results are stored, so loads can be reused
	pure bool
}

// shape returns the logical shape: the size of a dimension is the product of its factors' sizes.
func (t *tiled) shape() []int {
	s := make([]int, len(t.dims))
	for i, d := range t.dims {
		s[i] = size(d)
	}
	return s
}

func size(d []factor) int {
	n := 1
	for _, f := range d {
		n *= f.size
	}
	return n
}

func product(s []int) int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// normal returns the plain view of tiles that hold a value of a logical shape. The leading dimensions count tiles in row-major order,
// and the last two are whole rows and whole lanes.
//
//	[2, 3, 8, 128] of six tiles:   tile 2x3 | tile 3x1 | row 8x1 | lane 128x1
func normal(d ir.DType, shape []int, elems []*ir.Value) *tiled {
	lead, rows, lanes := tiles.RowsLanes(shape)
	t := &tiled{dtype: d, src: &source{elems: elems, rows: rows, lanes: lanes}, mat: elems}
	stride := product(lead)
	for _, n := range lead {
		stride /= max(n, 1)
		t.dims = append(t.dims, []factor{{n, byTile, stride}})
	}
	switch len(shape) {
	case 0:
	case 1:
		t.dims = append(t.dims, []factor{{lanes, byLane, 1}})
	default:
		t.dims = append(t.dims, []factor{{rows, byRow, 1}}, []factor{{lanes, byLane, 1}})
	}
	return t
}

// window returns the view of a whole reference. All dimensions but the last are joined as rows, as in memory. So heads and tokens of a
// block differ by strides of rows only.
//
//	[4 tokens, 2 heads, 128]:   row 4x2 | row 2x1 | lane 128x1
func window(ref *ir.Value, pure bool) *tiled {
	s := ref.Type.Shape
	n := len(s)
	rows := product(s[:n-1])
	t := &tiled{dtype: ref.Type.DType, src: &source{ref: ref, rows: rows, lanes: s[n-1], pure: pure}}
	stride := rows
	for _, d := range s[:n-1] {
		stride /= d
		t.dims = append(t.dims, []factor{{d, byRow, stride}})
	}
	t.dims = append(t.dims, []factor{{s[n-1], byLane, 1}})
	return t
}

// clean drops factors of one element and joins neighbours that continue each other: "row 4x2, row 2x1" is eight rows in a run, "row
// 8x1". Forms are tested on the clean list, so that they do not depend on the reshapes before.
func clean(d []factor) []factor {
	var out []factor
	for _, f := range d {
		if f.size == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].kind == f.kind && out[k].stride == f.size*f.stride {
			out[k] = factor{out[k].size * f.size, f.kind, f.stride}
			continue
		}
		out = append(out, f)
	}
	return out
}

// reshape regroups the factors into a new shape. The factors are the digits of an element's number. A reshape moves the boundaries of
// dimensions between these digits, and may split a digit in two. It returns false if a boundary falls inside a factor that can not be
// split there: 6 rows are 2 x 3, but not 4 and something.
//
//	row 8x1 | lane 128x1 to [2, 4, 128]        row 2x4 | row 4x1 | lane 128x1
//	tile 2x1 | row 4x1 | ... to [8, 128]       tile 2x1 row 4x1 | lane 128x1
//	tile 2x1 | row 6x1 | ... to [4, 3, 128]    tile 2x1 row 2x3 | row 3x1 | lane 128x1
//	tile 3x1 | row 4x1 | ... to [2, 6, 128]    false: half of three tiles
func (t *tiled) reshape(shape []int) (*tiled, bool) {
	var flat []factor
	for _, d := range t.dims {
		flat = append(flat, d...)
	}
	flat = clean(flat)
	out := *t
	out.dims, out.mat = nil, nil
	for _, n := range shape {
		var d []factor
		need := n
		for need > 1 {
			if len(flat) == 0 {
				return nil, false
			}
			f := flat[0]
			switch {
			case need%f.size == 0:
				d = append(d, f)
				need /= f.size
				flat = flat[1:]
			case f.size%need == 0:
				inner := f.size / need
				d = append(d, factor{need, f.kind, f.stride * inner})
				flat[0].size = inner
				need = 1
			default:
				return nil, false
			}
		}
		out.dims = append(out.dims, d)
	}
	if len(flat) > 0 {
		return nil, false
	}
	return &out, true
}

// transpose reorders the dimensions. It never fails and emits nothing; a cost arises only when tiles are gathered.
//
//	[4, 2, 128] row 4x2 | row 2x1 | lane 128x1 by 1 0 2:   row 2x1 | row 4x2 | lane 128x1
func (t *tiled) transpose(perm []int) *tiled {
	out := *t
	out.dims, out.mat = make([][]factor, len(perm)), nil
	for i, p := range perm {
		out.dims[i] = t.dims[p]
	}
	return &out
}

// slice takes part of each dimension, by an offset in tiles or rows and longer strides. It returns false for a part of the lanes, since
// a view has no offset in lanes, and for a dimension of several factors, whose part need not have one stride.
//
//	rows 2, 4 and 6 of row 8x1           row 3x2, from row 2
//	elements 2 to 5 of row 2x8 row 4x1   false: rows 2 3 8 9 have no common stride
func (t *tiled) slice(starts, limits []int, step func(int) int) (*tiled, bool) {
	out := *t
	out.dims, out.mat = slices.Clone(t.dims), nil
	for i, d := range t.dims {
		n := size(d)
		st := step(i)
		m := (limits[i] - starts[i] + st - 1) / st
		if m == n {
			continue
		}
		c := clean(d)
		if len(c) != 1 || c[0].kind == byLane {
			return nil, false
		}
		f := c[0]
		if f.kind == byTile {
			out.tile += starts[i] * f.stride
		} else {
			out.row += starts[i] * f.stride
		}
		out.dims[i] = []factor{{m, f.kind, f.stride * st}}
	}
	return &out, true
}

// step is one point of a walk over factors: its offset in tiles and in rows.
type step struct{ tile, row int }

// walk lists the points of some dimensions in row-major order, as offsets in tiles and rows. A lane factor of size 1 adds nothing; a
// longer one is an error, since an offset in tiles and rows can not reach lanes.
//
//	tile 2x1 | row 2x4:   (0, 0) (0, 4) (1, 0) (1, 4)
func walk(dims [][]factor) ([]step, error) {
	out := []step{{}}
	for _, d := range dims {
		for _, f := range d {
			if f.kind == byLane && f.size > 1 {
				return nil, fmt.Errorf("lanes are spread over leading dimensions")
			}
			next := make([]step, 0, len(out)*f.size)
			for _, s := range out {
				for i := range f.size {
					p := s
					switch f.kind {
					case byTile:
						p.tile += i * f.stride
					case byRow:
						p.row += i * f.stride
					}
					next = append(next, p)
				}
			}
			out = next
		}
	}
	return out, nil
}
