package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// Keys and queries are loaded in one of three forms, depending on where they are normalized:
//
//	by XLA ops, or not at all                unchanged
//	in the kernel, chunks forward            unchanged; their lengths are applied to the products (productKey; norms in chunkwise)
//	in the kernel, by tokens or backwards    scaled to length 1 when loaded, in float32 (loadKey); dS uses the unscaled keys (Given in gradient)

// productKey returns keys or queries of the chunks in flight, [N of key heads, C, K], as operands of products.
func (e *gated) productKey(o *operand) *ir.Value {
	name := "k"
	if o == e.in.q {
		name = "q"
	}
	if e.rule().Normalizes() {
		return e.plainKey(o).Called(name)
	}
	return e.loadKey(o).Called(name)
}

// loadKey returns keys or queries of the chunks in flight, [N of key heads, C, K], normalized if the spec wants it and XLA ops did not.
func (e *gated) loadKey(o *operand) *ir.Value {
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		b := e.b.Stage("load")
		return gate.NormRows(b, e.loadTokens(o))
	}
	return e.plainKey(o)
}

// plainKey is loadKey without normalization. bf16 stays bf16 if any product has fewer than all passes: a bf16 operand is exact in one pass, and as
// float32 it would take twice the registers. If all products are in float32, so are keys.
func (e *gated) plainKey(o *operand) *ir.Value {
	b := e.b.Stage("load")
	x := e.loadTokens(o)
	low := e.s.DType == ir.BF16 && (e.v.Numerics.PrecIntra != ir.PrecF32 || e.v.Numerics.PrecState != ir.PrecF32)
	if !low {
		x = b.Convert(x, ir.F32)
	}
	return x
}
