package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// productKey brings keys or queries of the chunks in flight, [N of key heads, C, K], as products take them.
func (e *gated) productKey(o *operand) *ir.Value {
	if e.rule().Normalizes() {
		return e.plainKey(o)
	}
	return e.loadKey(o)
}

// loadKey brings keys or queries of the chunks in flight, [N of key heads, C, K].
func (e *gated) loadKey(o *operand) *ir.Value {
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		b := e.b.Stage("load")
		return gate.NormRows(b, e.loadRows(o))
	}
	return e.plainKey(o)
}

// plainKey is loadKey without normalization.
func (e *gated) plainKey(o *operand) *ir.Value {
	b := e.b.Stage("load")
	x := e.loadRows(o)
	low := e.s.DType == ir.BF16 && (e.v.Numerics.PrecIntra != ir.PrecF32 || e.v.Numerics.PrecState != ir.PrecF32)
	if !low {
		x = b.Convert(x, ir.F32)
	}
	return x
}
