package aot

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// addModule adds two f32 vectors of n elements, without a kernel.
func addModule(n int) string {
	return strings.ReplaceAll(`module @add {
  func.func public @main(%a: tensor<Nxf32>, %b: tensor<Nxf32>) -> tensor<Nxf32> {
    %0 = stablehlo.add %a, %b : tensor<Nxf32>
    return %0 : tensor<Nxf32>
  }
}`, "N", fmt.Sprint(n))
}

// recursiveModule calls itself, of which libtpu's process dies.
const recursiveModule = `module {
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = func.call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}`

// kernelBody is a Mosaic kernel over a grid of 4: t += x[i] + y; o[i] = t, with f32 tiles of 8 x 128, where t is the
// first tile of a scratch of scratchRows x 128 that lives from step to step.
func kernelBody(scratchRows int) string {
	const tile = "memref<8x128xf32, #tpu.memory_space<vmem>>"
	return strings.NewReplacer(
		"TILE", tile,
		"SCRATCH", fmt.Sprintf("memref<%dx128xf32, #tpu.memory_space<vmem>>", scratchRows),
		"VEC", "vector<8x128xf32>",
		"STORE", "add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>",
	).Replace(`"builtin.module"() ({
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32, %x: TILE, %y: TILE, %o: TILE, %t: SCRATCH):
    %c0 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %0 = "stable_mosaic.vector.load"(%x, %c0, %c0) : (TILE, index, index) -> VEC
    %1 = "stable_mosaic.vector.load"(%y, %c0, %c0) : (TILE, index, index) -> VEC
    %2 = "stable_mosaic.arith.addf"(%0, %1) {fastmath = #arith.fastmath<none>} : (VEC, VEC) -> VEC loc("sum":3:7)
    %3 = "stable_mosaic.vector.load"(%t, %c0, %c0) : (SCRATCH, index, index) -> VEC
    %4 = "stable_mosaic.arith.addf"(%2, %3) {fastmath = #arith.fastmath<none>} : (VEC, VEC) -> VEC
    "stable_mosaic.tpu.vector_store"(%4, %t, %c0, %c0) {STORE} : (VEC, SCRATCH, index, index) -> ()
    "stable_mosaic.tpu.vector_store"(%4, %o, %c0, %c0) {STORE} : (VEC, TILE, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {sym_name = "add", function_type = (i32, TILE, TILE, TILE, SCRATCH) -> (), tpu.core_type = #tpu.core_type<tc>,
      iteration_bounds = array<i64: 4>, dimension_semantics = [#tpu.dimension_semantics<arbitrary>],
      scalar_prefetch = 0 : i64, scratch_operands = 1 : i64,
      window_params = [
        {transform_indices = @transform_0, window_bounds = array<i64: 8, 128>},
        {pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_1, window_bounds = array<i64: 8, 128>},
        {transform_indices = @transform_2, window_bounds = array<i64: 8, 128>}]} : () -> ()
` + transform(0, "%i, %z") + transform(1, "%z, %z") + transform(2, "%i, %z") + `
}) {stable_mosaic.version = 11 : i64} : () -> ()
`)
}

// transform is the index map of operand n: the block that step %i of the grid works on. %z is 0.
func transform(n int, blocks string) string {
	return fmt.Sprintf(`  "stable_mosaic.func.func"() ({
  ^bb0(%%i: i32):
    %%z = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%s) : (i32, i32) -> ()
  }) {sym_name = "transform_%d", function_type = (i32) -> (i32, i32)} : () -> ()
`, blocks, n)
}

// kernelModule wraps kernelBody(scratchRows) in the custom call that libtpu compiles.
func kernelModule(scratchRows int) string { return wrap(kernelBody(scratchRows)) }

// wrap makes the module around a body whose operands are those of kernelBody.
func wrap(body string) string {
	body = base64.StdEncoding.EncodeToString([]byte(body))
	return fmt.Sprintf(`module @kernel {
  func.func public @main(%%x: tensor<32x128xf32>, %%y: tensor<8x128xf32>) -> tensor<32x128xf32> {
    %%0 = stablehlo.custom_call @tpu_custom_call(%%x, %%y) {kernel_name = "add",
      backend_config = "{\22custom_call_config\22: {\22body\22: \22%s\22, \22serialization_format\22: 1, \22needs_layout_passes\22: true}}",
      operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>],
      result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<32x128xf32>, tensor<8x128xf32>) -> tensor<32x128xf32> loc("add")
    return %%0 : tensor<32x128xf32>
  }
}`, body)
}
