package tpu

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// tiled is a batched value held as 2-D tiles: a view. Its logical dimensions are lists of factors,
// outer first, each a stride through the tiles of the source, through the rows of a tile or through
// its lanes. Element (i, j, k) is found by writing i in the sizes of the first dimension's factors,
// as digits of a number, and adding each digit times its stride; then j and k. Reshapes, transposes
// and slices only rewrite the factors; rows and lanes move when a consumer needs tiles in another
// form (see tiler.tiles).
//
//	[2, 4, 128] of four tokens x two heads, token by token in memory:
//	dims  row 2x1 | row 4x2 | lane 128x1
//	element (1, 3, k) is lane k of row 1*1 + 3*2 = 7
type tiled struct {
	dtype ir.DType
	dims  [][]factor
	src   *source
	tile  int // first tile
	row   int // first row
	// the plain tiles, where the value is known to be in them; a view that was rewritten has none
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

// source is where elements are: tiles in registers, one reference whose leading dimensions are
// taken together as rows, or scratch in columns of registers. Exactly one of elems, ref and cols is
// set.
//
//	elems   two dots of [64, 64]           rows 64, lanes 64: of a tile
//	ref     a window [4, 8, 128]           rows 32, lanes 128: of all
//	cols    those two dots, in scratch     rows 128, lanes 64: one tile below the other
type source struct {
	elems       []*ir.Value
	ref         *ir.Value
	cols        *columns
	rows, lanes int  // of one tile; for a reference the whole of it
	lane        int  // of a reference: the first of its lanes
	part        part // of its reference
	// nothing writes to it before the results are stored, so what was loaded need not be loaded
	// again
	pure bool
}

// shape is the logical shape: a dimension has as many elements as its factors multiply to.
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

// normal wraps tiles that hold a value of the given logical shape in its plain form: the leading
// dimensions walk the tiles in row-major order, and the last two are whole rows and whole lanes.
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

// window wraps a reference. All dimensions but the last are taken together as rows, since memory
// has them one below the other: heads and tokens of a block then differ by strides of rows alone.
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

// clean drops factors of one element and joins neighbours that continue each other: "row 4x2, row
// 2x1" is eight rows in a run, "row 8x1". Questions about a form are asked of the clean list, so
// that they do not depend on the reshapes that led there.
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

// reshape regroups the factors into a new shape. All factors in a row are the digits of an
// element's number; a reshape puts the boundaries of dimensions elsewhere between these digits, and
// may split a digit in two. It fails where a boundary falls inside a factor that can not be split
// there: 6 rows are 2 x 3, but never 4 and something.
//
//	row 8x1 | lane 128x1 to [2, 4, 128]        row 2x4 | row 4x1 | lane 128x1
//	tile 2x1 | row 4x1 | ... to [8, 128]       tile 2x1 row 4x1 | lane 128x1
//	tile 2x1 | row 6x1 | ... to [4, 3, 128]    tile 2x1 row 2x3 | row 3x1 | lane 128x1
//	tile 3x1 | row 4x1 | ... to [2, 6, 128]    none: half of three tiles
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

// transpose reorders the dimensions. It never fails, and never costs anything by itself: what it
// asks for shows when tiles are gathered.
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

// slice takes part of each dimension, by a first tile or row and longer strides. It fails on a part
// of the lanes, which no view has an offset for, and on a dimension of several factors, whose part
// need not be a grid of strides.
//
//	rows 2, 4 and 6 of row 8x1           row 3x2, from row 2
//	elements 2 to 5 of row 2x8 row 4x1   none: rows 2 3 8 9 are no stride apart
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

// step is one point of a walk over factors: how far it lies through tiles and rows.
type step struct{ tile, row int }

// walk lists the points of a dimension list in row-major order. Lane factors of size 1 contribute
// nothing; a longer one has no place here, since lanes are not reached by choosing a tile or a row.
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
