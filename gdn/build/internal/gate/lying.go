package gate

import "github.com/gdngen/gdngen/ir"

// Gates of heads may stay as a TPU has them in memory: [C, H, B], whose batch rows lie along the lanes. They are small, so that a kernel
// has all of them at hand; then nothing moves them before it.

// Rows are the batch rows of a step: First, First + Stride, ..., Count of them.
type Rows struct {
	First         *ir.Value
	Count, Stride int
}

// OfRows returns the gates of a step's batch rows, from x [C, H, B], as [C, rows x H, lanes], each broadcast over all
// lanes. Values of other rows do not affect the result, even if they are NaN.
func OfRows(b *ir.Builder, x *ir.Value, r Rows, lanes int) *ir.Value {
	c, h, all, rows := x.Type.Shape[0], x.Type.Shape[1], x.Type.Shape[2], r.Count
	shape := []int{rows, h, all}
	row := b.Iota(ir.T(ir.I32, shape...), 0)
	if r.Stride > 1 {
		row = b.Mul(row, b.Like(row, float64(r.Stride)))
	}
	own := b.Compare(ir.EQ, b.Iota(ir.T(ir.I32, shape...), 2), b.Add(row, b.Broadcast(r.First, shape)))
	tokens := make([]*ir.Value, c)
	for i := range tokens {
		y := b.Broadcast(b.Reshape(b.SliceAxis(x, 0, i, i+1), h, all), shape, 1, 2)
		y = b.Broadcast(b.Sum(b.Select(own, y, b.Like(y, 0)), 2), []int{rows, h, lanes}, 0, 1)
		tokens[i] = b.Reshape(y, 1, rows*h, lanes)
	}
	return b.Concat(0, tokens...)
}

// Upright transposes a number per head, [1, H] along the lanes, and broadcasts it: [H, lanes].
func Upright(b *ir.Builder, x *ir.Value, lanes int) *ir.Value {
	h := x.Type.Shape[1]
	t := ir.T(ir.I32, h, h)
	y := b.Broadcast(b.Reshape(x, h), []int{h, h}, 1)
	return b.Broadcast(b.Sum(b.Select(b.Compare(ir.EQ, b.Iota(t, 0), b.Iota(t, 1)), y, b.Like(y, 0)), 1), []int{h, lanes}, 0)
}

// OfFew is OfRows for x [B, H], the layout that gates of one token have in memory if batch rows are few.
func OfFew(b *ir.Builder, x *ir.Value, r Rows, lanes int) *ir.Value {
	all, h := x.Type.Shape[0], x.Type.Shape[1]
	var out []*ir.Value
	for j := range r.Count {
		var y *ir.Value
		if r.Count == all {
			y = b.SliceAxis(x, 0, j, j+1)
		} else {
			at := b.Add(r.First, b.Const(ir.T(ir.I32), float64(j*r.Stride)))
			own := b.Compare(ir.EQ, b.Iota(ir.T(ir.I32, all, h), 0), b.Broadcast(at, []int{all, h}))
			y = b.Reshape(b.Sum(b.Select(own, x, b.Like(x, 0)), 0), 1, h)
		}
		out = append(out, Upright(b, y, lanes))
	}
	return b.Reshape(b.Concat(0, out...), 1, r.Count*h, lanes)
}
