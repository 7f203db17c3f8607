package rotate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A sample is the same on one commit, has no element twice, and becomes the whole where that is asked for.
func TestSample(t *testing.T) {
	t.Setenv(Env, "")
	list := []int{1, 2, 3, 4, 5}
	x := Sample(7, list, 3)
	require.Equal(t, x, Sample(7, list, 3))
	require.Len(t, x, 3)
	require.Subset(t, list, x)
	require.NotEqual(t, x[0], x[1])
	require.Equal(t, list, Sample(7, list, 9))
	t.Setenv(Env, "all")
	require.Equal(t, list, Sample(7, list, 3))
}
