package oracle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// JAX lowers the source of README's own kernel to the stored text next to it. Paths begin at examples: they are in the kernel's bytecode too.
func TestOwnKernel(t *testing.T) {
	const name = "examples/jax/own_kernel"
	source, err := filepath.Abs(filepath.Join("..", "..", name+".py"))
	require.NoError(t, err)
	t.Setenv("JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX", ".*/(?=examples/)")
	dir := t.TempDir()
	runJAX(t, dir, absolute(t, python(t)), source, "own.mlir")
	got, err := os.ReadFile(filepath.Join(dir, "own.mlir"))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("..", "..", name+".mlir"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
