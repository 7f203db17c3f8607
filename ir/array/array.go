// Package array holds dense host arrays of the IR's element types, with conversions, comparison, and the
// safetensors file format.
//
// Conversions follow one set of rules. To a floating type: rounded once, to nearest, ties to even. From a floating
// type to an integer: truncated toward zero, saturated at the type's bounds, NaN to 0. Between integers: wrapped.
// To Bool: x != 0. Bool reads as 0 or 1.
package array

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Array is a dense, row-major array; Data holds its elements in little-endian order, a Bool as one byte.
// A scalar has an empty shape.
type Array struct {
	Type  ir.DType
	Shape []int
	Data  []byte
}

// New returns an array of zeros. It panics if ByteSize fails for the type and shape.
func New(d ir.DType, shape ...int) *Array {
	n, err := ByteSize(d, shape)
	if err != nil {
		panic("array.New: " + err.Error())
	}
	return &Array{Type: d, Shape: slices.Clone(shape), Data: make([]byte, n)}
}

// ByteSize returns the bytes of a dense array. It fails for types without a host form, negative dimensions, and sizes
// that do not fit an int.
func ByteSize(d ir.DType, shape []int) (int, error) {
	if d == ir.Invalid || d >= ir.Sem {
		return 0, fmt.Errorf("element type number %d has no host array", d)
	}
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	size := uint64(d.Bytes())
	for _, dim := range shape {
		hi, lo := bits.Mul64(size, uint64(dim))
		if hi != 0 || lo > math.MaxInt {
			return 0, fmt.Errorf("shape %v of %s does not fit in memory", shape, d)
		}
		size = lo
	}
	return int(size), nil
}

// Check returns an error unless the element type exists and len(Data) matches Shape.
func (a *Array) Check() error {
	if a == nil {
		return fmt.Errorf("the array is nil")
	}
	n, err := ByteSize(a.Type, a.Shape)
	if err != nil {
		return err
	}
	if n != len(a.Data) {
		return fmt.Errorf("%s needs %d bytes of data, has %d", a, n, len(a.Data))
	}
	return nil
}

// IRType returns the value type of the array.
func (a *Array) IRType() ir.Type { return ir.T(a.Type, a.Shape...) }

// Size returns the number of elements.
func (a *Array) Size() int { return a.IRType().Size() }

// String returns type and shape: f32[8,128].
func (a *Array) String() string { return a.IRType().String() }

// Clone returns a copy with its own data.
func (a *Array) Clone() *Array {
	return &Array{Type: a.Type, Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data)}
}

// Reshape returns an array of another shape that shares the data. It panics if the sizes differ.
func (a *Array) Reshape(shape ...int) *Array {
	b := &Array{Type: a.Type, Shape: slices.Clone(shape), Data: a.Data}
	if err := b.Check(); err != nil {
		panic(fmt.Sprintf("array: reshape of %s: %v", a, err))
	}
	return b
}

// FromFloat64s returns an array with these values, converted to d. It panics if their number is not the size of the shape.
func FromFloat64s(d ir.DType, shape []int, v []float64) *Array {
	a := sized(d, shape, len(v))
	le := binary.LittleEndian
	switch d {
	case ir.F64:
		for i, x := range v {
			le.PutUint64(a.Data[8*i:], math.Float64bits(x))
		}
	case ir.F32:
		for i, x := range v {
			le.PutUint32(a.Data[4*i:], math.Float32bits(float32(x)))
		}
	case ir.F16:
		for i, x := range v {
			le.PutUint16(a.Data[2*i:], f16Bits(roundToOdd(x)))
		}
	case ir.BF16:
		for i, x := range v {
			le.PutUint16(a.Data[2*i:], bf16Bits(roundToOdd(x)))
		}
	case ir.Bool:
		for i, x := range v {
			a.Data[i] = b2u(x != 0)
		}
	default:
		lo, hi := intBounds(d)
		for i, x := range v {
			a.putInt(i, truncate(x, lo, hi))
		}
	}
	return a
}

// FromFloat32s returns an array with these values, converted to d. It panics if their number is not the size of the shape.
func FromFloat32s(d ir.DType, shape []int, v []float32) *Array {
	a := sized(d, shape, len(v))
	le := binary.LittleEndian
	switch d {
	case ir.F32:
		for i, x := range v {
			le.PutUint32(a.Data[4*i:], math.Float32bits(x))
		}
	case ir.F16:
		for i, x := range v {
			le.PutUint16(a.Data[2*i:], f16Bits(x))
		}
	case ir.BF16:
		for i, x := range v {
			le.PutUint16(a.Data[2*i:], bf16Bits(x))
		}
	default:
		w := make([]float64, len(v))
		for i, x := range v {
			w[i] = float64(x)
		}
		return FromFloat64s(d, shape, w)
	}
	return a
}

// FromInt64s returns an array with these values, converted to d. It panics if their number is not the size of the shape.
func FromInt64s(d ir.DType, shape []int, v []int64) *Array {
	a := sized(d, shape, len(v))
	le := binary.LittleEndian
	switch d {
	case ir.F64:
		for i, x := range v {
			le.PutUint64(a.Data[8*i:], math.Float64bits(float64(x)))
		}
	case ir.F32:
		for i, x := range v {
			le.PutUint32(a.Data[4*i:], math.Float32bits(float32(x)))
		}
	case ir.F16, ir.BF16:
		w := make([]float64, len(v))
		for i, x := range v {
			w[i] = oddFloat64(x)
		}
		return FromFloat64s(d, shape, w)
	default:
		for i, x := range v {
			a.putInt(i, x)
		}
	}
	return a
}

// Float64s returns the elements as float64; exact except I64 beyond 2^53.
func (a *Array) Float64s() []float64 {
	out := make([]float64, a.Size())
	le := binary.LittleEndian
	switch a.Type {
	case ir.F64:
		for i := range out {
			out[i] = math.Float64frombits(le.Uint64(a.Data[8*i:]))
		}
	case ir.F32, ir.F16, ir.BF16:
		for i, x := range a.Float32s() {
			out[i] = float64(x)
		}
	default:
		for i := range out {
			out[i] = float64(a.int(i))
		}
	}
	return out
}

// Float32s returns the elements as float32; exact for F32, F16, BF16, U16 and Bool, rounded for the others.
func (a *Array) Float32s() []float32 {
	out := make([]float32, a.Size())
	le := binary.LittleEndian
	switch a.Type {
	case ir.F64:
		for i := range out {
			out[i] = float32(math.Float64frombits(le.Uint64(a.Data[8*i:])))
		}
	case ir.F32:
		for i := range out {
			out[i] = math.Float32frombits(le.Uint32(a.Data[4*i:]))
		}
	case ir.F16:
		for i := range out {
			out[i] = f16Value(le.Uint16(a.Data[2*i:]))
		}
	case ir.BF16:
		for i := range out {
			out[i] = bf16Value(le.Uint16(a.Data[2*i:]))
		}
	default:
		for i := range out {
			out[i] = float32(a.int(i))
		}
	}
	return out
}

// Int64s returns the elements as int64, floating values truncated.
func (a *Array) Int64s() []int64 {
	out := make([]int64, a.Size())
	if a.Type.IsFloat() {
		lo, hi := intBounds(ir.I64)
		for i, x := range a.Float64s() {
			out[i] = truncate(x, lo, hi)
		}
		return out
	}
	for i := range out {
		out[i] = a.int(i)
	}
	return out
}

// Convert returns a copy with another element type.
func (a *Array) Convert(d ir.DType) *Array {
	switch {
	case d == a.Type:
		return a.Clone()
	case !a.Type.IsFloat():
		if d == ir.Bool {
			return FromFloat64s(d, a.Shape, a.Float64s())
		}
		return FromInt64s(d, a.Shape, a.Int64s())
	case a.Type == ir.F64:
		return FromFloat64s(d, a.Shape, a.Float64s())
	}
	return FromFloat32s(d, a.Shape, a.Float32s())
}

// sized returns an array of zeros for n values; it panics if the shape has another size.
func sized(d ir.DType, shape []int, n int) *Array {
	a := New(d, shape...)
	if a.Size() != n {
		panic(fmt.Sprintf("array: %s has %d elements, given %d values", a, a.Size(), n))
	}
	return a
}

// int reads element i of an integer or Bool array.
func (a *Array) int(i int) int64 {
	le := binary.LittleEndian
	switch a.Type {
	case ir.I64:
		return int64(le.Uint64(a.Data[8*i:]))
	case ir.I32:
		return int64(int32(le.Uint32(a.Data[4*i:])))
	case ir.U32:
		return int64(le.Uint32(a.Data[4*i:]))
	case ir.U16:
		return int64(le.Uint16(a.Data[2*i:]))
	}
	return int64(b2u(a.Data[i] != 0))
}

// putInt stores element i of an integer or Bool array, wrapping.
func (a *Array) putInt(i int, x int64) {
	le := binary.LittleEndian
	switch a.Type {
	case ir.I64:
		le.PutUint64(a.Data[8*i:], uint64(x))
	case ir.I32, ir.U32:
		le.PutUint32(a.Data[4*i:], uint32(x))
	case ir.U16:
		le.PutUint16(a.Data[2*i:], uint16(x))
	default:
		a.Data[i] = b2u(x != 0)
	}
}

func b2u(b bool) byte {
	if b {
		return 1
	}
	return 0
}
