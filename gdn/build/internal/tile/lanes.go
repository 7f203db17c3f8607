package tile

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// SumsByProducts reports whether sums over lanes are products with ones, in bf16.
func SumsByProducts(v gdn.Variant) bool {
	return v.Numerics.PrecIntra == ir.PrecBF16x1 && v.Training.DecaySums == gdn.SumProducts
}

// Summand returns a value for sums over rows and lanes: rounded to bf16 if the sums over lanes are products.
//
// W_ij is added to the sums of token i and subtracted from the sums of token j, so it must cancel for all earlier tokens. It does if both use the same
// number. If only one were rounded, the difference would remain in the gradients of all earlier tokens.
func (e *Body) Summand(x *ir.Value) *ir.Value {
	if !SumsByProducts(e.V) {
		return x
	}
	return e.B.Convert(x, ir.BF16)
}

// Lanes are values [N, C, .] whose signed sums over lanes are added.
type Lanes []struct {
	X    *ir.Value
	Sign float64
}

// SumLanes returns a sum [N, C] for each list. In bf16 passes, as in kernels, the columns of all entries are put into the lanes of one tile,
// so that one transpose turns them into rows. With products, one product with columns of ones makes all sums of an entry, each list in its
// own lanes.
//
// A sum over lanes of [N, C, L] is a column of C numbers per entry, which uses one of 128 lanes of a register; its readers
// need rows [N, C]. Transposing a column costs as much as a full tile, so columns of all entries and lists share one tile:
//
//	two lists of three entries:   lanes 0 1 2 are the sums of the first list, lanes 64 65 66 those of the second; rows are tokens
//	transposed:                   rows 0 1 2 and rows 64 65 66 are the results
func (e *Body) SumLanes(lists ...Lanes) []*ir.Value {
	b, n, c := e.B, lists[0][0].X.Type.Shape[0], e.C
	part := target.Lanes / len(lists)
	lane := e.Iota(c, target.Lanes, 1)
	var beside *ir.Value
	put := func(cols *ir.Value, i int, at *ir.Value) { // of entry i, into some lanes
		x := b.Reshape(b.SliceAxis(cols, 0, i, i+1), c, target.Lanes)
		if beside == nil {
			beside = x
		} else {
			beside = b.Select(at, x, beside).Called("beside")
		}
	}
	var out []*ir.Value
	if SumsByProducts(e.V) && n <= part {
		sums := e.productSums(part, lists)
		within := b.Sub(lane, b.Mul(e.Divided(lane, part).Called("group"), b.Like(lane, float64(part)))).Called("within")
		for i := range n {
			put(sums, i, b.Compare(ir.EQ, within, b.Like(lane, float64(i))))
		}
	} else {
		for _, l := range lists {
			out = append(out, e.laneSums(l))
		}
		if e.V.Numerics.PrecIntra != ir.PrecBF16x1 || n > part {
			return out
		}
		for j, sum := range out {
			cols := e.Column(sum, target.Lanes)
			for i := range n {
				put(cols, i, b.Compare(ir.EQ, lane, b.Like(lane, float64(j*part+i))))
			}
		}
	}
	rows := b.Transpose(beside, 1, 0)
	out = nil
	for i := range lists {
		out = append(out, b.SliceAxis(rows, 0, i*part, i*part+n))
	}
	return out
}

// laneSums returns the sums [N, C] of a list in float32; values of equal width are added before they are summed.
func (e *Body) laneSums(l Lanes) *ir.Value {
	b := e.B
	add := func(x, y *ir.Value) *ir.Value {
		if x == nil {
			return y
		}
		return b.Add(x, y)
	}
	var wide []int
	byWidth := map[int]*ir.Value{}
	for _, s := range l {
		w := s.X.Type.Shape[2]
		if byWidth[w] == nil {
			wide = append(wide, w)
		}
		byWidth[w] = add(byWidth[w], b.Scale(b.Convert(s.X, ir.F32), s.Sign))
	}
	var sum *ir.Value
	for _, w := range wide {
		sum = add(sum, b.Sum(byWidth[w], 2))
	}
	return sum
}

// productSums returns the sums [N, C, lanes] of lists, each in the lanes of its part.
//
//	lists {r, -w} and {y}:   [r | w | y] [  1  0 ]     a number here stands for 64 lanes, and as many rows as the value has lanes
//	                                     [ -1  0 ]
//	                                     [  0  1 ]
func (e *Body) productSums(part int, lists []Lanes) *ir.Value {
	b := e.B
	var xs, ones []*ir.Value
	for i, l := range lists {
		for _, s := range l {
			xs = append(xs, e.Summand(s.X))
			rows := s.X.Type.Shape[2]
			t := ir.T(ir.BF16, rows, target.Lanes)
			ones = append(ones, b.Select(b.Compare(ir.EQ, e.Divided(e.Iota(rows, target.Lanes, 1), part).Called("group"), b.Const(ir.T(ir.I32, rows, target.Lanes), float64(i))).Called("own"), b.Const(t, s.Sign), b.Const(t, 0)))
		}
	}
	return b.MatMul(b.Concat(2, xs...).Called("terms"), e.Over(lists[0][0].X.Type.Shape[0], b.Concat(0, ones...).Called("ones")), false, false, ir.PrecBF16x1).Called("lane_sum")
}
