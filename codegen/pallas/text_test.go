package pallas

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
)

// Two places of a file may have lists of one name and several lengths: a part of one is then never written as the whole.
func TestListOfOneName(t *testing.T) {
	list := func(n int) *loops.Item { return &loops.Item{Elems: make([]*loops.Item, n)} }
	l := []expr{{"x[0]", atom}, {"x[1]", atom}, {"x[2]", atom}}
	for range 20 { // maps are walked in any order
		require.Equal(t, "x", (&printer{names: map[*loops.Item]string{list(3): "x", {}: "x"}}).listText(l))
		require.Equal(t, "x[:3]", (&printer{names: map[*loops.Item]string{list(3): "x", list(2): "x"}}).listText(l))
		require.Equal(t, "x[:2]", (&printer{names: map[*loops.Item]string{list(3): "x", list(2): "x"}}).listText(l[:2]))
	}
}

// A file imports what its code uses, and not what its texts speak of.
func TestImports(t *testing.T) {
	require.Equal(t, "import math\nfrom collections.abc import Callable\nfrom typing import Any, NamedTuple\n\nimport jax\nfrom jax import lax\n",
		imports("class A(NamedTuple):\n    \"\"\"np.array of heapq.\"\"\"\n\n\ndef f(x: Callable) -> Any:  # pl.when\n    return lax.exp(math.pi), jax.Ref, \"jnp.exp\", x.np.y\n"))
}
