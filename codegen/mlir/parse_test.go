package mlir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/stretchr/testify/require"
)

// generic is a kernel in the generic form, short the same in StableHLO's own, with every kind of attribute and nesting.
const (
	generic = `module @k attributes {stable_mosaic.version = 15 : i64} {
  "stable_mosaic.func.func"() ({
  ^bb0(%i0: i32, %r0: memref<2x8x128xbf16, #tpu.memory_space<vmem>>, %r1: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>):
    %c0 = "stable_mosaic.arith.constant"() {value = dense<-1.5e+00> : vector<8x128xf32>} : () -> vector<8x128xf32>
    %c1 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
    %0:2 = "stable_mosaic.scf.for"(%i0, %i0, %i0, %c0, %i0) ({
    ^bb0(%1: i32, %2: vector<8x128xf32>, %3: i32):
      "stable_mosaic.scf.if"(%c1) ({
        "stable_mosaic.scf.yield"() : () -> ()
      }, {
      }) : (i1) -> () loc("state.c1.h2":1:1)
      "stable_mosaic.scf.yield"(%2, %3) : (vector<8x128xf32>, i32) -> () loc(unknown)
    }) : (i32, i32, i32, vector<8x128xf32>, i32) -> (vector<8x128xf32>, i32)
    "stable_mosaic.use"(%0#0, %0#1) {a = array<i64: 1, -2>, b = [], c = {d = #x.y<[0], [1, 2]>, e}, f = @g, s = "q\22\n", t = (i32) -> i32} : (vector<8x128xf32>, i32) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {function_type = (i32, memref<2x8x128xbf16, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (), sym_name = "k"} : () -> ()
}
`
	short = `module @gdn {
  func.func public @main(%x: tensor<4x8xf32> {tf.aliasing_output = 1 : i32}, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %0) across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
      reducer(%2: tensor<f32>, %3: tensor<f32>) {
        %4 = stablehlo.compare GT, %2, %3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %5 = stablehlo.select %4, %2, %3 : tensor<i1>, tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }
    %6 = stablehlo.slice %x [0:4, 1:8:2] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %7 = stablehlo.dot_general %6, %6, batching_dims = [] x [], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %8:2 = stablehlo.while(%9 = %n, %10 = %1) : tensor<i32>, tensor<4xf32>
    cond {
      %11 = stablehlo.compare LT, %9, %9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      stablehlo.return %9, %10 : tensor<i32>, tensor<4xf32>
    }
    %12 = "stablehlo.reduce_window"(%8#1, %0) <{padding = dense<[[3, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 4>}> ({
    ^bb0(%13: tensor<f32>, %14: tensor<f32>):
      %15 = stablehlo.add %13, %14 : tensor<f32>
      stablehlo.return %15 : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %12, %8#0 : tensor<4xf32>, tensor<i32>
  }
}
`
)

func TestParseGeneric(t *testing.T) {
	m, err := mlir.Parse(generic)
	require.NoError(t, err)
	require.Equal(t, "k", m.Name)
	require.Equal(t, mlir.Dict{"stable_mosaic.version": mlir.Num{Text: "15", Type: mlir.Type{Elem: mlir.I64}}}, m.Attrs)
	f, err := m.Func("k")
	require.NoError(t, err)
	require.Equal(t, []string{"i32", "memref<2x8x128xbf16, #tpu.memory_space<vmem>>", "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"},
		[]string{f.Body.Types[0].String(), f.Body.Types[1].String(), f.Body.Types[2].String()})
	require.Len(t, f.Body.Ops, 5)
	loop, use := f.Body.Ops[2], f.Body.Ops[3]
	require.Len(t, loop.Regions[0].Params, 3)
	branch := loop.Regions[0].Ops[0]
	require.Equal(t, "line 8: stable_mosaic.scf.if of state.c1.h2", branch.Where())
	require.Len(t, branch.Regions, 2)
	require.Nil(t, branch.Regions[1])
	require.Equal(t, loop.Results, use.Operands)
	require.Equal(t, mlir.Dict{"a": []int{1, -2}, "b": []mlir.Attr{}, "c": mlir.Dict{"d": mlir.Opaque{Name: "x.y", Body: "[0], [1, 2]"}, "e": true},
		"f": mlir.Symbol("g"), "s": "q\"\n", "t": mlir.Type{Kind: mlir.Function, Ins: []mlir.Type{{Elem: mlir.I32}}, Outs: []mlir.Type{{Elem: mlir.I32}}}}, use.Attrs)
	lists, err := mlir.Opaque{Name: "x.y", Body: "[0], [1, 2], []"}.Lists()
	require.NoError(t, err)
	require.Equal(t, [][]int{{0}, {1, 2}, {}}, lists)
}

func TestParseShort(t *testing.T) {
	m, err := mlir.Parse(short)
	require.NoError(t, err)
	f, err := m.Func("main")
	require.NoError(t, err)
	ops := f.Body.Ops
	require.Equal(t, "stablehlo.reduce", ops[1].Name)
	require.Equal(t, []string{"across"}, ops[1].Words)
	require.Len(t, ops[1].Regions[0].Ops, 3)
	require.Equal(t, []int{1, 2}, ops[2].Attrs["strides"])
	require.Equal(t, []mlir.Attr{[]mlir.Attr{}, []mlir.Attr{}}, ops[3].Attrs["batching_dims"])
	require.Len(t, ops[4].Regions, 2)
	require.Equal(t, []int{4}, ops[5].Attrs["window_dimensions"])
	n, ok := mlir.Opaque{Body: "a = [], operand_index = 3"}.Field("operand_index")
	require.True(t, ok)
	require.Equal(t, 3, n)
}

// What is wrong is refused with its line.
func TestParseErrors(t *testing.T) {
	for _, row := range []struct{ text, old, new, want string }{
		{generic, "(%2, %3) : (vector<8x128xf32>, i32)", "(%2, %9) : (vector<8x128xf32>, i32)", "line 12, column 39: %9 is used before it is defined"},
		{generic, "(%2, %3) : (vector<8x128xf32>, i32)", "(%2, %3) : (vector<8x64xf32>, i32)", "operand 0 is vector<8x128xf32>, declared vector<8x64xf32>"},
		{generic, "%c1 =", "%c0 =", "%c0 is defined twice"},
		{generic, "^bb0(%1", "^bb0(%3", "%3 is defined twice"},
		{generic, "sym_name = \"k\"", "name = \"k\"", "a function with a name"},
		{generic, "    \"stable_mosaic.func.return\"", "  ^bb1:\n    \"stable_mosaic.func.return\"", "several blocks"},
		{generic, "8x128xf32>} :", "8x128xf31>} :", "an element type is expected"},
		{generic, "0#1", "0#2", "%0#2 is used before it is defined"},
		{generic, "%0:2", "%0:3", "gives 2 results, 3 are named"},
		{generic, "b = []", "a = []", "attribute a is given twice"},
		{generic, "#tpu.memory_space<semaphore_mem>>):", "#tpu.memory_space<semaphore_mem):", "without an end"},
		{generic, "2x8x128xbf16", "99999999999x8x128xbf16", "more than"},
		{generic, "sym_name = \"k\"} : () -> ()\n}", "sym_name = \"k\"} : () -> ()\n", "a function is expected"},
		{short, "dense<0xFF800000> : tensor<f32>", "dense<[1, 2]> : tensor<f32>", "a constant of shape [2] for tensor<f32>"},
		{short, "return %12, %8#0 : tensor<4xf32>, tensor<i32>", "return %12 : tensor<4xf32>, tensor<i32>", "takes 2 operands, 1 are given"},
		{short, "cond {", "when {", "cond is expected"},
		{short, "%8:2 = stablehlo.while", "%8 = stablehlo.while", "a while of 2 values gives 1 results"},
		{short, "[0:4, 1:8:2]", "[0:4, 1:8:", "an integer is expected"},
		{short, "\"stablehlo.reduce_window\"", "\"stablehlo.reduce_window", "over the end of the line"},
	} {
		require.Contains(t, row.text, row.old)
		_, err := mlir.Parse(strings.Replace(row.text, row.old, row.new, 1))
		require.ErrorContains(t, err, row.want, row.new)
		require.ErrorContains(t, err, "mlir: line ")
	}
	_, err := mlir.Parse("module @m {\n" + strings.Repeat("\"a\"() ({", 1000))
	require.ErrorContains(t, err, "deep")
}

// No text makes the parser panic.
func FuzzParse(f *testing.F) {
	f.Add(generic)
	f.Add(short)
	golden, err := filepath.Glob("../mosaic/testdata/*.txtar")
	require.NoError(f, err)
	for _, g := range golden {
		data, err := os.ReadFile(g)
		require.NoError(f, err)
		f.Add(string(data[:min(len(data), 600)]))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := mlir.Parse(text)
		if err != nil {
			return
		}
		for _, fn := range m.Funcs {
			for _, o := range fn.Body.Ops {
				_ = fmt.Sprint(o.Where(), o.Attrs.Names())
			}
		}
	})
}
