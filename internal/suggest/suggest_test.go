package suggest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	known := []string{"chunk", "chunks", "leaf"}
	require.Equal(t, `, did you mean "chunk"?`, Name("chnk", known))
	require.Equal(t, `, did you mean "leaf"?`, Name("LEAFF", known))
	require.Empty(t, Name("precision", known))
	require.Empty(t, Name("x", nil))
}
