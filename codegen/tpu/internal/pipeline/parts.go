package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// partBytes is the largest part of a first read or last write that a step waits for at once. Its transfer takes about a quarter of the
// fixed latency on all targets.
const partBytes = 128 << 10

// parts splits the first block of an input, or the last block of an output, into equal parts along the first dimension of more than one.
// Each part has its own semaphore, since a wait can not tell copies apart.
type parts struct {
	block []int // the shape of one part
	along int   // the dimension that is cut
	sems  []*ir.Value
}

// cutInParts splits a block of an element type into parts of whole tiles, and makes their semaphores.
//
//	[1, 2048, 128] bf16, 512 KiB:   4 parts of [1, 512, 128], 128 KiB each
//	[1, 24, 4096] bf16, 192 KiB:    1 part; 12 rows would end inside a tile of 16
func (l *pipeline) cutInParts(b *ir.Builder, block []int, d ir.DType, shared **ir.Value) parts {
	p := parts{block: slices.Clone(block)}
	at, rows := 0, len(block)-2
	for at < rows && block[at] == 1 {
		at++
	}
	n := 1
	for product(block)*d.Bytes()/n > partBytes && p.block[at]%2 == 0 && (at < rows || p.block[at]%(2*target.RegisterRows(d.Bytes())) == 0) {
		n, p.block[at] = 2*n, p.block[at]/2
	}
	p.along = at
	for range n {
		p.sems = append(p.sems, l.semaphore(b, shared))
	}
	return p
}

// number emits the number of a part among all parts of an array whose blocks follow one another along an axis. A copy counts its units
// in row-major order: first along the dimension that is cut, then along the axis if the axis comes later.
//
//	[1, 1024, 8, 128] in two blocks of [1, 512, 8, 128], each in 4 parts of [1, 128, 8, 128]:     part 2 of block 1 is 1*4 + 2
//	[1, 8, 64, 1024] in two blocks of [1, 8, 64, 512], each in 4 parts of [1, 2, 64, 512]:        part 2 of block 1 is 2*2 + 1
func (p *parts) number(b *ir.Builder, array ir.Type, window ir.Window, axis int, block *ir.Value, part int) *ir.Value {
	if p.along < axis {
		return b.Add(block, number(b, part*(array.Shape[axis]/window.Block[axis])))
	}
	return b.Add(b.Mul(block, number(b, len(p.sems))), number(b, part))
}

// touches reports whether a box of the block contains rows of a part.
//
// The reference may be a cast, for example to words of two rows, so rows are scaled by its own row count: of 1024 words and 4 parts,
// words 256 to 319 are in part 256*4/1024 = 1.
func (p *parts) touches(part int, ref *ir.Value, bx *box) bool {
	if bx == nil {
		return true
	}
	shape, n := ref.Type.Shape[:ref.Type.Rank()-1], len(p.sems)
	first, last := 0, 0
	for d, size := range shape {
		first, last = first*size+bx.lo[d], last*size+bx.lo[d]+(bx.count[d]-1)*bx.step[d]
	}
	rows := product(shape)
	return first*n/rows <= part && part <= last*n/rows
}

// scratch adds a scratch parameter to the new kernel.
func (l *pipeline) scratch(b *ir.Builder, t ir.Type) *ir.Value {
	l.ng.Scratch = append(l.ng.Scratch, t)
	return b.Param("", t)
}

func product(s []int) int {
	n := 1
	for _, x := range s {
		n *= x
	}
	return n
}
