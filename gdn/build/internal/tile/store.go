package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Store rounds what is kept between stages, or cuts it into the parts that are kept.
func (e *Body) Store(x *ir.Value) *ir.Value {
	x = e.B.Convert(x, e.V.Numerics.Store)
	if e.V.Numerics.Split == gdn.SplitDef {
		e.Cut(x)
	}
	return x
}

// StoreValues is store for V' [N, C, V]. Where keys are alike, what rounding adds to V' is summed over the tokens. So each of a
// number of blocks of rows takes what rounding left of the one before: in the sum only what it left of the last remains.
//
// Where the kernel normalizes keys, unit and length are 1/|k| and |k| in all lanes, and V' is stored times the first. A share [N, C, V] says how much
// of it each element may take; nil for all. Keys of tokens that write nothing must have none: what an earlier token left, behind a strong decay, would
// be all that they write.
//
//	own_i = x_i + left_(i-1)     low_i = own_i in bf16     left_i = own_i - low_i
//	sum low_i = sum x_i - left_n
//
// On keys that are all alike, errors of 3.8e-2 came down to 2.4e-2 with two blocks, 1.6e-2 with four and 1.2e-2 with eight. Each block waits for the one
// before, and a block is whole registers: a chunk of 32 tokens takes no more than two.
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
