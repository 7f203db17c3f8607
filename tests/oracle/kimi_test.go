package oracle

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// The stored layers of Kimi Delta Attention are what kimi_layer.py writes.
func TestKimiLayer(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command(python(t), "kimi_layer.py", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	stored, err := truth.ReadCases(filepath.Join("..", "fixtures", "kimi"))
	require.NoError(t, err)
	written, err := truth.ReadCases(dir)
	require.NoError(t, err)
	require.Len(t, written, len(stored))
	for i, c := range stored {
		require.Equal(t, c.Layer, written[i].Layer)
		inputs, expected, err := c.Load()
		require.NoError(t, err)
		in, want, err := written[i].Load()
		require.NoError(t, err)
		require.Equal(t, inputs, in)
		require.Len(t, want, len(expected))
		for name, a := range want {
			require.Less(t, array.Compare(expected[name], a).Ratio, 1e-7, "%s: %s", c.Name, name)
		}
	}
}
