package oracle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The text of README's own kernel is that which JAX lowers from the source beside it, with the path of the source as a reader has it.
func TestOwnKernel(t *testing.T) {
	const name = "examples/jax/own_kernel"
	source, err := filepath.Abs(filepath.Join("..", "..", name+".py"))
	require.NoError(t, err)
	dir := t.TempDir()
	runJAX(t, dir, absolute(t, python(t)), source, "own.mlir")
	got, err := os.ReadFile(filepath.Join(dir, "own.mlir"))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("..", "..", name+".mlir"))
	require.NoError(t, err)
	require.Equal(t, string(want), strings.ReplaceAll(string(got), source, name+".py"))
}
