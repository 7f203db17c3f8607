package eval

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/stablehlo/eval"
)

// FuzzKernel reads any text as a kernel of Mosaic, and as a module of StableHLO. Seeds are the beginnings of stored ones.
func FuzzKernel(f *testing.F) {
	f.Add("module { func.func @main(%a: memref<8x128xf32>) { %0 = vector.load %a[%c0, %c0] : memref<8x128xf32>, vector<8x128xf32> return } }")
	f.Add("module @m { func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) { %0 = stablehlo.negate %arg0 : tensor<2xf32> return %0 : tensor<2xf32> } }")
	for _, pattern := range []string{"../testdata/*.txtar", "../../stablehlo/testdata/*", "../../mlir/testdata/*"} {
		names, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, name := range names[:min(4, len(names))] {
			if text, err := os.ReadFile(name); err == nil {
				f.Add(string(text[:min(len(text), 600)]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		ParseKernel(text)
		eval.Parse(text, nil)
	})
}
