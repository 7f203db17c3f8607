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
		want, err := resolveFor(s, "auto", target)
		require.NoError(t, err)
		require.Equal(t, want.Variant, chosen.Variant)
		require.Equal(t, chosen.Variant.Chunk, file.Variant.Chunk)
		require.Equal(t, 128, file.Variant.Chunk, target)
		require.True(t, file.Spec.Init)
	}
}

// Tensors without a batch axis are packed sequences.
func TestFileHasBatchAxis(t *testing.T) {
	for text, refused := range map[string]bool{"tiny": false, "tiny,b=1,packed": true, "tiny,b=1,packed,seqs=2": false} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		if _, _, err = pallasForm(s, "auto", "v6e"); refused {
			require.ErrorContains(t, err, "leave out packed, or give seqs", text)
		} else {
			require.NoError(t, err, text)
		}
	}
}

// A file has another order than Mosaic where that costs less, unless the text says otherwise.
func TestFileOrders(t *testing.T) {
	for _, test := range []struct {
		spec, variant, target, axis, want string
	}{
		{"train", "auto", "v6e", "bwd.state_delay", "3"}, {"train,gates=fused", "auto", "tpu7x", "bwd.state_delay", "20"}, {"train", "auto", "tpu7x", "bwd.state_delay", "20"}, {"train", "auto", "tpu7x", "bwd.head_skew", "0"},
		{"train", "auto", "v5e", "bwd.state_delay", "10"}, {"train,gates=fused", "auto", "v5e", "decay_bf16", "rows"}, {"train", "auto,decay_bf16=none", "v5e", "bwd.state_delay", "6"}, {"train", "auto,bwd.state_delay=6", "v5e", "decay_bf16", "operands"},
		{"train", "auto,bwd.state_delay=10", "tpu7x", "bwd.state_delay", "10"}, {"train", "tpu-train", "tpu7x", "bwd.state_delay", "3"},
		{"train,l2norm", "auto", "tpu7x", "bwd.state_delay", "3"}, {"train,l2norm", "auto", "v5e", "bwd.state_delay", "6"}, {"train,l2norm,t=600", "auto", "v5e", "bwd.state_delay", "0"},
		{"bench,seqs=8", "auto", "v6e", "decay_bf16", "operands"}, {"bench,seqs=8", "auto", "v5e", "decay_bf16", "rows"},
		{"bench,seqs=8", "auto", "v5e", "state_whole", "yes"}, {"bench,seqs=8", "auto", "v6e", "state_whole", "no"}, {"bench,seqs=8", "auto", "tpu7x", "state_whole", "no"},
		{"bench,seqs=8", "auto,state_delay=6", "v6e", "state_whole", "yes"},
		{"bench,seqs=8", "auto,decay_bf16=none", "v6e", "decay_bf16", "none"}, {"bench,seqs=8", "auto", "tpu7x", "prologue_end", "80"},
	} {
		s, err := gdn.Parse(test.spec)
		require.NoError(t, err)
		file, _, err := pallasForm(s, test.variant, test.target)
		require.NoError(t, err)
		for _, a := range gdn.Axes {
			if a.Name == test.axis {
				require.Equal(t, test.want, a.Get(&file.Variant), test)
			}
		}
	}
}
