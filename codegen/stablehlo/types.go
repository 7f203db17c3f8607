package stablehlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// elements are the StableHLO names of element types, and the exponent and mantissa bits of floats.
var elements = map[ir.DType]struct {
	name               string
	exponent, mantissa int
}{
	ir.F64: {"f64", 11, 52}, ir.F32: {"f32", 8, 23}, ir.F16: {"f16", 5, 10}, ir.BF16: {"bf16", 8, 7},
	ir.I64: {name: "i64"}, ir.I32: {name: "i32"}, ir.U32: {name: "ui32"}, ir.U16: {name: "ui16"}, ir.Bool: {name: "i1"},
}

// TensorType returns the StableHLO text of a value type: tensor<8x128xf32>.
func TensorType(t ir.Type) string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, n := range t.Shape {
		b.WriteString(strconv.Itoa(n))
		b.WriteByte('x')
	}
	b.WriteString(elements[t.DType].name)
	b.WriteByte('>')
	return b.String()
}

// carrier returns the type in which values of type t are held.
func (p *printer) carrier(t ir.Type) ir.Type {
	if t.DType == ir.BF16 && !p.native {
		return ir.T(ir.F32, t.Shape...)
	}
	return t
}

// literal returns one element of a dense constant, rounded to the element type d and written for the type as.
func literal(v float64, d, as ir.DType) string {
	switch {
	case d == ir.Bool:
		return strconv.FormatBool(v != 0)
	case d.IsInt():
		return strconv.FormatInt(array.FromFloat64s(d, nil, []float64{v}).Int64s()[0], 10)
	}
	v = array.FromFloat64s(d, nil, []float64{v}).Float64s()[0]
	if math.IsInf(v, 0) || math.IsNaN(v) {
		bits := array.FromFloat64s(as, nil, []float64{v}).Data
		s := "0x"
		for i := len(bits) - 1; i >= 0; i-- {
			s += fmt.Sprintf("%02X", bits[i])
		}
		return s
	}
	width := 64
	if as == ir.F32 {
		width = 32
	}
	s := strconv.FormatFloat(v, 'e', -1, width)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

// list returns [1, 2, 3].
func list(v []int) string { return "[" + commas(v) + "]" }

func commas(v []int) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = strconv.Itoa(x)
	}
	return strings.Join(s, ", ")
}

// i64s returns array<i64: 1, 2, 3>.
func i64s(v []int) string {
	if len(v) == 0 {
		return "array<i64>"
	}
	return "array<i64: " + commas(v) + ">"
}

func filled(n, v int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = v
	}
	return s
}
