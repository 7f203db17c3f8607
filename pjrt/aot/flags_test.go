//go:build linux && (amd64 || arm64)

package aot

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// bitcastModule is a kernel that rounds 64 x 128 f32 to bf16 and stores the rows in pairs, as 32 x 128 words.
func bitcastModule() string {
	const body = `"builtin.module"() ({
  "stable_mosaic.func.func"() ({
  ^bb0(%x: IN, %o: OUT):
    %c0 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %0 = "stable_mosaic.vector.load"(%x, %c0, %c0) : (IN, index, index) -> vector<64x128xf32>
    %1 = "stable_mosaic.arith.truncf"(%0) : (vector<64x128xf32>) -> vector<64x128xbf16>
    %2 = "stable_mosaic.tpu.bitcast"(%1) : (vector<64x128xbf16>) -> vector<32x128xi32>
    "stable_mosaic.tpu.vector_store"(%2, %o, %c0, %c0) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<32x128xi32>, OUT, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {sym_name = "pairs", function_type = (IN, OUT) -> (), tpu.core_type = #tpu.core_type<tc>, dimension_semantics = [],
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64} : () -> ()
}) {stable_mosaic.version = 11 : i64} : () -> ()
`
	text := strings.NewReplacer("IN", "memref<64x128xf32, #tpu.memory_space<vmem>>", "OUT", "memref<32x128xi32, #tpu.memory_space<vmem>>").Replace(body)
	return strings.Replace(`module @pairs {
  func.func public @main(%x: tensor<64x128xf32>) -> tensor<32x128xi32> {
    %0 = stablehlo.custom_call @tpu_custom_call(%x) {kernel_name = "pairs",
      backend_config = "{\22custom_call_config\22: {\22body\22: \22BODY\22, \22serialization_format\22: 1, \22needs_layout_passes\22: true}}",
      operand_layouts = [dense<[1, 0]> : tensor<2xindex>],
      result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<64x128xf32>) -> tensor<32x128xi32> loc("pairs")
    return %0 : tensor<32x128xi32>
  }
}`, "BODY", base64.StdEncoding.EncodeToString([]byte(text)), 1)
}

// With the flags of its target, a bitcast of bf16 to 32 bits stays in registers: one store for each of the 4 that result.
func TestTargetFlags(t *testing.T) {
	c := compiler(t, Options{})
	stores := func(target *target.Target, flags map[string]string) int64 {
		dir := t.TempDir()
		_, err := c.Compile(t.Context(), Request{Topology: target.Topology, Module: bitcastModule(), DumpDir: dir, Flags: flags})
		require.NoError(t, err)
		r, err := llo.Options{}.Analyze(dir, target)
		require.NoError(t, err)
		for _, op := range r.Ops {
			for _, s := range op.Slots {
				if strings.HasPrefix(op.Name, "pairs") && s.Name == "VSTORE" {
					return s.Used
				}
			}
		}
		require.Fail(t, "the report has no stores of the kernel")
		return 0
	}
	for _, target := range target.All() {
		t.Run(target.Name, func(t *testing.T) {
			require.EqualValues(t, 4, stores(target, target.Flags))
			if target.Flags != nil {
				require.Greater(t, stores(target, nil), int64(4), "the flags are not needed any more")
			}
		})
	}
}
