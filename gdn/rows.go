package gdn

import "github.com/gdngen/gdngen/ir"

// Rows is the layout of the tensors with one vector a token and head: q, k, v, o, and per-channel gates.
type Rows uint8

// The row layouts. Projections produce flat rows. A TPU tiles the last two axes, so with an axis of heads XLA copies the rows before a kernel reads
// them, unless the number of heads fills tiles.
const (
	RowsHeads Rows = iota // [B, T, heads, width]
	RowsFlat              // [B, T, heads x width]
	RowsQKV               // flat, and q, k and v are one input: qkv [B, T, Hk K + Hk K + Hv V]
)

var rowsNames = []string{RowsHeads: "heads", RowsFlat: "flat", RowsQKV: "qkv"}

func (r Rows) String() string { return enumName(rowsNames, int(r)) }

// ByHeads returns the spec with an axis of heads and separate q, k and v. The elements have the same order in memory as in flat
// rows.
func (s Spec) ByHeads() Spec {
	s.Rows = RowsHeads
	return s
}

// Slice is the part of a row of qkv that holds q, k or v.
type Slice struct {
	Param        // type as in ByHeads
	From, To int // range of elements of a row
}

// Slices returns q, k and v as parts of a row of qkv.
func (s Spec) Slices() []Slice {
	var list []Slice
	at := 0
	for _, p := range s.ByHeads().projected() {
		shape := p.Type.Shape[p.Type.Rank()-2:]
		width := shape[0] * shape[1]
		list = append(list, Slice{p, at, at + width})
		at += width
	}
	return list
}

// projected returns the inputs that come from projections: q, k and v, or qkv.
func (s Spec) projected() []Param {
	if s.Rows == RowsQKV {
		return []Param{{"qkv", s.tokenType(s.DType, 1, 2*s.HeadsK*s.K+s.HeadsV*s.V)}}
	}
	return []Param{
		{"q", s.tokenType(s.DType, s.HeadsK, s.K)},
		{"k", s.tokenType(s.DType, s.HeadsK, s.K)},
		{"v", s.tokenType(s.DType, s.HeadsV, s.V)},
	}
}

// tokenType returns the type [B, T, dims...], or [T, dims...] without a batch axis. Flat rows merge heads and width into one axis.
func (s Spec) tokenType(d ir.DType, dims ...int) ir.Type {
	shape := []int{s.Batch, s.Tokens}
	if s.Packed {
		shape = shape[1:]
	}
	if len(dims) == 2 && s.Rows != RowsHeads {
		dims = []int{dims[0] * dims[1]}
	}
	return ir.T(d, append(shape, dims...)...)
}
