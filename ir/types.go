package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// DType is the element type of a value.
type DType uint8

// The element types. Sem is a DMA semaphore, only for kernel scratch.
const (
	Invalid DType = iota
	F64
	F32
	F16
	BF16
	I64
	I32
	U32
	U16
	Bool
	Sem
)

var dtypes = [...]struct {
	name  string
	bytes int
	float bool
}{
	Invalid: {"invalid", 0, false},
	F64:     {"f64", 8, true},
	F32:     {"f32", 4, true},
	F16:     {"f16", 2, true},
	BF16:    {"bf16", 2, true},
	I64:     {"i64", 8, false},
	I32:     {"i32", 4, false},
	U32:     {"u32", 4, false},
	U16:     {"u16", 2, false},
	Bool:    {"bool", 1, false},
	Sem:     {"sem", 0, false},
}

// String returns the name in the text form: f32, bf16, i32, bool.
func (d DType) String() string { return dtypes[d].name }

// Bytes returns the size of one element in bytes.
func (d DType) Bytes() int { return dtypes[d].bytes }

// IsFloat reports whether the type is a floating point type.
func (d DType) IsFloat() bool { return dtypes[d].float }

// IsInt reports whether the type is an integer type; Bool is not.
func (d DType) IsInt() bool { return d >= I64 && d <= U16 }

// ParseDType returns the type with this name, or an error.
func ParseDType(s string) (DType, error) {
	for d := F64; int(d) < len(dtypes); d++ {
		if dtypes[d].name == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q (known: f64 f32 f16 bf16 i64 i32 u32 u16 bool)", s)
}

// Space is the memory of a reference. None marks a value, which is immutable and in no memory.
type Space uint8

// The memory spaces of the kernel level.
const (
	None Space = iota
	HBM        // whole operands that the kernel copies itself
	VMEM       // vector memory: windows and scratch
	SMEM       // scalar memory: prefetched tables
)

var spaces = [...]string{None: "", HBM: "hbm", VMEM: "vmem", SMEM: "smem"}

func (s Space) String() string { return spaces[s] }

// Type is the type of a value (Space None) or of a reference to mutable memory.
type Type struct {
	DType DType
	Shape []int
	Space Space
}

// T returns a value type.
func T(d DType, shape ...int) Type { return Type{DType: d, Shape: shape} }

// Ref returns a reference type.
func Ref(s Space, d DType, shape ...int) Type { return Type{DType: d, Shape: shape, Space: s} }

// IsRef reports whether this is a reference type.
func (t Type) IsRef() bool { return t.Space != None }

// Rank returns the number of dimensions; 0 for a scalar.
func (t Type) Rank() int { return len(t.Shape) }

// Size returns the number of elements.
func (t Type) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the size of a dense array in bytes.
func (t Type) Bytes() int { return t.Size() * t.DType.Bytes() }

// Equal reports whether element type, shape and space are equal.
func (t Type) Equal(u Type) bool {
	if t.DType != u.DType || t.Space != u.Space || len(t.Shape) != len(u.Shape) {
		return false
	}
	for i := range t.Shape {
		if t.Shape[i] != u.Shape[i] {
			return false
		}
	}
	return true
}

// String returns f32[8,128], or vmem:f32[8,128] for a reference; a scalar is f32[].
func (t Type) String() string {
	var b strings.Builder
	if t.IsRef() {
		b.WriteString(t.Space.String())
		b.WriteByte(':')
	}
	b.WriteString(t.DType.String())
	b.WriteByte('[')
	for i, d := range t.Shape {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}
