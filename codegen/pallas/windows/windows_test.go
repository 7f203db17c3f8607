package windows

import (
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
		require.Contains(t, Spec(g, w, false, "(8,)"), want)
	}
	x := ir.IndexAxis(0)
	x.Shift = 1
	w := ir.Window{Block: []int{8}, Index: []ir.Index{x.Reversed(8)}}
	require.Contains(t, Spec(g, w, false, "(8,)"), "7 - (step + 1)")
}
