package build

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/target"
)

// sumsByProducts says whether sums over lanes are products with ones, in bf16.
func sumsByProducts(v gdn.Variant) bool {
	return v.PrecIntra == ir.PrecBF16x1 && v.DecaySums == gdn.SumProducts
}

// summand is what is summed over rows or lanes: rounded to bf16 where the sums over lanes are products.
func (e *gradient) summand(x *ir.Value) *ir.Value {
	if !sumsByProducts(e.v) {
		return x
	}
	return e.b.Convert(x, ir.BF16)
}

// lanes are values [N, C, .] whose sums over lanes are added, each with its sign.
type lanes []struct {
	x    *ir.Value
	sign float64
}

// sumLanes gives a sum [N, C] for each list. In bf16 passes, which kernels have, all entries' columns are put beside one another,
// so that one transpose turns them into rows. As products, one with columns of ones makes all sums of an entry, each list in lanes
// of its own.
func (e *gradient) sumLanes(lists ...lanes) []*ir.Value {
	b, n, c := e.b, e.entries(), e.c
	part := target.Lanes / len(lists)
	lane := e.Iota(c, target.Lanes, 1)
	var beside *ir.Value
	put := func(cols *ir.Value, i int, at *ir.Value) { // of entry i, into some lanes
		x := b.Reshape(b.SliceAxis(cols, 0, i, i+1), c, target.Lanes)
		if beside == nil {
			beside = x
		} else {
			beside = b.Select(at, x, beside)
		}
	}
	var out []*ir.Value
	if sumsByProducts(e.v) && n <= part {
		sums := e.productSums(part, lists)
		within := b.Sub(lane, b.Mul(e.Divided(lane, part), b.Like(lane, float64(part))))
		for i := range n {
			put(sums, i, b.Compare(ir.EQ, within, b.Like(lane, float64(i))))
		}
	} else {
		for _, l := range lists {
			out = append(out, e.laneSums(l))
		}
		if e.v.PrecIntra != ir.PrecBF16x1 || n > part {
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

// laneSums are the sums [N, C] of a list in float32; values of as many lanes are added before they are summed.
func (e *gradient) laneSums(l lanes) *ir.Value {
	b := e.b
	add := func(x, y *ir.Value) *ir.Value {
		if x == nil {
			return y
		}
		return b.Add(x, y)
	}
	var wide []int
	byWidth := map[int]*ir.Value{}
	for _, s := range l {
		w := s.x.Type.Shape[2]
		if byWidth[w] == nil {
			wide = append(wide, w)
		}
		byWidth[w] = add(byWidth[w], b.Scale(b.Convert(s.x, ir.F32), s.sign))
	}
	var sum *ir.Value
	for _, w := range wide {
		sum = add(sum, b.Sum(byWidth[w], 2))
	}
	return sum
}

// productSums are the sums [N, C, lanes] of lists, each in the lanes of its part.
func (e *gradient) productSums(part int, lists []lanes) *ir.Value {
	b := e.b
	var xs, ones []*ir.Value
	for i, l := range lists {
		for _, s := range l {
			xs = append(xs, e.summand(s.x))
			rows := s.x.Type.Shape[2]
			t := ir.T(ir.BF16, rows, target.Lanes)
			ones = append(ones, b.Select(b.Compare(ir.EQ, e.Divided(e.Iota(rows, target.Lanes, 1), part), b.Const(ir.T(ir.I32, rows, target.Lanes), float64(i))), b.Const(t, s.sign), b.Const(t, 0)))
		}
	}
	return b.MatMul(b.Concat(2, xs...), e.Over(e.entries(), b.Concat(0, ones...)), false, false, ir.PrecBF16x1)
}

// alive clears the gradient of log decays below the floor: nothing that stands before such a token survives it, and what
// rounding leaves in the sums would be multiplied by the log decay itself on the way to raw gates.
func (e *gradient) alive(w gates, dg *ir.Value) *ir.Value {
	b, floor := e.b, float64(channel.ResetFloor)
	if e.v.Decay == gdn.DecayBase2 {
		floor *= math.Log2E
	}
	return b.Select(b.Compare(ir.GT, w.g, b.Like(w.g, floor*(1-1e-6))), dg, b.Like(dg, 0))
}

// decayGradient is, at token t, the sum of after from t on, that of before up to t and the rest [N] of the whole chunk.
func (e *gradient) decayGradient(after, before, rest *ir.Value) *ir.Value {
	b, c := e.b, e.c
	times := func(x *ir.Value, cmp ir.Cmp) *ir.Value {
		t, p := ir.F32, ir.PrecF32
		parts := []*ir.Value{x}
		if e.v.Decay == gdn.DecayBase2 {
			t, p, parts = ir.BF16, ir.PrecBF16x1, e.Split(x, 3)
		}
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(ir.T(t, c, c), 1), b.Const(ir.T(t, c, c), 0))
		var sum *ir.Value
		for _, part := range parts {
			if y := b.MatMul(part, ones, false, false, p); sum == nil {
				sum = y
			} else {
				sum = b.Add(sum, y)
			}
		}
		return sum
	}
	return b.Add(b.Add(times(after, ir.GE), times(before, ir.LT)), b.Broadcast(rest, after.Type.Shape, 0))
}
