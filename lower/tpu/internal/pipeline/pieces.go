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
// The compiler orders instructions between two waits and not across them. So what a wait lets begin stands with what the pieces before it have come to:
// a time slot has the next step of each piece under way, and a step ends with what the vector unit waits for. Three pieces of three steps:
//
//	await 0   0.0
//	await 1   1.0  0.1               start copy of 0
//	await 2   2.0  1.1  0.2          start copy of 1
//	               2.1  1.2          start copy of 2
//	                    2.2          await copies of 0, 1 and 2
//
// What comes may lie where what leaves goes, in place: a piece leaves after it has come.
func pieces(b *ir.Builder, g *ir.Grid, body *ir.Block) {
	if slices.ContainsFunc(g.Dims, func(d ir.GridDim) bool { return d.Size > 1 }) {
		return
	}
	p := &piecer{b: b, body: body, of: map[*ir.Value]*lump{}, ends: map[*ir.Instr]*lump{}, at: map[*ir.Instr]place{}, by: map[*ir.Value]*ir.Instr{}}
	if !p.find() || !p.place() {
		return
	}
	for _, l := range p.lumps {
		for range l.pieces {
			sem := ir.Ref(ir.VMEM, ir.Sem)
			g.Scratch = append(g.Scratch, sem)
			l.sems = append(l.sems, b.Param("", sem))
		}
	}
	p.write()
}

// place is where an instruction stands: with which piece, and in which of its steps. What needs no piece has piece -1.
type place struct{ piece, step int }

func (x place) slot() int { return x.piece + x.step }

// piecer writes the body of a kernel anew.
type piecer struct {
	b      *ir.Builder
	body   *ir.Block
	lumps  []*lump
	pieces int // of each lump
	of     map[*ir.Value]*lump
	ends   map[*ir.Instr]*lump // by the start and the wait of the whole
	at     map[*ir.Instr]place
	by     map[*ir.Value]*ir.Instr
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
		if in.Op != ir.OpDMAStart || !slices.Equal(in.Args[0].Type.Shape, in.Args[1].Type.Shape) {
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
		p.of[l.ref], p.ends[l.start], p.ends[l.wait] = l, l, l
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

// place finds where instructions stand. It is false where the order of what they do to memory would not be kept: where something is loaded that is
// stored, a piece is made of a later one, or another array comes late.
func (p *piecer) place() bool {
	stored, loaded, begun := map[*ir.Value]bool{}, map[*ir.Value]bool{}, false
	for _, in := range p.body.Instrs {
		if copies := in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait; copies && begun && p.ends[in] == nil && in.Args[1].Type.Space != ir.HBM {
			return false // it comes when work has begun, and may be waited for there
		}
		x := place{piece: -1}
		for _, a := range in.Args {
			from := p.by[a]
			if from == nil {
				continue
			}
			y := p.at[from]
			if y.piece >= 0 && slices.Contains(slow, from.Op) {
				y.step++
			}
			if y.piece > x.piece || y.piece == x.piece && y.step > x.step {
				x = place{y.piece, max(y.step, y.slot()-y.piece)}
			}
			x.step = max(x.step, y.slot()-x.piece)
		}
		if x.piece >= 0 && slices.Contains(slow, in.Op) {
			x.step++
		}
		switch in.Op {
		case ir.OpLoad:
			loaded[in.Args[0]] = true
			if l := p.of[in.Args[0]]; l != nil {
				x = place{piece: l.piece(in)}
			}
		case ir.OpStore:
			stored[in.Args[1]] = true
			if l := p.of[in.Args[1]]; l != nil && x.piece > l.piece(in) {
				return false
			}
		}
		p.at[in], begun = x, begun || x.piece >= 0
		for _, r := range in.Results {
			p.by[r] = in
		}
	}
	for ref := range stored {
		if loaded[ref] {
			return false
		}
	}
	return true
}

// write lists the body by slots, between what needs no piece and the copies and waits that end the kernel.
func (p *piecer) write() {
	old, leaves := p.body.Instrs, p.leaves()
	p.body.Instrs = nil
	end := p.begin(old)
	last := 0
	for _, in := range old {
		last = max(last, p.at[in].slot())
	}
	for slot := range last + 1 {
		for _, l := range p.lumps {
			if !l.out && slot < l.pieces {
				p.move(ir.OpDMAWait, l, slot)
			}
		}
		for _, in := range old {
			if x := p.at[in]; x.piece >= 0 && x.slot() == slot && p.ends[in] == nil {
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
	for _, in := range end {
		if l := p.ends[in]; l != nil {
			p.all(ir.OpDMAWait, l)
		} else {
			p.keep(in)
		}
	}
}

// leaves are the slots after which the pieces of each output are made, none before the same piece has come.
func (p *piecer) leaves() map[*lump][]int {
	after := map[*lump][]int{}
	for _, in := range p.body.Instrs {
		if in.Op != ir.OpStore || p.of[in.Args[1]] == nil {
			continue
		}
		l := p.of[in.Args[1]]
		if after[l] == nil {
			after[l] = make([]int, l.pieces)
		}
		i := l.piece(in)
		after[l][i] = max(after[l][i], p.at[in].slot(), i)
	}
	return after
}

// begin lists what needs no piece, with the starts of all pieces that come, and gives the copies and waits that stand behind the work.
func (p *piecer) begin(old []*ir.Instr) (end []*ir.Instr) {
	begun := false
	for _, in := range old {
		copies := in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait
		begun = begun || p.at[in].piece >= 0
		switch l := p.ends[in]; {
		case l != nil && in == l.start && !l.out:
			p.all(ir.OpDMAStart, l)
		case l != nil && in == l.wait && l.out, l == nil && copies && begun:
			end = append(end, in)
		case l == nil && p.at[in].piece < 0:
			p.keep(in)
		}
	}
	return end
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
	if p.b.Stage("fetch"); l.out {
		p.b.Stage("copy")
	}
	n := p.b.Const(ir.T(ir.I32), float64(piece))
	p.b.Append(op, []*ir.Value{l.start.Args[0], l.start.Args[1], l.sems[piece], n, n}, ir.Attrs{Dims: l.block}, nil)
}
