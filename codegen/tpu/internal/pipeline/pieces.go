package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
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
// taken in the next. Three pieces with sums over lanes, of which step 0 is loads and products by decay, and step 1 makes the new state:
//
//	await 0   0.0
//	await 1   1.0  0.1               start copy of 0
//	await 2   2.0  1.1               start copy of 1
//	               2.1               start copy of 2, and of the outputs; await all
//
// What no piece waits for, as outputs, comes some slots later (shift), so that the states leave first.
//
// What comes may lie where what leaves goes, in place: nothing leaves before the same piece has come.
func pieces(b *ir.Builder, g *ir.Grid, body *ir.Block) {
	if slices.ContainsFunc(g.Dims, func(d ir.GridDim) bool { return d.Size > 1 }) {
		return
	}
	p := &piecer{b: b, body: body, lumpOf: map[*ir.Value]*lump{}, ends: map[*ir.Instr]*lump{}, stored: map[*ir.Value]*stored{}}
	if !p.find() {
		return
	}
	p.semaphores(g)
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
	ends   map[*ir.Instr]*lump   // by the start and the wait of the whole
	slots  []int                 // of instructions, by their number; -1 before all slots, for what needs no piece
	stored map[*ir.Value]*stored // what is in a buffer that leaves
}

// semaphores gives each piece that comes one of its own. What leaves waits on that of the small arrays, of which none is on its way then, and the first
// piece has what would have been for that: each is tested when a kernel ends.
func (p *piecer) semaphores(g *ir.Grid) {
	var came, left *ir.Value
	for _, in := range p.body.Instrs {
		switch {
		case in.Op == ir.OpDMAStart && away(in):
			left = in.Args[2]
		case in.Op == ir.OpDMAStart && p.ends[in] == nil:
			came = in.Args[2]
		}
	}
	if came != nil && left != nil {
		for _, in := range p.body.Instrs {
			if away(in) {
				in.Args[2] = came
			}
		}
	}
	for _, l := range p.lumps {
		for range l.pieces {
			sem := l.start.Args[2]
			if !l.out && came != nil && left != nil {
				sem, left = left, nil
			} else if !l.out {
				t := ir.Ref(ir.VMEM, ir.Sem)
				g.Scratch = append(g.Scratch, t)
				sem = p.b.Param("", t)
			}
			l.sems = append(l.sems, sem)
		}
	}
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

// slow says whether the result of an instruction comes late. A sum over rows is one of registers.
func slow(in *ir.Instr) bool {
	switch in.Op {
	case ir.OpReduceSum, ir.OpReduceMax:
		return slices.Contains(in.Attrs.Dims, in.Args[0].Type.Rank()-1)
	}
	return in.Op == ir.OpDot || in.Op == ir.OpTranspose
}

// arrange finds where instructions stand: no earlier than what they depend on, by a value or by memory.
func (p *piecer) arrange() {
	deps := dependences(p.body)
	for i, in := range p.body.Instrs {
		slot := -1
		for _, j := range deps[i] {
			from := p.body.Instrs[j]
			switch late := slow(from); {
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
		case slot >= 0 && slow(in):
			slot++
		case away(in):
			slot = max(slot, p.pieces-1) // another array leaves when all have come, wherever it goes
		}
		p.slots = append(p.slots, slot)
	}
	p.shift(deps)
}

// shift moves what no piece that leaves waits for behind what one does, and what needs no piece to where it is needed. Transposes, whose results take many
// registers, are made for some pieces at a time, in the slot before the first of them; sums over lanes take few, and stay where all begins.
//
//	pieces of 128 KiB           columns for 2 and 3 are made in slot 1, outputs of 0 in slot 3
//	pieces of 256 KiB or more   columns for 2 are made in slot 1, outputs of 0 in slot 1
func (p *piecer) shift(deps [][]int) {
	n, piece := len(deps), ir.T(p.lumps[0].ref.Type.DType, p.lumps[0].block...).Bytes()
	ahead, behind := max(1, 2*pieceBytes/piece), max(1, 3*pieceBytes/piece)
	const never = 1 << 30
	urgent, need := make([]bool, n), slices.Repeat([]int{never}, n)
	for i := n - 1; i >= 0; i-- {
		in := p.body.Instrs[i]
		urgent[i] = urgent[i] || p.touched(in) != nil
		switch at := p.slots[i]; {
		case in.Op == ir.OpDMAStart, in.Op == ir.OpDMAWait:
		case at >= 0 && !urgent[i]:
			p.slots[i] = max(at, min(at+behind, p.pieces-1))
		case at < 0 && 0 < need[i] && need[i] < never && (in.Op == ir.OpTranspose || !slow(in)):
			if at = need[i]; in.Op == ir.OpTranspose && urgent[i] {
				at -= at%ahead + 1
			}
			p.slots[i] = at
		}
		for _, j := range deps[i] {
			urgent[j], need[j] = urgent[j] || urgent[i], min(need[j], p.slots[i])
		}
	}
}

// away says whether an instruction starts or awaits a copy to main memory.
func away(in *ir.Instr) bool {
	return (in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait) && in.Args[1].Type.Space == ir.HBM
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

// write lists what needs no piece, with the starts of all that comes, then the slots, then the waits for all that leaves, in the order in which it does.
func (p *piecer) write() {
	old, leaves, last := p.body.Instrs, p.drains(), p.pieces-1
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
			if p.slots[i] == slot && p.ends[in] == nil && !away(in) {
				p.again(in, slot)
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
	others := func(op ir.Op) {
		for _, in := range old {
			if in.Op == op && away(in) && p.ends[in] == nil {
				p.keep(in)
			}
		}
	}
	others(ir.OpDMAStart)
	for _, l := range p.lumps {
		if l.out {
			p.all(ir.OpDMAWait, l)
		}
	}
	others(ir.OpDMAWait)
}

// again has an instruction load what an earlier slot has stored: it lies where it leaves from, and needs no register until then.
func (p *piecer) again(in *ir.Instr, slot int) {
	for i, a := range in.Args {
		s := p.stored[a]
		if s == nil || s.slot == slot {
			continue
		}
		if s.loadedIn != slot {
			s.loaded, s.loadedIn = p.b.Of(in).Load(s.store.Args[1], a.Type.Shape, s.store.Attrs.Starts, s.store.Attrs.Strides), slot
		}
		in.Args[i] = s.loaded
	}
	if l := p.touched(in); l != nil && l.out {
		p.stored[in.Args[0]] = &stored{store: in, slot: slot}
	}
}

// stored is a value that is in a buffer of what leaves.
type stored struct {
	store    *ir.Instr
	slot     int
	loaded   *ir.Value // in slot loadedIn
	loadedIn int
}

// drains are the slots after which the pieces of each output are made, none before the same piece has come.
func (p *piecer) drains() map[*lump][]int {
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
