package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
)

// What is examined is the form that is timed, but for parts of two chunks: on the small work auto would take another. Each exam stands once, and what
// is cut has several parts.
func TestExams(t *testing.T) {
	all, err := examsOf(func(int) bool { return true })
	require.NoError(t, err)
	seen := map[exam]bool{}
	for _, x := range all {
		require.False(t, seen[x], x)
		seen[x] = true
	}
	for _, w := range Works {
		s, err := gdn.Parse(w.Spec)
		require.NoError(t, err)
		small, err := gdn.Parse(w.Small)
		require.NoError(t, err)
		for _, text := range w.Variants {
			x, err := w.small(text)
			require.NoError(t, err)
			require.True(t, seen[x], x)
			timed, err := triton.Parse(text, s)
			require.NoError(t, err)
			examined, err := triton.Parse(x.variant, small)
			require.NoError(t, err)
			cut := examined.Part
			timed.Part = min(timed.Part, 2)
			require.Equal(t, timed.Text(s), examined.Text(small), text)
			if cut == 0 {
				continue
			}
			random, err := truth.LookupClass("random")
			require.NoError(t, err)
			inputs, err := random.Generate(small, 1)
			require.NoError(t, err)
			longest := int64(0)
			ends := inputs["cu_seqlens"].Int64s()
			for i, end := range ends[1:] {
				longest = max(longest, end-ends[i])
			}
			require.Greater(t, longest, int64(2*cut*examined.Chunk), "three parts at least: %s", text)
		}
	}
	few, err := examsOf(func(variant int) bool { return variant == 0 })
	require.NoError(t, err)
	require.Less(t, len(few), len(all))
}
