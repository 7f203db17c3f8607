// Package tile is what the body of a grid step is written with: values of N entries interleaved, [N, rows, lanes], where N is chunks
// in flight x batch rows x heads. It has their shapes, their products at a precision, what is kept of them between stages, and masks.
package tile

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/ir"
)

// Body is the body of a grid step that is being written.
type Body struct {
	B        *ir.Builder
	V        gdn.Variant
	C        int             // tokens of a chunk
	Segments *segments.Marks // where blocks have tokens of several sequences

	Squared map[*ir.Value]*ir.Value // sums of squares of rows that whoever loaded them knows

	iotas map[[3]int]*ir.Value
	parts map[*ir.Value][]*ir.Value // bf16 parts that are kept instead of a value
}

// New begins a body by a variant, in chunks of c tokens.
func New(b *ir.Builder, v gdn.Variant, c int) *Body {
	return &Body{B: b, V: v, C: c, Squared: map[*ir.Value]*ir.Value{}, iotas: map[[3]int]*ir.Value{}, parts: map[*ir.Value][]*ir.Value{}}
}

// Iota is the i32 index along an axis of a [rows, lanes] tile.
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

// Column spreads [N, C] over lanes to [N, C, lanes].
//
//	[a b] over lanes  [a a]     Row: over rows  [a b]
//	                  [b b]                     [a b]
func (e *Body) Column(x *ir.Value, lanes int) *ir.Value {
	s := x.Type.Shape
	return e.B.Broadcast(x, []int{s[0], s[1], lanes}, 0, 1)
}

// TurnedColumn is Column by a transpose of rows that are all alike, without a move of each register along its lanes. What was bf16 is turned as bf16, in
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

// narrow is x in bf16 where it was that before it was converted, else nil. A row out of several is float32: of bf16 a register has two in a word.
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

// Row spreads [N, C] over rows to [N, rows, C].
func (e *Body) Row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return e.B.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// Scalar spreads lane i of [N, C] over [N, rows, lanes].
//
// With i = C - 1 of exp(G) it is what a chunk leaves of the state that it found.
func (e *Body) Scalar(x *ir.Value, i, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	x = e.B.Broadcast(e.B.SliceAxis(x, 1, i, i+1), []int{n, lanes}, 0, 1)
	return e.Row(x, rows)
}

// By is the product of elements, or x where there is nothing to multiply it by.
func (e *Body) By(x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return e.B.Mul(x, y)
}

func (e *Body) Divided(x *ir.Value, by int) *ir.Value { return e.B.Div(x, e.B.Like(x, float64(by))) }

func (e *Body) Plus(x *ir.Value, k int) *ir.Value { return e.B.Add(x, e.B.Like(x, float64(k))) }

// Where is a [rows, lanes] mask by two i32 index tiles.
func (e *Body) Where(rows, lanes int, f func(r, l *ir.Value) *ir.Value) *ir.Value {
	return f(e.Iota(rows, lanes, 0), e.Iota(rows, lanes, 1))
}

// Keep is x where a [R, L] mask holds, else zero, for all entries.
//
// It is a select and no product: zero times infinity would be NaN.
func (e *Body) Keep(x, mask *ir.Value) *ir.Value {
	return e.B.Select(e.Over(x.Type.Shape[0], mask), x, e.B.Like(x, 0))
}

// OnDiagonal is the mask of a tile's diagonal.
func (e *Body) OnDiagonal(size int) *ir.Value {
	return e.Where(size, size, func(r, l *ir.Value) *ir.Value { return e.B.Compare(ir.EQ, r, l) })
}

// Diagonal is that of [N, C, C] as rows [N, C].
func (e *Body) Diagonal(x *ir.Value) *ir.Value {
	return e.B.Sum(e.Keep(x, e.OnDiagonal(x.Type.Shape[2])), 1).Called("diagonal")
}

// Eye is the identity of N entries.
func (e *Body) Eye(n, size int) *ir.Value {
	t := ir.T(ir.F32, size, size)
	m := e.OnDiagonal(size)
	return e.Over(n, e.B.Select(m, e.B.Const(t, 1), e.B.Const(t, 0)))
}

// Dot multiplies [N, ., .] by [N, ., .] at a precision; tx and ty as in ir.MatMul.
//
// Where both are in bf16 their products are exact in the float32 that a matrix unit adds them up in, so more passes would add zeros.
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

// DotBoth multiplies x and y, which may be nil, by z: z x^T, or x z^T after it. They are one product where the variant joins such.
//
// x and y [N, R, K] and z [N, M, K] make [N, M, R] each, or [N, R, M] after; joined [N, M, 2 R] or [N, 2 R, M], cut in two.
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
