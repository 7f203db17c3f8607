// Package tile has helpers for bodies of grid steps. Values have N interleaved entries, [N, rows, lanes], where N is chunks
// in flight x batch rows x heads. It has shapes, products at a precision, stored forms between stages, and masks.
package tile

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Body is the body of a grid step under construction.
type Body struct {
	B        *ir.Builder
	V        gdn.Variant
	C        int             // tokens of a chunk
	Segments *segments.Marks // if blocks have tokens of several sequences

	Squared map[*ir.Value]*ir.Value // known sums of squares of loaded rows

	iotas map[[3]int]*ir.Value
	parts map[*ir.Value][]*ir.Value // bf16 parts stored instead of a value
}

// New begins a body for a variant, in chunks of c tokens.
func New(b *ir.Builder, v gdn.Variant, c int) *Body {
	return &Body{B: b, V: v, C: c, Squared: map[*ir.Value]*ir.Value{}, iotas: map[[3]int]*ir.Value{}, parts: map[*ir.Value][]*ir.Value{}}
}

// Iota returns the i32 index along an axis of a [rows, lanes] tile.
func (e *Body) Iota(rows, lanes, axis int) *ir.Value {
	key := [3]int{rows, lanes, axis}
	if e.iotas[key] == nil {
		e.iotas[key] = e.B.Iota(ir.T(ir.I32, rows, lanes), axis)
	}
	return e.iotas[key]
}

// Over repeats a [R, L] tile over N entries.
func (e *Body) Over(n int, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.B.Broadcast(x, []int{n, s[0], s[1]}, 1, 2)
}

// Column broadcasts [N, C] over lanes to [N, C, lanes].
//
//	[a b] over lanes  [a a]     Row: over rows  [a b]
//	                  [b b]                     [a b]
func (e *Body) Column(x *ir.Value, lanes int) *ir.Value {
	s := x.Type.Shape
	return e.B.Broadcast(x, []int{s[0], s[1], lanes}, 0, 1)
}

// TurnedColumn is Column by a transpose of equal rows, instead of a move of each register along its lanes. Values that were bf16 are transposed as bf16, in
// half the registers.
func TurnedColumn(b *ir.Builder, x *ir.Value, lanes int) *ir.Value {
	turn := func(x *ir.Value) *ir.Value {
		s := x.Type.Shape
		return b.Transpose(b.Broadcast(x, []int{s[0], lanes, s[1]}, 0, 2), 0, 2, 1)
	}
	if n := narrow(b, x); n != nil {
		return b.Convert(turn(n), x.Type.DType)
	}
	return turn(x)
}

// narrow returns x as bf16 if it was converted from bf16, else nil. A single row of several is float32, since a bf16 word has two rows.
func narrow(b *ir.Builder, x *ir.Value) *ir.Value {
	in := x.Def
	if in == nil {
		return nil
	}
	switch in.Op {
	case ir.OpConvert:
		if in.Args[0].Type.DType == ir.BF16 {
			return in.Args[0]
		}
	case ir.OpReshape:
		if n := narrow(b, in.Args[0]); n != nil {
			return b.Reshape(n, x.Type.Shape...)
		}
	case ir.OpSlice:
		if slices.Equal(in.Args[0].Type.Shape, x.Type.Shape) {
			return narrow(b, in.Args[0])
		}
	}
	return nil
}

// Row broadcasts [N, C] over rows to [N, rows, C].
func (e *Body) Row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return e.B.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// Scalar broadcasts lane i of [N, C] over [N, rows, lanes].
//
// For i = C - 1 of exp(G) it is the decay of the state over the chunk.
func (e *Body) Scalar(x *ir.Value, i, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	x = e.B.Broadcast(e.B.SliceAxis(x, 1, i, i+1), []int{n, lanes}, 0, 1)
	return e.Row(x, rows)
}

// By returns the elementwise product, or x if y is nil.
func (e *Body) By(x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return e.B.Mul(x, y)
}

func (e *Body) Divided(x *ir.Value, by int) *ir.Value { return e.B.Div(x, e.B.Like(x, float64(by))) }

func (e *Body) Plus(x *ir.Value, k int) *ir.Value { return e.B.Add(x, e.B.Like(x, float64(k))) }

// Where returns a [rows, lanes] mask from two i32 index tiles.
func (e *Body) Where(rows, lanes int, f func(r, l *ir.Value) *ir.Value) *ir.Value {
	return f(e.Iota(rows, lanes, 0), e.Iota(rows, lanes, 1))
}

// Keep returns x where a [R, L] mask holds, else zero, for all entries.
//
// It is a select, not a product, since zero times infinity would be NaN.
func (e *Body) Keep(x, mask *ir.Value) *ir.Value {
	return e.B.Select(e.Over(x.Type.Shape[0], mask), x, e.B.Like(x, 0))
}

// OnDiagonal returns the mask of a tile's diagonal.
func (e *Body) OnDiagonal(size int) *ir.Value {
	return e.Where(size, size, func(r, l *ir.Value) *ir.Value { return e.B.Compare(ir.EQ, r, l) })
}

// Diagonal returns the diagonals of [N, C, C] as rows [N, C].
func (e *Body) Diagonal(x *ir.Value) *ir.Value {
	return e.B.Sum(e.Keep(x, e.OnDiagonal(x.Type.Shape[2])), 1).Called("diagonal")
}

// Eye returns the identity for N entries.
func (e *Body) Eye(n, size int) *ir.Value {
	t := ir.T(ir.F32, size, size)
	m := e.OnDiagonal(size)
	return e.Over(n, e.B.Select(m, e.B.Const(t, 1), e.B.Const(t, 0)))
}

// Dot multiplies [N, ., .] by [N, ., .] at a precision; tx and ty as in ir.MatMul.
//
// If both are bf16, their products are exact in the MXU's float32 accumulators, so further passes would add zeros.
func (e *Body) Dot(x, y *ir.Value, tx, ty bool, p ir.Precision) *ir.Value {
	if p == ir.PrecBF16x3 && (e.V.Numerics.Split == gdn.SplitDef || e.V.Inverse.Refine) {
		return e.dotParts(x, y, tx, ty)
	}
	if p == ir.PrecBF16x1 && e.V.Numerics.Split == gdn.SplitDef {
		return e.B.MatMul(e.Cut(x)[0], e.Cut(y)[0], tx, ty, p)
	}
	d := ir.F32
	bx, by := x.Type.DType == ir.BF16, y.Type.DType == ir.BF16
	switch {
	case p == ir.PrecBF16x1 && (e.V.Numerics.Store == ir.BF16 || bx || by):
		d = ir.BF16
	case p != ir.PrecF32 && bx && by:
		d, p = ir.BF16, ir.PrecBF16x1 // exact
	}
	return e.B.MatMul(e.B.Convert(x, d), e.B.Convert(y, d), tx, ty, p)
}

// DotBoth multiplies x and y, which may be nil, by z: z x^T, or with after x z^T. They are one product if the variant joins such products.
//
// x and y [N, R, K] and z [N, M, K] give [N, M, R] each, or with after [N, R, M]; joined [N, M, 2 R] or [N, 2 R, M], then split.
func (e *Body) DotBoth(x, y, z *ir.Value, after bool, p ir.Precision) (byX, byY *ir.Value) {
	axis := 2
	times := func(x *ir.Value) *ir.Value { return e.Dot(z, x, false, true, p) }
	if after {
		axis, times = 1, func(x *ir.Value) *ir.Value { return e.Dot(x, z, false, true, p) }
	}
	switch {
	case y == nil:
		return times(x), nil
	case e.V.KQ != gdn.JointJoined:
		return times(x), times(y)
	}
	both := times(e.Concat(1, x, y))
	n := x.Type.Shape[1]
	return e.B.SliceAxis(both, axis, 0, n), e.B.SliceAxis(both, axis, n, 2*n)
}
