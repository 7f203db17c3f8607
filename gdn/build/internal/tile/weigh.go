package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// Element rounds an operand of a product with decay to the product's type: bf16 from level from of decay_bf16 on.
func (e *Body) Element(x *ir.Value, from gdn.DecayBF16) *ir.Value {
	if e.V.Numerics.DecayBF16 >= from {
		return e.B.Convert(x, ir.BF16)
	}
	return e.B.Convert(x, ir.F32)
}

// Weighed returns x times y; nil means ones.
func (e *Body) Weighed(x, y *ir.Value) *ir.Value {
	if x == nil {
		return y
	}
	return e.By(x, y)
}

// TurnsWeights reports whether row weights are broadcast over lanes by transposes, like sums of decay
// (row_broadcast=transpose). It needs float32 products with decays of columns, as on targets with MXUs of 128 rows.
// There the compiler pops a register of a lane move 40 cycles before it is ready, by the model of the schedule, and
// bench waited 2500 of 86400 cycles for the state's weights. A transpose loads the XLU as much, which delays steps on
// targets with MXUs of 256 rows: T 1024 on v6e took 4 % more, and so did four heads a core on v5p (issue cycles).
func TurnsWeights(v gdn.Variant) bool {
	return v.RowBroadcast == gdn.BroadcastTranspose && v.Numerics.DecayBF16 == gdn.DecayBF16Rows && v.Mapping.Heads > 4
}

// Weight broadcasts a weight per row, [N, C], over the columns of [N, C, W].
func Weight(e *Body, x *ir.Value, lanes int) *ir.Value {
	if TurnsWeights(e.V) {
		return TurnedColumn(e.B, x, lanes)
	}
	return e.Column(x, lanes)
}

// ByRows multiplies row i of x [N, C, D] by g [N, C] at i; a nil g means ones.
func (e *Body) ByRows(x, g *ir.Value) *ir.Value {
	if g == nil {
		return x
	}
	b, s := e.B, x.Type.Shape
	if e.V.Numerics.DecayBF16 == gdn.DecayBF16None {
		return b.Mul(e.Element(x, gdn.DecayBF16Rows), e.Column(g, s[2]))
	}
	// A column of words is broadcast over half the registers:
	// [N, C] to [C, N], where tokens are rows and pair to words [C/2, N], then back to [N, C/2], and each word over D lanes.
	t := b.Words(b.Convert(b.Transpose(g, 1, 0), ir.BF16))
	col := b.Broadcast(b.Transpose(t, 1, 0), []int{s[0], s[1] / 2, s[2]}, 0, 1)
	return b.Mul(e.Element(x, gdn.DecayBF16Rows), b.Halves(col))
}

// OnRows is ByRows, except that float32 x is rounded only once, when it is stored.
func OnRows(e *Body, x, g *ir.Value) *ir.Value {
	if g == nil || x.Type.DType != ir.F32 {
		return e.ByRows(x, g)
	}
	return e.B.Mul(x, e.Column(g, x.Type.Shape[2]))
}

// ByLanes multiplies lane j of x [N, D, C] by g [N, C] at j; a nil g means ones.
func (e *Body) ByLanes(x, g *ir.Value) *ir.Value {
	if g == nil {
		return x
	}
	b, s := e.B, x.Type.Shape
	g = e.Element(b.Reshape(g, s[0], 1, s[2]), gdn.DecayBF16Operands)
	return b.Mul(e.Element(x, gdn.DecayBF16Operands), b.Broadcast(g, s, 0, 1, 2))
}

// Times multiplies elements in the type of products with decay.
func (e *Body) Times(x, y *ir.Value) *ir.Value {
	if y == nil {
		return e.Element(x, gdn.DecayBF16All)
	}
	return e.B.Mul(e.Element(x, gdn.DecayBF16All), e.Element(y, gdn.DecayBF16All))
}
