package tensor

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/codegen/mlir"
)

// Unary are functions of one float, by the name that both dialects use, or StableHLO's.
var Unary = map[string]func(float64) float64{
	"exp": math.Exp, "exp2": math.Exp2, "log": math.Log, "log2": math.Log2, "log1p": math.Log1p, "sqrt": math.Sqrt, "tanh": math.Tanh,
	"rsqrt":    func(x float64) float64 { return 1 / math.Sqrt(x) },
	"logistic": func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"abs":      math.Abs,
	"neg":      func(x float64) float64 { return -x },
}

// Map applies f to each float and rounds the results to the element type.
func Map(x *Tensor, f func(float64) float64) *Tensor {
	r := like(x.Elem, x)
	for i, v := range x.F {
		r.F[i] = float32(f(float64(v)))
	}
	for i, v := range x.D {
		r.D[i] = f(v)
	}
	round(r.Elem, r.F)
	return r
}

// MapInt applies f to each integer and wraps the results to the element type.
func MapInt(x *Tensor, f func(int64) int64) *Tensor {
	r := like(x.Elem, x)
	for i, v := range x.N {
		r.N[i] = wrap(r.Elem, f(int64(v)))
	}
	for i, v := range x.L {
		r.L[i] = f(v)
	}
	return r
}

// FloatOp is an operation on two floats.
type FloatOp uint8

// The operations on two floats. Max and Min return NaN if an operand is NaN.
const (
	Add FloatOp = iota
	Sub
	Mul
	Div
	Max
	Min
	Pow
)

// Floats applies an operation to two tensors of equal type and shape.
func Floats(op FloatOp, x, y *Tensor) *Tensor {
	r := like(x.Elem, x)
	floats(op, r.F, x.F, y.F)
	floats(op, r.D, x.D, y.D)
	round(r.Elem, r.F)
	return r
}

func floats[T float32 | float64](op FloatOp, r, x, y []T) {
	x, y = x[:len(r)], y[:len(r)]
	switch op {
	case Add:
		for i := range r {
			r[i] = x[i] + y[i]
		}
	case Sub:
		for i := range r {
			r[i] = x[i] - y[i]
		}
	case Mul:
		for i := range r {
			r[i] = x[i] * y[i]
		}
	case Div:
		for i := range r {
			r[i] = x[i] / y[i]
		}
	case Max:
		for i := range r {
			r[i] = max(x[i], y[i])
		}
	case Min:
		for i := range r {
			r[i] = min(x[i], y[i])
		}
	case Pow:
		for i := range r {
			r[i] = T(math.Pow(float64(x[i]), float64(y[i])))
		}
	}
}

// IntOp is an operation on two integers.
type IntOp uint8

// The operations on two integers. Division by zero returns all ones. A shift by the width or more returns 0; a signed one returns copies
// of the sign.
const (
	AddI IntOp = iota
	SubI
	MulI
	And
	Or
	Xor
	DivS
	DivU
	RemS
	RemU
	MaxS
	MinS
	MaxU
	MinU
	Shl
	ShrU
	ShrS
)

// Ints applies an operation to two tensors of equal type and shape, and wraps the results.
func Ints(op IntOp, x, y *Tensor) *Tensor {
	r := like(x.Elem, x)
	if plain(op, r.N, x.N, y.N) {
		if x.Elem != mlir.I32 && x.Elem != mlir.U32 {
			for i, v := range r.N {
				r.N[i] = wrap(r.Elem, int64(v))
			}
		}
	} else {
		width := uint(8 * x.Elem.Bytes())
		mask := int64(1)<<min(width, 32) - 1
		for i, v := range x.N {
			a, b := int64(v), int64(y.N[i])
			if unsigned(op) {
				a, b = a&mask, b&mask
			}
			r.N[i] = wrap(r.Elem, integer(op, a, b, width))
		}
	}
	for i, v := range x.L {
		r.L[i] = integer(op, v, y.L[i], 64)
	}
	return r
}

func unsigned(op IntOp) bool {
	return op == DivU || op == RemU || op == MaxU || op == MinU || op == ShrU
}

// plain computes the operations that are common in kernels, and reports whether it did.
func plain(op IntOp, r, x, y []int32) bool {
	x, y = x[:len(r)], y[:len(r)]
	switch op {
	case And:
		for i := range r {
			r[i] = x[i] & y[i]
		}
	case Or:
		for i := range r {
			r[i] = x[i] | y[i]
		}
	case Xor:
		for i := range r {
			r[i] = x[i] ^ y[i]
		}
	case AddI:
		for i := range r {
			r[i] = x[i] + y[i]
		}
	case SubI:
		for i := range r {
			r[i] = x[i] - y[i]
		}
	case MulI:
		for i := range r {
			r[i] = x[i] * y[i]
		}
	default:
		return false
	}
	return true
}

// integer computes in 64 bits; unsigned operands must be given zero-extended.
func integer(op IntOp, a, b int64, width uint) int64 {
	switch op {
	case AddI:
		return a + b
	case SubI:
		return a - b
	case MulI:
		return a * b
	case And:
		return a & b
	case Or:
		return a | b
	case Xor:
		return a ^ b
	case MaxS, MaxU:
		return max(a, b)
	case MinS, MinU:
		return min(a, b)
	case DivS, DivU:
		switch b {
		case 0:
			return -1
		case -1:
			return -a
		}
		return a / b
	case RemS, RemU:
		switch b {
		case 0:
			return a
		case -1:
			return 0
		}
		return a % b
	}
	n := uint64(b)
	switch {
	case op == ShrS:
		return a >> min(n, uint64(width)-1)
	case n >= uint64(width):
		return 0
	case op == Shl:
		return a << n
	}
	return int64(uint64(a) >> n)
}

// Relation is a comparison; with a NaN only NE is true.
type Relation uint8

// The relations.
const (
	EQ Relation = iota
	NE
	LT
	LE
	GT
	GE
)

// Compare compares two tensors of equal type, elementwise, as I1; with noSign, integers are unsigned.
func Compare(rel Relation, x, y *Tensor, noSign bool) *Tensor {
	r := like(mlir.I1, x)
	compare(rel, r.N, x.F, y.F)
	compare(rel, r.N, x.D, y.D)
	compare(rel, r.N, x.L, y.L)
	if noSign {
		a, b := make([]uint32, len(x.N)), make([]uint32, len(y.N))
		for i, v := range x.N {
			a[i], b[i] = uint32(v), uint32(y.N[i])
		}
		compare(rel, r.N, a, b)
	} else {
		compare(rel, r.N, x.N, y.N)
	}
	return r
}

func compare[T float32 | float64 | int32 | int64 | uint32](rel Relation, r []int32, x, y []T) {
	for i, v := range x {
		var b bool
		switch w := y[i]; rel {
		case EQ:
			b = v == w
		case NE:
			b = v != w
		case LT:
			b = v < w
		case LE:
			b = v <= w
		case GT:
			b = v > w
		case GE:
			b = v >= w
		}
		if b {
			r[i] = 1
		}
	}
}

// Select returns elements of x where the condition is true, else of y. The condition has x's shape, or is one scalar.
func Select(c, x, y *Tensor) *Tensor {
	if len(c.Shape) == 0 {
		if c.N[0] != 0 {
			return x
		}
		return y
	}
	r := like(x.Elem, x)
	pick(r.F, c.N, x.F, y.F)
	pick(r.D, c.N, x.D, y.D)
	pick(r.N, c.N, x.N, y.N)
	pick(r.L, c.N, x.L, y.L)
	return r
}

func pick[T any](r []T, c []int32, x, y []T) {
	for i := range r {
		if c[i] != 0 {
			r[i] = x[i]
		} else {
			r[i] = y[i]
		}
	}
}

// Convert converts elements to another type. To floats it rounds once. From floats it truncates and clamps to the type's range, with NaN
// as 0. Between integers it wraps. To I1 it returns whether a number is not 0.
func Convert(x *Tensor, e mlir.Elem) *Tensor {
	r := like(e, x)
	switch {
	case e == x.Elem:
		return x
	case e == mlir.I1:
		return Compare(NE, x, like(x.Elem, x), false)
	case x.F != nil && r.F != nil:
		copy(r.F, x.F)
		round(e, r.F)
		return r
	}
	if x.Elem.Float() {
		for i := range r.Size() {
			v := x.float(i)
			switch {
			case r.F != nil: // f64: to f32 by round-to-odd first, so that there is one rounding
				r.F[i] = float32(v)
				if e != mlir.F32 {
					r.F[i] = toOdd(v)
				}
			case r.D != nil:
				r.D[i] = v
			default:
				r.setInt(i, truncate(v, e))
			}
		}
		round(e, r.F)
		return r
	}
	for i := range r.Size() {
		v := x.int(i)
		switch {
		case e == mlir.F32:
			r.F[i] = float32(v)
		case r.F != nil:
			r.F[i] = toOdd(float64(v))
		case r.D != nil:
			r.D[i] = float64(v)
		default:
			r.setInt(i, v)
		}
	}
	round(e, r.F)
	return r
}

// int returns an integer element as a number; ui32 and ui16 are unsigned.
func (t *Tensor) int(i int) int64 {
	switch {
	case t.L != nil:
		return t.L[i]
	case t.Elem == mlir.U32:
		return int64(uint32(t.N[i]))
	}
	return int64(t.N[i])
}

func (t *Tensor) float(i int) float64 {
	if t.D != nil {
		return t.D[i]
	}
	return float64(t.F[i])
}

// toOdd truncates a number to float32 and sets its last bit if that is inexact. Rounding the result to fewer bits then equals rounding
// the number.
func toOdd(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v || math.IsInf(float64(f), 0) {
		return f
	}
	if math.Abs(float64(f)) > math.Abs(v) {
		f = math.Nextafter32(f, 0)
	}
	return math.Float32frombits(math.Float32bits(f) | 1)
}

// bounds are the smallest and the largest integer of a type, as floats.
var bounds = map[mlir.Elem][2]float64{
	mlir.I64: {math.MinInt64, math.MaxInt64}, mlir.Index: {math.MinInt64, math.MaxInt64}, mlir.I32: {math.MinInt32, math.MaxInt32},
	mlir.I16: {math.MinInt16, math.MaxInt16}, mlir.U32: {0, math.MaxUint32}, mlir.U16: {0, math.MaxUint16},
}

func truncate(v float64, e mlir.Elem) int64 {
	b := bounds[e]
	switch {
	case v != v:
		return 0
	case v <= b[0]:
		return int64(b[0])
	case v >= b[1] && b[1] > math.MaxUint32:
		return math.MaxInt64
	case v >= b[1]:
		return int64(b[1])
	}
	return int64(v)
}

// Bitcast reinterprets the bits as another type of the same width; it panics for another width.
func Bitcast(x *Tensor, e mlir.Elem) *Tensor {
	if e.Bytes() != x.Elem.Bytes() {
		panic(fmt.Sprintf("the bits of %s as %s", x, e))
	}
	r := like(e, x)
	switch {
	case x.Elem == mlir.F32 && r.N != nil:
		for i, v := range x.F {
			r.N[i] = int32(math.Float32bits(v))
		}
	case e == mlir.F32 && x.N != nil:
		for i, v := range x.N {
			r.F[i] = math.Float32frombits(uint32(v))
		}
	default:
		for i := range r.Size() {
			r.SetBits(i, x.Bits(i))
		}
	}
	return r
}

// Words joins rows 2i (the low half) and 2i+1 of 16-bit elements to row i of 32-bit elements, as registers of a TPU hold them. It panics
// for an odd number of rows. Halves is its inverse.
func Words(x *Tensor, e mlir.Elem) *Tensor {
	shape, cols := rows(x, 2, 1)
	r := New(e, shape...)
	for i := range r.Size() {
		row, col := i/cols, i%cols
		r.SetBits(i, x.Bits(2*row*cols+col)|x.Bits((2*row+1)*cols+col)<<16)
	}
	return r
}

// Halves splits each row of 32-bit elements into two rows of 16 bits, the low half first.
func Halves(x *Tensor, e mlir.Elem) *Tensor {
	shape, cols := rows(x, 1, 2)
	r := New(e, shape...)
	for i := range x.Size() {
		row, col, b := i/cols, i%cols, x.Bits(i)
		r.SetBits(2*row*cols+col, b&0xffff)
		r.SetBits((2*row+1)*cols+col, b>>16)
	}
	return r
}

// rows returns x's shape with the number of rows divided and multiplied, and the number of columns.
func rows(x *Tensor, divide, multiply int) ([]int, int) {
	n := len(x.Shape)
	if n < 2 || x.Shape[n-2]%divide != 0 {
		panic(fmt.Sprintf("the rows of %s in pairs", x))
	}
	shape := append([]int{}, x.Shape...)
	shape[n-2] = shape[n-2] / divide * multiply
	return shape, max(shape[n-1], 1)
}
