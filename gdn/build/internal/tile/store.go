package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Store rounds a value for use in later stages, or splits it into parts that are stored.
func (e *Body) Store(x *ir.Value) *ir.Value {
	x = e.B.Convert(x, e.V.Numerics.Store)
	if e.V.Numerics.Split == gdn.SplitDef {
		e.Cut(x)
	}
	return x
}

// StoreValues is Store for V' [N, C, V]. With similar keys, rounding errors of V' add up over the tokens. So each of several
// blocks of rows adds the rounding error of the previous block: only the error of the last block remains in the sum.
//
// If the kernel normalizes keys, unit and length are 1/|k| and |k| in all lanes, and V' is stored times unit. share [N, C, V] is the fraction of the
// error that each element may take; nil for all of it. For tokens that write nothing it must be zero. Otherwise, after a strong decay, an earlier token's
// error would be all that they write.
//
//	own_i = x_i + left_(i-1)     low_i = own_i in bf16     left_i = own_i - low_i
//	sum low_i = sum x_i - left_n
//
// On equal keys, errors of 3.8e-2 fell to 2.4e-2 with two blocks, 1.6e-2 with four and 1.2e-2 with eight. Each block waits for the previous
// one, and a block is whole registers, so a chunk of 32 tokens has at most two.
func (e *Body) StoreValues(x, unit, length, share *ir.Value) *ir.Value {
	b, n := e.B, e.V.Numerics.ErrorFeedback
	for n > 1 && e.C%(n*rowsOfWords) != 0 {
		n /= 2
	}
	if n < 2 {
		return e.Store(e.By(x, unit))
	}
	var blocks []*ir.Value
	var left *ir.Value
	for i := range n {
		part := func(x *ir.Value) *ir.Value {
			if x == nil {
				return nil
			}
			return b.SliceAxis(x, 1, i*e.C/n, (i+1)*e.C/n)
		}
		own := part(x)
		if left != nil {
			own = b.Add(own, e.By(left, part(share))).Called("own")
		}
		low := e.Store(e.By(own, part(unit)))
		blocks, left = append(blocks, low), b.Sub(own, e.By(b.Convert(low, ir.F32), part(length))).Called("lost")
	}
	return b.Concat(1, blocks...)
}

// rowsOfWords is the number of bf16 rows in a register.
const rowsOfWords = 2 * target.Sublanes
