package gdn

import "github.com/gdngen/gdngen/ir"

// Rows is the layout of tensors of tokens with a width a head: q, k, v, o, and gates of channels.
type Rows uint8

// The forms of rows. A projection gives flat ones: a TPU tiles the last two axes of an array, so heads that are an axis of their own are moved
// before a kernel reads them, unless their number fills tiles.
const (
	RowsHeads Rows = iota // [B, T, heads, width]
	RowsFlat              // [B, T, heads x width]
	RowsQKV               // flat, and q, k and v are one input: qkv [B, T, Hk K + Hk K + Hv V]
)

var rowsNames = []string{RowsHeads: "heads", RowsFlat: "flat", RowsQKV: "qkv"}

func (r Rows) String() string { return enumName(rowsNames, int(r)) }

// ByHeads is the spec with an axis of heads and with separate q, k and v. Elements have the same order as in flat
// rows.
func (s Spec) ByHeads() Spec {
	s.Rows = RowsHeads
	return s
}

// Slice is a part of a row of qkv.
type Slice struct {
	Param        // as ByHeads has it
	From, To int // elements of a row
}

// Slices lists q, k and v as parts of a row of qkv.
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

// projected are the inputs that projections give: q, k and v, or qkv.
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

// tokenType is [B, T, dims...], or [T, dims...] without a batch axis. Heads and their width are one axis of flat rows.
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
