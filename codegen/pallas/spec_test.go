package pallas

import (
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// The index of a block that counts down is what is left of its greatest.
func TestReversedIndex(t *testing.T) {
	g := &ir.Grid{Dims: []ir.GridDim{{Name: "step", Size: 6}}}
	for shift, want := range map[int]string{0: "5 - step", -1: "5 - jnp.maximum(step - 1, 0)", 1: "5 - jnp.minimum(step + 1, 5)"} {
		x := ir.IndexAxis(0)
		x.Shift = shift
		w := ir.Window{Block: []int{8}, Index: []ir.Index{x.Reversed(6)}}
		require.Contains(t, spec(g, w, false), want)
	}
	x := ir.IndexAxis(0)
	x.Shift = 1
	w := ir.Window{Block: []int{8}, Index: []ir.Index{x.Reversed(8)}}
	require.Contains(t, spec(g, w, false), "7 - (step + 1)")
}

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
