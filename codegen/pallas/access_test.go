package pallas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows of a reference that is cast and shaped anew have no number before them: interpret mode takes none, and before the cast they are of another shape.
func TestRowsOfShapedReference(t *testing.T) {
	const ref = "refs.k.bitcast(jnp.uint32).reshape(1, 2, 1, 512, 128)"
	require.Equal(t, "refs.k.bitcast(jnp.uint32).reshape(1024, 128).at[pl.ds(512 * chunk, 512)][:64]", element(ref, "0, chunk, 0, :64", 3))
	require.Equal(t, "refs.k.bitcast(jnp.uint32).reshape(1024, 128).at[pl.ds(0, 512)][...]", element(ref, "0, 0, 0", 3))
	require.Equal(t, "refs.k.bitcast(jnp.uint32).reshape(512, 128)[pl.ds(h, 8, stride=4)]",
		element("refs.k.bitcast(jnp.uint32).reshape(1, 1, 1, 512, 128)", "0, 0, 0, pl.ds(h, 8, stride=4)", 3))
}
