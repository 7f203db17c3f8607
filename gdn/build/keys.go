package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// Keys and queries are loaded in one of three forms, by where their length is seen to:
//
//	the glue, or nobody                      as they lie: rows have length 1, or are taken as they are
//	the kernel, chunks forward               as they lie, with their lengths beside the products (productKey; norms in chunkwise)
//	the kernel, by tokens or backwards       scaled to length 1 as they are loaded, in float32 (loadKey); dS meets keys as they lie (Given in gradient)

// productKey brings keys or queries of the chunks in flight, [N of key heads, C, K], as products take them.
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

// loadKey brings keys or queries of the chunks in flight, [N of key heads, C, K], at length 1 where the spec wants that and the glue did not see to it.
func (e *gated) loadKey(o *operand) *ir.Value {
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		b := e.b.Stage("load")
		return gate.NormRows(b, e.loadTokens(o))
	}
	return e.plainKey(o)
}

// plainKey is loadKey without normalization. bf16 stays bf16 where any product takes fewer than all passes: a bf16 operand is exact in one, and as float32 it
// would be twice the registers and be rounded to what it was. Where all products are in float32, so are keys.
func (e *gated) plainKey(o *operand) *ir.Value {
	b := e.b.Stage("load")
	x := e.loadTokens(o)
	low := e.s.DType == ir.BF16 && (e.v.Numerics.PrecIntra != ir.PrecF32 || e.v.Numerics.PrecState != ir.PrecF32)
	if !low {
		x = b.Convert(x, ir.F32)
	}
	return x
}
