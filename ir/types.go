package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// DType is the element type of a value.
type DType uint8

// The element types. Sem is the type of a DMA semaphore, which only kernel scratch has.
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

// String gives the name used in the text form: f32, bf16, i32, bool.
func (d DType) String() string { return dtypes[d].name }

// Bytes is the size of one element.
func (d DType) Bytes() int { return dtypes[d].bytes }

// IsFloat tells floating point types from the others.
func (d DType) IsFloat() bool { return dtypes[d].float }

// IsInt tells the integer types (Bool is not one).
func (d DType) IsInt() bool { return d >= I64 && d <= U16 }

// ParseDType is the inverse of String.
func ParseDType(s string) (DType, error) {
	for d := F64; int(d) < len(dtypes); d++ {
		if dtypes[d].name == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q (known: f64 f32 f16 bf16 i64 i32 u32 u16 bool)", s)
}

// Space is where a reference lives. A value (Space None) is pure and lives nowhere.
type Space uint8

// The memory spaces of the kernel level.
const (
	None Space = iota
	HBM        // whole operands that a kernel moves itself
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

// T makes a value type.
func T(d DType, shape ...int) Type { return Type{DType: d, Shape: shape} }

// Ref makes a reference type.
func Ref(s Space, d DType, shape ...int) Type { return Type{DType: d, Shape: shape, Space: s} }

// IsRef tells references from values.
func (t Type) IsRef() bool { return t.Space != None }

// Rank is the number of dimensions; 0 for a scalar.
func (t Type) Rank() int { return len(t.Shape) }

// Size is the number of elements.
func (t Type) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the number of bytes of the dense value.
func (t Type) Bytes() int { return t.Size() * t.DType.Bytes() }

// Equal compares element type, shape and space.
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

// String gives f32[8,128], or vmem:f32[8,128] for a reference; a scalar is f32[].
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
