package layer_test

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
)

// Layers of Kimi Delta Attention agree with a float64 layer that JAX computes and differentiates token by token: outputs of a prefill, of
// decoding and of all tokens at once, caches, and the gradient of x and of each weight by its name in a file.
func TestStoredKimi(t *testing.T) {
	cases, err := truth.ReadCases("../../tests/fixtures/kimi")
	require.NoError(t, err)
	require.Len(t, cases, 3)
	layertest.Each(t, func(t *testing.T, b compute.Backend) {
		for i, c := range cases {
			if i == 2 && b.Name() == device.XLA {
				continue // programs take long to compile there
			}
			inputs, expected, err := c.Load()
			require.NoError(t, err)
			require.Contains(t, expected, "dw.A_log")
			got, err := layer.ComputeLayer(b, *c.Layer, "", inputs)
			require.NoError(t, err)
			file, err := c.FileOutputs(got)
			require.NoError(t, err)
			verdicts, err := c.Judge(expected, file.Tensors, ir.PrecF32.String())
			require.NoError(t, err)
			require.Len(t, verdicts, len(expected))
			for _, v := range verdicts {
				require.True(t, v.Pass, "%s: %s: %.2e of %.2e", c.Name, v.Name, v.Ratio, v.Limit)
			}
		}
	})
}
