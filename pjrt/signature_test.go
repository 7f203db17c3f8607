package pjrt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

func TestParseSignature(t *testing.T) {
	for _, c := range []struct {
		text string
		want signature
		ok   bool
	}{
		{"func.func @main() -> tensor<f32> {", nil, true},
		{"func.func public @main(%arg0: tensor<f32>, %b: tensor<8x128xbf16>)", signature{ir.T(ir.F32, []int{}...), ir.T(ir.BF16, 8, 128)}, true},
		{`func.func @main(%a: tensor<2xi1> {x = "tensor<9xf32>)"}) -> (tensor<f32> {y = ""})`, signature{ir.T(ir.Bool, 2)}, true},
		{`func.func @main(%a: tensor<0x3xui16>, %c: tensor<4xi8>)`, signature{ir.T(ir.U16, 0, 3), ir.T(ir.Invalid, 4)}, true},
		{"func.func private @f(%a: tensor<f32>) {}\nfunc.func @main(%a: tensor<2xi64>)", signature{ir.T(ir.I64, 2)}, true},
		{`"func.func"() <{function_type = (tensor<2xui32>, tensor<f64>) -> tensor<f16>, sym_name = "main"}>`, signature{ir.T(ir.U32, 2), ir.T(ir.F64, []int{}...)}, true},
		{"func.func @main(%a: tensor<?xf32>)", nil, false},
		{"func.func @main(%a: tensor<2xf32>", nil, false},
		{`func.func @main(%a: tensor<2xf32> {x = "\"}`, nil, false},
		{"!t = tensor<2xf32> func.func @main(%a: !t, %b: tensor<f32>)", nil, false},
		{"nothing", nil, false},
		{"", nil, false},
	} {
		got, ok := parseSignature(c.text)
		require.Equal(t, c.ok, ok, c.text)
		require.Len(t, got, len(c.want), c.text)
		for i := range got {
			require.True(t, c.want[i].Equal(got[i]), "%s: %s", c.text, got[i])
		}
	}
}

func FuzzParseSignature(f *testing.F) {
	f.Add("func.func @main(%a: tensor<2xf32> {x = \"\\\"}\"})")
	f.Add(`function_type = (tensor<2xui32>) sym_name = "main"`)
	f.Fuzz(func(t *testing.T, text string) { parseSignature(text) })
}

func TestSummarize(t *testing.T) {
	all := []time.Duration{5, 1, 9, 3}
	require.Equal(t, Timing{Min: 1, Median: 4, All: all}, summarize(all))
	require.Equal(t, time.Duration(5), summarize(all[:1]).Median)
	require.Equal(t, time.Duration(5), summarize(all[:3]).Median)
}

func TestSplitError(t *testing.T) {
	code, message := splitError(&CompileError{Message: "PJRT error (code=3): line one\nline two"})
	require.Equal(t, 3, code)
	require.Equal(t, "line one line two", message, "an error is one line")
}
