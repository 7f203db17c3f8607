package tiles

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Blocks of a pool by an index of the sequential axis, by a program too where the grid says how many steps run, and others, which are refused.
func TestBlockOf(t *testing.T) {
	array := ir.T(ir.F32, 256, 16, 128, 128)
	seq, program, zero := ir.IndexAxis(1), ir.IndexAxis(0), ir.IndexConst(0)
	for _, c := range []struct {
		block           []int
		at              []ir.Index
		live            int
		blocks, between int // 0 blocks: refused
	}{
		{[]int{1, 16, 128, 128}, []ir.Index{seq, zero, zero, zero}, 0, 1, 0},
		{[]int{256, 1, 128, 128}, []ir.Index{zero, seq, zero, zero}, 0, 1, 0},
		{[]int{1, 8, 128, 128}, []ir.Index{seq, program, zero, zero}, 1, 2, 1},
		{[]int{64, 1, 128, 128}, []ir.Index{program, seq, zero, zero}, 1, 1, 16},
		{[]int{1, 8, 128, 128}, []ir.Index{seq, program, zero, zero}, 0, 0, 0},
		{[]int{1, 8, 64, 128}, []ir.Index{seq, program, program, zero}, 1, 0, 0},
		{[]int{1, 8, 128, 128}, []ir.Index{seq, seq, zero, zero}, 1, 0, 0},
		{[]int{256, 8, 128, 128}, []ir.Index{zero, program, zero, zero}, 1, 0, 0},
	} {
		g := &ir.Grid{Live: c.live, Dims: []ir.GridDim{{Name: "h", Size: 4}, {Name: "c", Size: 9, Seq: true}}}
		n, err := BlockOf(g, ir.Window{Block: c.block, Index: c.at}, array)
		if c.blocks == 0 {
			require.Error(t, err, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, []int{c.blocks, c.between}, []int{n.blocks, n.between}, "%+v", c)
	}
}
