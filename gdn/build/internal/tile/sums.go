package tile

import "github.com/gdngen/gdngen/ir"

// RunningSums multiplies the rows of x [N, R, K] and y [N or Nk, M, K], and adds the products lane by lane: [N, R, M, lanes].
// AddLanes of it is the matrix product. A loop compiler can vectorize the lanes, but not a single sum:
// float addition is not associative, so K sequential additions must stay sequential. Here the order of additions
// is eight interleaved sums, each of every eighth product:
//
//	K = 16:  sum[l] = x[l] y[l] + x[8+l] y[8+l]  for lanes l = 0..7, then AddLanes: 8 -> 4 -> 2 -> 1
func RunningSums(b *ir.Builder, x, y *ir.Value) *ir.Value {
	lanes := 8
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
				x = Repeated(b, x, n/x.Type.Shape[0])
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
//
//	[a b c d] -> [a+c b+d] -> [a+c+b+d]
func AddLanes(b *ir.Builder, x *ir.Value) *ir.Value {
	last := x.Type.Rank() - 1
	for w := x.Type.Shape[last] / 2; w > 0; w /= 2 {
		x = b.Add(b.SliceAxis(x, last, 0, w), b.SliceAxis(x, last, w, 2*w))
	}
	return x
}

// SumRows adds the rows of x [N, R, L] to [N, L], by two interleaved registers of 8 rows: a TPU's compiler would add a tile register by register, each
// waiting for the previous one.
//
//	R = 64:  sum[r] = x[r] + x[16+r] + x[32+r] + x[48+r]  for rows r = 0..15, then the sum of these
func SumRows(b *ir.Builder, x *ir.Value) *ir.Value {
	const beside = 16
	rows := x.Type.Shape[1]
	if rows%beside != 0 {
		return b.Sum(x, 1)
	}
	sum := b.SliceAxis(x, 1, 0, beside)
	for at := beside; at < rows; at += beside {
		sum = b.Add(sum, b.SliceAxis(x, 1, at, at+beside))
	}
	return b.Sum(sum, 1)
}

// Repeated repeats each entry of x [N, R, L] times times.
//
//	[A B] twice -> [A A B B]     value heads of one key head are adjacent; Summed makes [A1+A2 B1+B2] of [A1 A2 B1 B2]
func Repeated(b *ir.Builder, x *ir.Value, times int) *ir.Value {
	if times == 1 {
		return x
	}
	s := x.Type.Shape
	x = b.Broadcast(x, []int{s[0], times, s[1], s[2]}, 0, 2, 3)
	return b.Reshape(x, s[0]*times, s[1], s[2])
}

// Summed adds groups of successive entries of x [N, R, L], in float32. It is the gradient of Repeated: value
// heads that share a key head add their gradients of its keys and queries.
func Summed(b *ir.Builder, x *ir.Value, entries int) *ir.Value {
	if entries == 1 {
		return x
	}
	s := x.Type.Shape
	name := ir.NameOf(x)
	if name != "" {
		name += "_sum"
	}
	x = b.Reshape(b.Convert(x, ir.F32), s[0]/entries, entries, s[1], s[2])
	var sum *ir.Value
	for i := range entries {
		part := b.Reshape(b.SliceAxis(x, 1, i, i+1), s[0]/entries, s[1], s[2])
		if sum == nil {
			sum = part
		} else {
			sum = b.Add(sum, part).Called(name)
		}
	}
	return sum
}

// IdentityFirst returns the state [I | 0] of k rows for every sequence and head of a type of states.
//
// Tokens map a state S to M S + B. From [I | 0], with values that are zero in the first k lanes, the same kernel makes [M | B].
func IdentityFirst(b *ir.Builder, k int, states ir.Type) *ir.Value {
	one := ir.T(ir.I32, k, states.Shape[len(states.Shape)-1])
	eye := b.Select(b.Compare(ir.EQ, b.Iota(one, 0), b.Iota(one, 1)), b.Const(ir.T(ir.F32, one.Shape...), 1), b.Const(ir.T(ir.F32, one.Shape...), 0))
	return b.Broadcast(eye, states.Shape, 2, 3)
}

// Each returns f(x), or nil for nil.
func Each(f func(*ir.Value) *ir.Value, x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	return f(x)
}
