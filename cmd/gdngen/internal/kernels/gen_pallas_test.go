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

// The state of a gradient is later in a file than in Mosaic where that costs less, unless the text says otherwise.
func TestFileLater(t *testing.T) {
	for _, test := range []struct {
		spec, variant, target string
		delay                 int
	}{
		{"train", "auto", "v6e", 3}, {"train", "auto", "tpu7x", 6}, {"train", "auto", "v5e", 6},
		{"train", "auto,bwd.state_delay=10", "tpu7x", 10}, {"train", "tpu-train", "tpu7x", 3}, {"train,l2norm", "auto", "tpu7x", 3},
	} {
		s, err := gdn.Parse(test.spec)
		require.NoError(t, err)
		file, _, err := pallasForm(s, test.variant, test.target)
		require.NoError(t, err)
		require.Equal(t, test.delay, file.Variant.Backward.StateDelay, test)
	}
}
