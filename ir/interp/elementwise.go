package interp

import (
	"math"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// wide are unary functions that are computed in float64 and rounded once.
var wide = map[ir.Op]func(float64) float64{
	ir.OpExp:      math.Exp,
	ir.OpExp2:     math.Exp2,
	ir.OpLog:      math.Log,
	ir.OpLog2:     math.Log2,
	ir.OpLog1p:    math.Log1p,
	ir.OpSqrt:     math.Sqrt,
	ir.OpRsqrt:    func(x float64) float64 { return 1 / math.Sqrt(x) },
	ir.OpTanh:     math.Tanh,
	ir.OpLogistic: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}

// unary computes functions of one operand. Negation and absolute value act on the sign bit, so that
// they keep NaN and are exact in every type.
func unary(in *ir.Instr, a []*tensor) (*tensor, error) {
	x := a[0]
	out := newTensor(x.dt, x.shape)
	switch in.Op {
	case ir.OpNeg:
		for i, v := range x.f {
			out.f[i] = -v
		}
		for i, v := range x.d {
			out.d[i] = -v
		}
		for i, v := range x.n {
			out.n[i] = -v
		}
	case ir.OpAbs:
		for i, v := range x.f {
			out.f[i] = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
		}
		for i, v := range x.d {
			out.d[i] = math.Abs(v)
		}
		for i, v := range x.n {
			out.n[i] = max(v, -v)
		}
	case ir.OpNot:
		for i, v := range x.n {
			out.n[i] = ^v
		}
		if x.dt == ir.Bool {
			for i := range out.n {
				out.n[i] &= 1
			}
		}
	default:
		f := wide[in.Op]
		for i, v := range x.f {
			out.f[i] = float32(f(float64(v)))
		}
		for i, v := range x.d {
			out.d[i] = f(v)
		}
		round(x.dt, out.f)
		return out, nil
	}
	wrap(out.dt, out.n)
	return out, nil
}

// elements computes arithmetic on two operands. Narrow floats are added in float32 and rounded
// once.
func elements(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, y := a[0], a[1]
	out := newTensor(x.dt, x.shape)
	switch {
	case x.f != nil:
		arith(in.Op, out.f, x.f, y.f)
		round(out.dt, out.f)
	case x.d != nil:
		arith(in.Op, out.d, x.d, y.d)
	default:
		integer(in.Op, out.dt, out.n, x.n, y.n)
		wrap(out.dt, out.n)
	}
	return out, nil
}

// arith is the float arithmetic. Go's max and min give NaN where either is, which is what the op's
// row says.
func arith[T float32 | float64](op ir.Op, out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	switch op {
	case ir.OpAdd:
		for i := range out {
			out[i] = x[i] + y[i]
		}
	case ir.OpSub:
		for i := range out {
			out[i] = x[i] - y[i]
		}
	case ir.OpMul:
		for i := range out {
			out[i] = x[i] * y[i]
		}
	case ir.OpDiv:
		for i := range out {
			out[i] = x[i] / y[i]
		}
	case ir.OpMax:
		for i := range out {
			out[i] = max(x[i], y[i])
		}
	case ir.OpMin:
		for i := range out {
			out[i] = min(x[i], y[i])
		}
	}
}

// integer computes in 64 bits; the caller wraps. Division by zero gives all ones (-1 where signed),
// and the least number divided by -1 gives itself.
func integer(op ir.Op, dt ir.DType, out, x, y []int64) {
	width := int64(8 * dt.Bytes())
	for i := range out {
		a, b := x[i], y[i]
		switch op {
		case ir.OpAdd:
			a += b
		case ir.OpSub:
			a -= b
		case ir.OpMul:
			a *= b
		case ir.OpDiv:
			switch b {
			case 0:
				a = -1
			case -1:
				a = -a
			default:
				a /= b
			}
		case ir.OpMax:
			a = max(a, b)
		case ir.OpMin:
			a = min(a, b)
		case ir.OpAnd:
			a &= b
		case ir.OpOr:
			a |= b
		case ir.OpXor:
			a ^= b
		case ir.OpShl, ir.OpShr:
			a = shift(op, dt, a, b, width)
		}
		out[i] = a
	}
}

// shift fills with zeros, on signed numbers too.
func shift(op ir.Op, dt ir.DType, a, b, width int64) int64 {
	if b < 0 || b >= width {
		return 0 // a negative count is a huge one
	}
	if op == ir.OpShl {
		return a << b
	}
	if dt == ir.I32 {
		return int64(uint32(a) >> b)
	}
	return int64(uint64(a) >> b)
}

func compare(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, y := a[0], a[1]
	out := newTensor(ir.Bool, x.shape)
	relate(in.Attrs.Cmp, out.n, x.f, y.f)
	relate(in.Attrs.Cmp, out.n, x.d, y.d)
	relate(in.Attrs.Cmp, out.n, x.n, y.n)
	return out, nil
}

// relate compares: with NaN all but "not equal" is false.
func relate[T float32 | float64 | int64](c ir.Cmp, out []int64, x, y []T) {
	for i := range x {
		var b bool
		switch c {
		case ir.EQ:
			b = x[i] == y[i]
		case ir.NE:
			b = x[i] != y[i]
		case ir.LT:
			b = x[i] < y[i]
		case ir.LE:
			b = x[i] <= y[i]
		case ir.GT:
			b = x[i] > y[i]
		case ir.GE:
			b = x[i] >= y[i]
		}
		if b {
			out[i] = 1
		}
	}
}

// choose takes each element from one side; a scalar condition takes all of one side. It copies bits: a
// NaN on the other side has no effect, which masks rely on.
func choose(_ *ir.Instr, a []*tensor) (*tensor, error) {
	c, x, y := a[0], a[1], a[2]
	if len(c.shape) == 0 {
		if c.scalar() != 0 {
			return x, nil
		}
		return y, nil
	}
	out := newTensor(x.dt, x.shape)
	pick(out.f, c.n, x.f, y.f)
	pick(out.d, c.n, x.d, y.d)
	pick(out.n, c.n, x.n, y.n)
	return out, nil
}

func pick[T any](out []T, c []int64, x, y []T) {
	for i := range out {
		if c[i] != 0 {
			out[i] = x[i]
		} else {
			out[i] = y[i]
		}
	}
}

// convert has a path for each conversion that kernels make; the rest goes through arrays, whose
// conversions are the same.
func convert(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, dt := a[0], in.Result().Type.DType
	out := &tensor{dt: dt, shape: x.shape}
	switch {
	case dt == x.dt:
		return x, nil
	case x.f != nil && dt == ir.F32:
		out.f = x.f
	case x.f != nil && dt == ir.BF16:
		out.f = make([]float32, len(x.f))
		roundBF16(out.f, x.f)
	case x.n != nil && dt.IsInt():
		out.n = append([]int64{}, x.n...)
		wrap(dt, out.n)
	case x.n != nil && dt == ir.F32:
		out.f = make([]float32, len(x.n))
		for i, v := range x.n {
			out.f[i] = float32(v)
		}
	default:
		return fromArray(x.array().Convert(dt)), nil
	}
	return out, nil
}

// bitcast keeps the bits.
func bitcast(in *ir.Instr, a []*tensor) (*tensor, error) {
	x := a[0]
	out := newTensor(in.Result().Type.DType, x.shape)
	switch {
	case x.dt == ir.U32 && out.dt == ir.F32:
		for i, v := range x.n {
			out.f[i] = math.Float32frombits(uint32(v))
		}
	case x.dt == ir.F32 && out.dt == ir.U32:
		for i, v := range x.f {
			out.n[i] = int64(math.Float32bits(v))
		}
	default:
		for i := range x.size() {
			out.setBits(i, x.bits(i))
		}
	}
	return out, nil
}

// pack rounds two f32 values to bf16 and joins them to words, the first in the low halves.
func pack(_ *ir.Instr, a []*tensor) (*tensor, error) {
	out := newTensor(ir.U32, a[0].shape)
	lo, hi := a[0].f, a[1].f
	for i := range out.n {
		out.n[i] = int64(math.Float32bits(array.RoundBF16(lo[i]))>>16 | math.Float32bits(array.RoundBF16(hi[i])))
	}
	return out, nil
}

// words joins rows 2i and 2i+1 of bf16; halves splits them again.
func words(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, out := a[0], newLike(in.Result().Type)
	n := x.shape[len(x.shape)-1]
	for r := 0; n > 0 && r < len(out.n)/n; r++ {
		lo, hi, dst := x.f[2*r*n:][:n], x.f[(2*r+1)*n:][:n], out.n[r*n:][:n]
		for i := range dst {
			dst[i] = int64(math.Float32bits(lo[i])>>16 | math.Float32bits(hi[i])&0xffff0000)
		}
	}
	return out, nil
}

func halves(in *ir.Instr, a []*tensor) (*tensor, error) {
	x, out := a[0], newLike(in.Result().Type)
	n := x.shape[len(x.shape)-1]
	for r := 0; n > 0 && r < len(x.n)/n; r++ {
		src, lo, hi := x.n[r*n:][:n], out.f[2*r*n:][:n], out.f[(2*r+1)*n:][:n]
		for i, w := range src {
			lo[i] = math.Float32frombits(uint32(w) << 16)
			hi[i] = math.Float32frombits(uint32(w) & 0xffff0000)
		}
	}
	return out, nil
}

func constant(in *ir.Instr, _ []*tensor) (*tensor, error) {
	return splat(in.Result().Type, in.Attrs.Value), nil
}

func iota(in *ir.Instr, _ []*tensor) (*tensor, error) {
	t, axis := in.Result().Type, in.Attrs.Axis
	idx := make([]int64, t.Shape[axis])
	for i := range idx {
		idx[i] = int64(i)
	}
	line := fromArray(array.FromInt64s(t.DType, []int{len(idx)}, idx))
	out := newLike(t)
	sStr := make([]int, t.Rank())
	sStr[axis] = 1
	block{dst: out, src: line, dStr: strides(t.Shape), sStr: sStr, shape: t.Shape}.copy()
	return out, nil
}
