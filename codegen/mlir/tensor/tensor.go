// Package tensor holds the values of evaluated MLIR programs, and computes their operations.
//
// Rules:
//
//  1. Values are dense, row-major and never changed after they are made, so a reshape can share elements.
//  2. Floats narrower than f32 are float32 numbers that the type can represent: computed in f32 and rounded once. Functions such as exp are
//     computed in float64 and rounded once.
//  3. Integers of 32 bits or less are int32 each: the bits of i32 and ui32, i16 sign-extended, ui16 zero-extended, i1 as 0 or 1. If the sign
//     matters, the operation says which.
//  4. Sums run in index order, in f32, or in the element type if that is wider.
//
// Shapes must come from checked programs: an operation panics if they do not fit, and its caller turns the panic into an error.
package tensor

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Tensor is a value. One of its slices holds the elements: F for f32, bf16 and f16, D for f64, N for integers up to 32 bits, L for wider
// ones.
type Tensor struct {
	Elem  mlir.Elem
	Shape []int
	F     []float32
	D     []float64
	N     []int32
	L     []int64
}

// Size returns the number of elements of a shape.
func Size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// New returns a tensor of zeros.
func New(e mlir.Elem, shape ...int) *Tensor {
	t, n := &Tensor{Elem: e, Shape: shape}, Size(shape)
	switch e {
	case mlir.F32, mlir.BF16, mlir.F16:
		t.F = make([]float32, n)
	case mlir.F64:
		t.D = make([]float64, n)
	case mlir.I64, mlir.Index:
		t.L = make([]int64, n)
	case mlir.I32, mlir.U32, mlir.I16, mlir.U16, mlir.I1:
		t.N = make([]int32, n)
	default:
		panic(fmt.Sprintf("a tensor of %s", e))
	}
	return t
}

// like returns a new tensor of x's shape.
func like(e mlir.Elem, x *Tensor) *Tensor { return New(e, x.Shape...) }

// Size returns the number of elements.
func (t *Tensor) Size() int { return Size(t.Shape) }

// Is reports whether the tensor has the element type and shape of u, ignoring u's kind.
func (t *Tensor) Is(u mlir.Type) bool { return t.Elem == u.Elem && slices.Equal(t.Shape, u.Shape) }

func (t *Tensor) String() string {
	return mlir.Type{Kind: mlir.Tensor, Elem: t.Elem, Shape: t.Shape}.String()
}

// Int returns the only element of an integer tensor; ui32 and ui16 are unsigned, others signed.
func (t *Tensor) Int() int {
	switch {
	case t.L != nil:
		return int(t.L[0])
	case t.Elem == mlir.U32:
		return int(uint32(t.N[0]))
	}
	return int(t.N[0])
}

// Scalar returns an integer tensor without dimensions.
func Scalar(e mlir.Elem, v int) *Tensor {
	t := New(e)
	t.setInt(0, int64(v))
	return t
}

// Reshape returns the same elements in another shape, without a copy; it panics if the sizes differ.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	if Size(shape) != t.Size() {
		panic(fmt.Sprintf("%s as %v", t, shape))
	}
	r := *t
	r.Shape = shape
	return &r
}

// As returns the same elements as another type with the same representation, such as i32 as ui32.
func (t *Tensor) As(e mlir.Elem) *Tensor {
	r := *t
	r.Elem = e
	return &r
}

// setInt stores an integer, wrapped to the type.
func (t *Tensor) setInt(i int, v int64) {
	if t.L != nil {
		t.L[i] = v
		return
	}
	t.N[i] = wrap(t.Elem, v)
}

func wrap(e mlir.Elem, v int64) int32 {
	switch e {
	case mlir.I1:
		return int32(v & 1)
	case mlir.I16:
		return int32(int16(v))
	case mlir.U16:
		return int32(uint16(v))
	}
	return int32(v)
}

// round rounds float32 numbers to a narrower type in place.
func round(e mlir.Elem, x []float32) {
	switch e {
	case mlir.BF16:
		for i, v := range x {
			b := math.Float32bits(v)
			if b&0x7f800000 == 0x7f800000 {
				x[i] = array.RoundBF16(v)
				continue
			}
			x[i] = math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
		}
	case mlir.F16:
		for i, v := range x {
			x[i] = array.RoundF16(v)
		}
	}
}

// dtypes are the host types of element types.
var dtypes = map[mlir.Elem]ir.DType{
	mlir.F64: ir.F64, mlir.F32: ir.F32, mlir.F16: ir.F16, mlir.BF16: ir.BF16, mlir.I64: ir.I64, mlir.I32: ir.I32, mlir.I1: ir.Bool,
	mlir.U32: ir.U32, mlir.U16: ir.U16,
}

// Of returns the tensor of a host array; it errs if the array's type or shape does not match t.
func Of(a *array.Array, t mlir.Type) (*Tensor, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if d, ok := dtypes[t.Elem]; !ok || d != a.Type || !slices.Equal(a.Shape, t.Shape) {
		return nil, fmt.Errorf("%s given, %s expected", a, t)
	}
	r := &Tensor{Elem: t.Elem, Shape: t.Shape}
	switch t.Elem {
	case mlir.F64:
		r.D = a.Float64s()
	case mlir.I64:
		r.L = a.Int64s()
	case mlir.F32, mlir.BF16, mlir.F16:
		r.F = a.Float32s()
	default:
		r.N = make([]int32, a.Size())
		for i, v := range a.Int64s() {
			r.N[i] = wrap(t.Elem, v)
		}
	}
	return r, nil
}

// Array returns the host form of a tensor; it errs for element types without one.
func (t *Tensor) Array() (*array.Array, error) {
	d, ok := dtypes[t.Elem]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s has no host form", t)
	case t.F != nil:
		return array.FromFloat32s(d, t.Shape, t.F), nil
	case t.D != nil:
		return array.FromFloat64s(d, t.Shape, t.D), nil
	case t.L != nil:
		return array.FromInt64s(d, t.Shape, t.L), nil
	}
	v := make([]int64, len(t.N))
	for i, n := range t.N {
		v[i] = int64(n)
	}
	return array.FromInt64s(d, t.Shape, v), nil
}

// Literal returns the tensor of a constant; it errs if the numbers do not match the type.
func Literal(d mlir.Dense, t mlir.Type) (*Tensor, error) {
	r := New(t.Elem, t.Shape...)
	n := r.Size()
	if splat := len(d.Shape) == 0; !splat && len(d.Values) != n || splat && len(d.Values) != 1 {
		return nil, fmt.Errorf("%d numbers for %s", len(d.Values), t)
	}
	for i, s := range d.Values {
		if i >= n {
			break
		}
		if err := r.parse(i, s); err != nil {
			return nil, err
		}
	}
	if len(d.Shape) == 0 && n > 0 {
		r.fill()
	}
	return r, nil
}

// fill copies the first element to all others.
func (t *Tensor) fill() {
	for i := range t.F {
		t.F[i] = t.F[0]
	}
	for i := range t.D {
		t.D[i] = t.D[0]
	}
	for i := range t.N {
		t.N[i] = t.N[0]
	}
	for i := range t.L {
		t.L[i] = t.L[0]
	}
}

// parse stores a number from text: decimal, true or false, or the bits of a float.
func (t *Tensor) parse(i int, s string) error {
	bad := fmt.Errorf("%s is no %s", s, t.Elem)
	switch {
	case t.Elem.Float() && len(s) > 2 && s[:2] == "0x":
		bits, err := strconv.ParseUint(s[2:], 16, 8*t.Elem.Bytes())
		if err != nil {
			return bad
		}
		t.SetBits(i, bits)
	case t.D != nil:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return bad
		}
		t.D[i] = v
	case t.F != nil:
		v, err := strconv.ParseFloat(s, 32)
		if err != nil {
			return bad
		}
		t.F[i] = float32(v)
		round(t.Elem, t.F[i:i+1])
	case s == "true" || s == "false":
		if t.Elem != mlir.I1 {
			return bad
		}
		t.N[i] = int32(len("false") - len(s))
	default:
		v, err := strconv.ParseInt(s, 10, 64)
		if t.setInt(i, v); err != nil || t.N != nil && int64(t.N[i]) != v && int64(uint32(t.N[i])) != v {
			return bad
		}
	}
	return nil
}

// Bits returns the bits of an element as in memory.
func (t *Tensor) Bits(i int) uint64 {
	switch t.Elem {
	case mlir.F32:
		return uint64(math.Float32bits(t.F[i]))
	case mlir.BF16:
		return uint64(math.Float32bits(t.F[i]) >> 16)
	case mlir.F16:
		d := array.FromFloat32s(ir.F16, nil, t.F[i:i+1]).Data
		return uint64(d[0]) | uint64(d[1])<<8
	case mlir.F64:
		return math.Float64bits(t.D[i])
	case mlir.I16, mlir.U16:
		return uint64(uint16(t.N[i]))
	case mlir.I64, mlir.Index:
		return uint64(t.L[i])
	}
	return uint64(uint32(t.N[i]))
}

// SetBits is the inverse of Bits. Only the code that makes the tensor may call it.
func (t *Tensor) SetBits(i int, b uint64) {
	switch t.Elem {
	case mlir.F32:
		t.F[i] = math.Float32frombits(uint32(b))
	case mlir.BF16:
		t.F[i] = math.Float32frombits(uint32(b) << 16)
	case mlir.F16:
		t.F[i] = (&array.Array{Type: ir.F16, Data: []byte{byte(b), byte(b >> 8)}}).Float32s()[0]
	case mlir.F64:
		t.D[i] = math.Float64frombits(b)
	default:
		t.setInt(i, int64(b))
	}
}
