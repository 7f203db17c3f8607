package tiles

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Numbering computes the number of the block that a window of a grid shows, from an index along one dimension and the program.
type Numbering struct {
	ir.Index
	blocks  int // blocks per step of the index
	axis    int // the axis of the programs
	between int // blocks from one program to the next; 0: all programs show the same
}

// BlockOf returns the numbering of the blocks that a window of a grid shows of an array in HBM. A copy takes one number, so blocks must
// follow one another along one dimension, by the sequential axis; else BlockOf errs. If the grid says how many steps run (Grid.Live),
// one other dimension may follow the programs.
//
//	blocks of [256, 16, 128, 128]
//	[1, 16, 128, 128]    along dimension 0: 256 blocks, numbered by its index
//	[1, 8, 128, 128]     along dimensions 0 and 1: 512 blocks, by twice the first index and the program
//	[256, 1, 128, 128]   along dimension 1: 16 blocks
func BlockOf(g *ir.Grid, w ir.Window, array ir.Type) (Numbering, error) {
	counts, err := ir.BlockCounts(array, w.Block)
	several := func(n int) bool { return n > 1 }
	axis, last := slices.IndexFunc(counts, several), len(g.Dims)-1
	if err != nil || last < 0 || !g.Dims[last].Seq || g.Live == 0 && slices.ContainsFunc(counts[axis+1:], several) {
		return Numbering{}, fmt.Errorf("blocks %v of %s can not be copied by a kernel: they must follow one another along one dimension, by a sequential axis", w.Block, array)
	}
	if g.Live > 0 || axis < 0 { // if there is one block, take the dimension of the index
		axis = slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Axis == last })
	}
	n := Numbering{}
	for d, below := len(counts)-1, 1; d >= 0; d-- {
		x := w.Index[d]
		moves := x.Axis >= 0 && g.Dims[x.Axis].Size > 1
		switch {
		case d == axis && x.Axis == last:
			n.Index, n.blocks = x, below
		case g.Live > 0 && moves && x.Axis != last && x.Table < 0 && n.between == 0:
			n.axis, n.between = x.Axis, below
		case d == axis || moves || x.Table >= 0 || counts[d] > 1:
			return Numbering{}, fmt.Errorf("blocks %v of %s are looked up along dimension %d", w.Block, array, d)
		}
		below *= counts[d]
	}
	if n.blocks == 0 {
		return Numbering{}, fmt.Errorf("blocks %v of %s follow no sequential axis", w.Block, array)
	}
	return n, nil
}

// At emits the block number at the point c+shift. A negative table entry stays negative, since a program adds less than n.blocks.
//
//	two programs of [256, 16, 128, 128], block [1, 8, 128, 128], program 1:   index 3 gives 7,  index -1 gives -1
func (n Numbering) At(b *ir.Builder, c *ir.Value, shift int, tables []*ir.Value) *ir.Value {
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	i := LookUp(b, n.Index, c, shift, tables)
	if n.blocks > 1 {
		i = b.Mul(i, i32(n.blocks))
	}
	if n.between > 0 {
		id := b.ProgramID(n.axis)
		if n.between > 1 {
			id = b.Mul(id, i32(n.between))
		}
		i = b.Add(i, id)
	}
	return i
}
