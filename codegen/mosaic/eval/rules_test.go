package eval_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/codegen/mlir"
	"github.com/gdngen/gdngen/codegen/mlir/tensor"
	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/stretchr/testify/require"
)

// small is a kernel over two points of an axis: it copies x, of which a window shows 8 of 16 rows, to y, by way of scratch. Lines of its body
// are in the place of BODY.
const small = `module @k attributes {stable_mosaic.version = 15 : i64} {
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %h: memref<16x128xf32, #tpu.memory_space<hbm>>, %y: memref<8x128xf32, #tpu.memory_space<vmem>>, %s: memref<8x128xf32, #tpu.memory_space<vmem>>, %m: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>):
    %c = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %one = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %first = "stable_mosaic.arith.cmpi"(%i, %z) {predicate = 0 : i64} : (i32, i32) -> i1
    %v = "stable_mosaic.vector.load"(%x, %c, %c) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
BODY
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], function_type = (i32, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<16x128xf32, #tpu.memory_space<hbm>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (), iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 2 : i64, sym_name = "k", tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @in, window_bounds = array<i64: 8, 128>}, {}, {transform_indices = @out, window_bounds = array<i64: 8, 128>}]} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32):
    %z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%i, %z) : (i32, i32) -> ()
  }) {function_type = (i32) -> (i32, i32), sym_name = "in"} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32):
    %z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%i, %z) : (i32, i32) -> ()
  }) {function_type = (i32) -> (i32, i32), sym_name = "out"} : () -> ()
}
`

// Lines of bodies.
const (
	vm      = "memref<8x128xf32, #tpu.memory_space<vmem>>"
	hm      = "memref<8x128xf32, #tpu.memory_space<hbm>>"
	sem     = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
	toY     = `"stable_mosaic.tpu.vector_store"(%v, %y, %c, %c) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<8x128xf32>, ` + vm + `, index, index) -> ()` + "\n"
	toS     = `"stable_mosaic.tpu.vector_store"(%v, %s, %c, %c) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<8x128xf32>, ` + vm + `, index, index) -> ()` + "\n"
	fromS   = `%w = "stable_mosaic.vector.load"(%s, %c, %c) : (` + vm + `, index, index) -> vector<8x128xf32>` + "\n"
	block   = `%b = "stable_mosaic.tpu.memref_slice"(%h, %z, %z) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<16x128xf32, #tpu.memory_space<hbm>>, i32, i32) -> ` + hm + "\n"
	start   = `"stable_mosaic.tpu.enqueue_dma"(%b, %s, %m) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false} : (` + hm + ", " + vm + ", " + sem + `) -> ()` + "\n"
	away    = `"stable_mosaic.tpu.enqueue_dma"(%s, %b, %m) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false} : (` + vm + ", " + hm + ", " + sem + `) -> ()` + "\n"
	wait    = `"stable_mosaic.tpu.wait_dma2"(%m, %b, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false} : (` + sem + ", " + hm + ", " + vm + `) -> ()` + "\n"
	atFirst = "\"stable_mosaic.scf.if\"(%first) ({\n"
	end     = "\"stable_mosaic.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n"
	wToY    = `"stable_mosaic.tpu.vector_store"(%w, %y, %c, %c) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<8x128xf32>, ` + vm + `, index, index) -> ()` + "\n"
)

func array2(rows int) mlir.Type {
	return mlir.Type{Kind: mlir.Tensor, Elem: mlir.F32, Shape: []int{rows, 128}}
}

// runSmall runs the kernel on x and h, arrays of 16 rows of 1, 2, ... and 101, 102, ...
func runSmall(text string, alias map[int]int) ([]*tensor.Tensor, error) {
	k, err := eval.ParseKernel(text)
	if err != nil {
		return nil, err
	}
	in, out := []mlir.Type{array2(16), array2(16)}, []mlir.Type{array2(16)}
	if err := k.Check(in, out, alias); err != nil {
		return nil, err
	}
	x, h := tensor.New(mlir.F32, 16, 128), tensor.New(mlir.F32, 16, 128)
	for i := range x.F {
		x.F[i], h.F[i] = float32(i+1), float32(i+101)
	}
	return k.Run([]*tensor.Tensor{x, h}, out, alias)
}

func TestMemory(t *testing.T) {
	for _, row := range []struct {
		name, body string
		old, new   string // in the text around the body
		alias      map[int]int
		want       string // error, or where it is empty the first element of rows 0 and 8 of y
		rows       [2]float64
	}{
		{name: "copy", body: toY, rows: [2]float64{1, 1025}},
		{name: "through scratch", body: toS + fromS + wToY, rows: [2]float64{1, 1025}},
		{name: "scratch lives on along a sequential axis", body: atFirst + toS + end + fromS + wToY, rows: [2]float64{1, 1}},
		{name: "but not along a parallel one", body: atFirst + toS + end + fromS + wToY, old: "semantics<arbitrary>", new: "semantics<parallel>",
			want: "at grid point [1]: line 14: stable_mosaic.vector.load: scratch 0 is read where nothing has been written"},
		{name: "unwritten scratch", body: fromS + wToY, want: "scratch 0 is read where nothing has been written"},
		{name: "unwritten output", body: atFirst + toY + end, rows: [2]float64{1, math.NaN()}},
		{name: "block outside", body: toY, old: `return"(%i, %z)`, new: `return"(%z, %i)`, want: "the window of input 0: block [0 1] of [8 128] is outside the array of [16 128]"},
		{name: "bound outside", body: toY, old: "array<i64: 2>", new: "array<i64: 3>", want: "at grid point [2]: the window of output 0: block [2]"},
		{name: "blocks of two programs", body: toY, old: "arbitrary>", new: "parallel>", rows: [2]float64{1, 1025}},
		{name: "one block of two programs", body: toY, old: `"parallel"`, want: "the window of output 0: block [0 0] is written at parallel point [0] and at [1]"},
		{name: "an input is read only", body: strings.Replace(toS, "%s", "%x", 1), want: "the window of an input is read only"},
		{name: "copy by the kernel", body: block + start + wait + fromS + wToY, rows: [2]float64{101, 101}},
		{name: "read before the wait", body: block + start + fromS + wait + wToY, want: "element 0 of scratch 0 is read while a copy to it is in flight"},
		{name: "written before the wait", body: block + start + toS + wait, want: "element 0 of scratch 0 is written while a copy of it is in flight"},
		{name: "no wait", body: block + start, want: "is written while a copy of it is in flight"},
		{name: "no wait at the end", body: block + atFirst + start + end, want: "a wait is missing"},
		{name: "no start", body: block + wait, want: "the wait never ends: 4096 bytes are waited for, copies of 0 are in flight"},
		{name: "half of two waits", body: block + start + strings.Replace(start, "%s", "%y", 1) + wait + fromS, want: "element 0 of scratch 0 is read while a copy to it is in flight"},
		{name: "two waits", body: block + start + strings.Replace(start, "%s", "%y", 1) + wait + wait, rows: [2]float64{101, 101}},
		{name: "copy to an input", body: toS + block + away, want: "input 1 is written: an input is read only"},
		{name: "alias", body: block + start + wait + toY, alias: map[int]int{0: 1}, rows: [2]float64{1, 1025}},
		{name: "alias too late", body: toY, old: "window_params = [{transform_indices = @in", new: "window_params = [{transform_indices = @back", alias: map[int]int{0: 0},
			want: "block [0 0] is fetched after its alias was written there"},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := small
			if row.old == `"parallel"` { // and all points write the first block
				text = strings.NewReplacer("arbitrary>", "parallel>", "transform_indices = @out", "transform_indices = @zero").Replace(text)
			} else if row.old != "" {
				require.Contains(t, text, row.old)
				text = strings.Replace(text, row.old, row.new, 1)
			}
			back := `  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32):
    %z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %o = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %b = "stable_mosaic.arith.subi"(%o, %i) : (i32, i32) -> i32
    "stable_mosaic.func.return"(%b, %z) : (i32, i32) -> ()
  }) {function_type = (i32) -> (i32, i32), sym_name = "back"} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32):
    %z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%z, %z) : (i32, i32) -> ()
  }) {function_type = (i32) -> (i32, i32), sym_name = "zero"} : () -> ()
}
`
			text = strings.TrimSuffix(text, "}\n") + back
			outs, err := runSmall(strings.Replace(text, "BODY\n", row.body, 1), row.alias)
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			got := [2]float64{float64(outs[0].F[0]), float64(outs[0].F[8*128])}
			require.Equal(t, fmt.Sprint(row.rows), fmt.Sprint(got))
		})
	}
}

// What has no rule is refused before anything runs, with name and line.
func TestRefusals(t *testing.T) {
	for _, row := range []struct{ old, new, want string }{
		{"arith.cmpi", "arith.remsi", "line 7: stable_mosaic.arith.remsi: the evaluator has no rule for this operation"},
		{"predicate = 0 : i64", "predicate = 11 : i64", "predicate 11 on i32 is not supported"},
		{"predicate = 0 : i64", "predicate = 0 : i64, fast = true", "attribute fast is not supported"},
		{"add = false", "add = true", "attribute add = true is not supported"},
		{"strides = array<i32>", "strides = array<i32: 1, 2>", "steps along the lanes"},
		{"array<i32: 1, 1, 2, 0>", "array<i32: 1, 1, 2, 1>", "operandSegmentSizes"},
		{"semantics<arbitrary>", "semantics<subcore_parallel>", "is not supported"},
		{"scalar_prefetch = 0 : i64", "scalar_prefetch = 9 : i64", "scalar_prefetch"},
		{"scratch_operands = 2", "scratch_operands = 1", "3 window_params of 4 arrays"},
		{"window_bounds = array<i64: 8, 128>", "window_bounds = array<i64: 16, 128>", "a window of [16 128], with 2 indices, shown as memref<8x128xf32"},
		{"{transform_indices", "{window_kind = #tpu.x<1>, transform_indices", "window_kind of a window is not supported"},
		{"@out, ", "@nowhere, ", "no function @nowhere"},
		{"iteration_bounds = array<i64: 2>", "iteration_bounds = array<i64: 0>", "0 points along axis 0"},
		{"stable_mosaic.version", "version", "this is no Mosaic module"},
		{"sym_name = \"in\"", "sym_name = \"in\", x = 1", ""},
		{"value = 0 : index", "value = 0 : i32", "a value of type i32 for index"},
	} {
		text := strings.Replace(small, "BODY\n", toY, 1)
		require.Contains(t, text, row.old)
		_, err := runSmall(strings.Replace(text, row.old, row.new, 1), nil)
		if row.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, row.want)
	}
}
