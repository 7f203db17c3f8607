package tile

import "github.com/gdngen/gdngen/ir"

// RunningSums multiplies the rows of x [N, R, K] and y [N or Nk, M, K], and adds up the products lane by lane: [N, R, M, lanes],
// of which AddLanes makes the product. perValue gives rows of key
// heads to value heads. A compiler of loops turns the lanes into a vector, which it may not do with a sum.
func (e *Body) RunningSums(x, y *ir.Value, perValue func(*ir.Value) *ir.Value) *ir.Value {
	b, lanes := e.B, 8
	n, width := x.Type.Shape[0], x.Type.Shape[2]
	for width%lanes != 0 {
		lanes /= 2
	}
	all := []int{n, x.Type.Shape[1], y.Type.Shape[1], lanes}
	var sum *ir.Value
	for at := 0; at < width; at += lanes {
		part := func(x *ir.Value, dims ...int) *ir.Value {
			x = b.Convert(b.SliceAxis(x, 2, at, at+lanes), ir.F32)
			if x.Type.Shape[0] < n {
				x = perValue(x)
			}
			return b.Broadcast(x, all, dims...)
		}
		term := b.Mul(part(x, 0, 1, 3), part(y, 0, 2, 3))
		if sum != nil {
			term = b.Add(sum, term)
		}
		sum = term
	}
	return sum
}

// AddLanes adds up the last dimension by halves.
func (e *Body) AddLanes(x *ir.Value) *ir.Value {
	b, last := e.B, x.Type.Rank()-1
	for w := x.Type.Shape[last] / 2; w > 0; w /= 2 {
		x = b.Add(b.SliceAxis(x, last, 0, w), b.SliceAxis(x, last, w, 2*w))
	}
	return x
}
