package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/lower/tpu/internal/tiles"
)

// pieceBytes is the least that a piece has: below it a copy is all latency, and so is the work between two waits.
const pieceBytes = 128 << 10

// lump is an array that a kernel copies as a whole, in or out.
type lump struct {
	ref         *ir.Value // the buffer
	start, wait *ir.Instr
	block       []int // of a piece
	pieces      int
	sems        []*ir.Value
	out         bool
}

// pieces has a kernel of one point copy large arrays in pieces of some heads, each with a semaphore of its own: such a kernel has no other point
// beside whose work its copies could run, as decode of one sequence. All pieces are asked for at the begin. A piece is awaited where its heads begin, and
// leaves when it is made, while others still come.
//
// The compiler orders instructions between two waits and not across them. So a time slot has the next step of each piece under way: what a wait lets
// begin stands with what the pieces before have come to. What comes late (slow) has a step of its own, so that it is asked for at the begin of a slot and
// taken in the next. Three pieces, of which step 0 is loads and products by decay, step 1 makes the new state, and step 2 the outputs:
//
//	await 0   0.0
//	await 1   1.0  0.1               start copy of 0
//	await 2   2.0  1.1  0.2          start copy of 1
//	               2.1  1.2          start copy of 2
//	                    2.2          await copies of 0, 1 and 2
//
// What comes may lie where what leaves goes, in place: nothing leaves before the same piece has come.
func pieces(b *ir.Builder, g *ir.Grid, body *ir.Block) {
	if slices.ContainsFunc(g.Dims, func(d ir.GridDim) bool { return d.Size > 1 }) {
		return
	}
	p := &piecer{b: b, body: body, lumpOf: map[*ir.Value]*lump{}, ends: map[*ir.Instr]*lump{}}
	if !p.find() {
		return
	}
	for _, l := range p.lumps {
		for range l.pieces {
			sem := ir.Ref(ir.VMEM, ir.Sem)
			g.Scratch = append(g.Scratch, sem)
			l.sems = append(l.sems, b.Param("", sem))
		}
	}
	p.arrange()
	p.write()
}

// piecer writes the body of a kernel anew.
type piecer struct {
	b      *ir.Builder
	body   *ir.Block
	lumps  []*lump
	pieces int // of each lump
	lumpOf map[*ir.Value]*lump
	ends   map[*ir.Instr]*lump // by the start and the wait of the whole
	slots  []int               // of instructions, by their number; -1 before all slots, for what needs no piece
}

// find lists the arrays that are copied whole, and touched by loads or stores of known places alone; those that have as many pieces as the first.
// There must be one that comes.
func (p *piecer) find() (comes bool) {
	touched := map[*ir.Value][]*ir.Instr{}
	for _, in := range p.body.Instrs {
		if in.Body != nil {
			return false
		}
		for _, a := range in.Args {
			touched[a] = append(touched[a], in)
		}
	}
	for _, in := range p.body.Instrs {
		if in.Op != ir.OpDMAStart || !slices.Equal(in.Args[0].Type.Shape, in.Args[1].Type.Shape) ||
			len(in.Attrs.Dims) > 0 && !slices.Equal(in.Attrs.Dims, in.Args[0].Type.Shape) {
			continue
		}
		l := &lump{start: in, ref: in.Args[1]}
		if l.out = in.Args[1].Type.Space == ir.HBM; l.out {
			l.ref = in.Args[0]
		}
		if !l.cut() || !l.plain(touched[l.ref]) || p.pieces > 0 && l.pieces != p.pieces {
			continue
		}
		p.pieces, comes = l.pieces, comes || !l.out
		p.lumps = append(p.lumps, l)
		p.lumpOf[l.ref], p.ends[l.start], p.ends[l.wait] = l, l, l
	}
	return comes
}

// cut sets the size of a piece: heads of one index of all dimensions before theirs. Some four pieces do for a small array, some eight for a large one:
// the first must come and the last must leave with nothing beside. It is false where there would be one.
//
//	f32 [1, 8, 128, 128], 64 KiB a head     4 pieces of 2 heads
//	f32 [1, 32, 128, 128]                   8 pieces of 4
func (l *lump) cut() bool {
	lead, rows, lanes := tiles.RowsLanes(l.ref.Type.Shape)
	if len(lead) == 0 {
		return false
	}
	heads, head, whole := lead[len(lead)-1], ir.T(l.ref.Type.DType, rows, lanes).Bytes(), l.ref.Type.Bytes()
	least := max(pieceBytes, min(2*pieceBytes, whole/4), whole/8)
	some := 1
	for some < heads && (heads%some != 0 || some*head < least) {
		some++
	}
	l.block = append(slices.Repeat([]int{1}, len(lead)-1), some, rows, lanes)
	l.pieces = product(lead) / some
	return l.pieces > 1 && some*head >= pieceBytes
}

// plain says whether a buffer is only copied once, awaited, and read or, of an output, written at places that are known.
func (l *lump) plain(touched []*ir.Instr) bool {
	starts := 0
	for _, in := range touched {
		switch {
		case in.Op == ir.OpDMAStart:
			starts++
		case in.Op == ir.OpDMAWait:
			l.wait = in
		case in.Op == ir.OpLoad && !l.out && len(in.Args) == 1 && in.Results[0].Type.Rank() == 2:
		case in.Op == ir.OpStore && l.out && len(in.Args) == 2 && in.Args[1] == l.ref && in.Args[0].Type.Rank() == 2:
		default:
			return false
		}
	}
	return starts == 1 && l.wait != nil
}

// piece is the number of the piece that a load or store touches.
func (l *lump) piece(in *ir.Instr) int {
	n := 0
	for d, at := range in.Attrs.Starts[:len(l.block)-2] {
		n = n*(l.ref.Type.Shape[d]/l.block[d]) + at/l.block[d]
	}
	return n
}

// slow are the ops whose results come late.
var slow = []ir.Op{ir.OpDot, ir.OpReduceSum, ir.OpReduceMax, ir.OpTranspose}

// arrange finds where instructions stand: no earlier than what they depend on, by a value or by memory.
func (p *piecer) arrange() {
	deps := dependences(p.body)
	for i, in := range p.body.Instrs {
		slot := -1
		for _, j := range deps[i] {
			from := p.body.Instrs[j]
			switch late := slices.Contains(slow, from.Op); {
			case p.ends[from] != nil: // its pieces have waits of their own
			case late && p.slots[j] >= 0:
				slot = max(slot, p.slots[j]+1)
			default:
				slot = max(slot, p.slots[j])
			}
		}
		switch l := p.touched(in); {
		case l != nil:
			slot = max(slot, l.piece(in))
		case slot >= 0 && slices.Contains(slow, in.Op):
			slot++
		case (in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait) && in.Args[1].Type.Space == ir.HBM:
			slot = max(slot, p.pieces-1) // another array leaves when all have come, wherever it goes
		}
		p.slots = append(p.slots, slot)
	}
}

// touched is the lump that a load or store touches, nil where it is none.
func (p *piecer) touched(in *ir.Instr) *lump {
	switch in.Op {
	case ir.OpLoad:
		return p.lumpOf[in.Args[0]]
	case ir.OpStore:
		return p.lumpOf[in.Args[1]]
	}
	return nil
}

// write lists what needs no piece, with the starts of all that comes, then the slots, then the waits for all that leaves.
func (p *piecer) write() {
	old, leaves, last := p.body.Instrs, p.leaves(), p.pieces-1
	p.body.Instrs = nil
	for i, in := range old {
		last = max(last, p.slots[i])
		if l := p.ends[in]; l != nil && in == l.start && !l.out {
			p.all(ir.OpDMAStart, l)
		} else if l == nil && p.slots[i] < 0 {
			p.keep(in)
		}
	}
	for slot := range last + 1 {
		for _, l := range p.lumps {
			if !l.out && slot < l.pieces {
				p.move(ir.OpDMAWait, l, slot)
			}
		}
		for i, in := range old {
			if p.slots[i] == slot && p.ends[in] == nil {
				p.keep(in)
			}
		}
		for _, l := range p.lumps {
			for i, at := range leaves[l] {
				if at == slot {
					p.move(ir.OpDMAStart, l, i)
				}
			}
		}
	}
	for _, l := range p.lumps {
		if l.out {
			p.all(ir.OpDMAWait, l)
		}
	}
}

// leaves are the slots after which the pieces of each output are made, none before the same piece has come.
func (p *piecer) leaves() map[*lump][]int {
	after := map[*lump][]int{}
	for _, l := range p.lumps {
		for i := range l.pieces {
			if l.out {
				after[l] = append(after[l], i)
			}
		}
	}
	for i, in := range p.body.Instrs {
		if l := p.touched(in); l != nil && l.out {
			n := l.piece(in)
			after[l][n] = max(after[l][n], p.slots[i])
		}
	}
	return after
}

func (p *piecer) keep(in *ir.Instr) { p.body.Instrs = append(p.body.Instrs, in) }

// all starts or awaits every piece.
func (p *piecer) all(op ir.Op, l *lump) {
	for i := range l.pieces {
		p.move(op, l, i)
	}
}

// move starts or awaits the copy of a piece.
func (p *piecer) move(op ir.Op, l *lump, piece int) {
	p.b.Stage("fetch")
	if l.out {
		p.b.Stage("copy")
	}
	n := p.b.Const(ir.T(ir.I32), float64(piece))
	p.b.Append(op, []*ir.Value{l.start.Args[0], l.start.Args[1], l.sems[piece], n, n}, ir.Attrs{Dims: l.block}, nil)
}
