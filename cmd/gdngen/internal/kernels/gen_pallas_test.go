package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// What explain lowers by JAX is the file that gen writes: auto is that of a TPU, not of a CPU.
func TestPallasForm(t *testing.T) {
	s, err := gdn.Parse("bench")
	require.NoError(t, err)
	for _, target := range []string{"v5e", "v6e"} {
		file, chosen, err := pallasForm(s, "auto", target)
		require.NoError(t, err)
		want, err := suitTarget(s, "auto", target)
		require.NoError(t, err)
		require.Equal(t, want.Variant, chosen.Variant)
		require.Equal(t, chosen.Variant.Chunk, file.Variant.Chunk)
		require.Equal(t, 128, file.Variant.Chunk, target)
		require.True(t, file.Spec.Init)
	}
}
