package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// pieceBytes is the least size of a piece: for smaller ones, latency dominates the copy, and the work between two waits.
const pieceBytes = 128 << 10

// lump is an array that a kernel copies in or out as a whole.
type lump struct {
	ref         *ir.Value // the buffer
	start, wait *ir.Instr
	block       []int // the shape of a piece
	pieces      int
	sems        []*ir.Value
	out         bool
}

// pieces makes a kernel of one point copy large arrays in pieces of some heads, each with its own semaphore. Such a kernel, for example
// decode of one sequence, has no other point whose work could hide its copies. All copies in begin at once. A piece is awaited
// before the work on its heads, and copied out when it is done, while other pieces still arrive.
//
// The compiler orders instructions only between waits. So a time slot has the next step of each piece in flight: the work that a wait
// allows, next to the later work on earlier pieces. A result of long latency (slow) gets a step of its own: it is requested at the start
// of a slot and used in the next. Three pieces with sums over lanes; step 0 is loads and products by decay, step 1 makes the new state:
//
//	await 0   0.0
//	await 1   1.0  0.1               start copy of 0
//	await 2   2.0  1.1               start copy of 1
//	               2.1               start copy of 2, and of the outputs; await all
//
// Work that no copied piece waits for, such as outputs, comes some slots later (shift), so that states are copied first.
//
// An array may be copied out in place of the input: no piece is copied out before the same piece has arrived.
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

// piecer rewrites the body of a kernel.
type piecer struct {
	b      *ir.Builder
	body   *ir.Block
	lumps  []*lump
	pieces int // of each lump
	lumpOf map[*ir.Value]*lump
	ends   map[*ir.Instr]*lump   // by the start and the wait of the whole copy
	slots  []int                 // per instruction; -1: before all slots, since it needs no piece
	stored map[*ir.Value]*stored // values that are in a buffer to be copied out
}

// semaphores gives each piece copied in its own semaphore. Copies out share the semaphore of the small inputs, none of which is in
// flight then; the first piece gets the one they had. Fewer are better: each is tested when a kernel ends.
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

// find lists the arrays that are copied whole, accessed only at known positions, and have as many pieces as the first. It reports
// whether one of them is copied in.
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

// cut sets the shape of a piece: heads with one index along all dimensions before theirs. A small array has about four pieces, a large
// one about eight: no work hides the first and the last. It is false if there would be only one piece, or too small ones.
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

// plain reports whether a buffer is only copied once, awaited, and loaded or, for an output, stored at known positions.
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

// piece returns the number of the piece that a load or store touches.
func (l *lump) piece(in *ir.Instr) int {
	n := 0
	for d, at := range in.Attrs.Starts[:len(l.block)-2] {
		n = n*(l.ref.Type.Shape[d]/l.block[d]) + at/l.block[d]
	}
	return n
}

// slow reports whether the result of an instruction has a long latency. Sums over rows do not: they combine registers.
func slow(in *ir.Instr) bool {
	switch in.Op {
	case ir.OpReduceSum, ir.OpReduceMax:
		return slices.Contains(in.Attrs.Dims, in.Args[0].Type.Rank()-1)
	}
	return in.Op == ir.OpDot || in.Op == ir.OpTranspose
}

// arrange finds the slot of each instruction, no earlier than its dependences by value or memory.
func (p *piecer) arrange() {
	deps := dependences(p.body)
	for i, in := range p.body.Instrs {
		slot := -1
		for _, j := range deps[i] {
			from := p.body.Instrs[j]
			switch late := slow(from); {
			case p.ends[from] != nil: // its pieces have their own waits
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
			slot = max(slot, p.pieces-1) // other arrays are copied out when all pieces have arrived, wherever they go
		}
		p.slots = append(p.slots, slot)
	}
	p.shift(deps)
}

// shift moves work that no copied piece waits for after work that one does, and work that needs no piece to where it is used.
// Transposes, whose results take many registers, are made for a few pieces at a time, in the slot before the first of them. Sums over
// lanes take few registers and stay at the start.
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

// away reports whether an instruction starts or awaits a copy to HBM.
func away(in *ir.Instr) bool {
	return (in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait) && in.Args[1].Type.Space == ir.HBM
}

// touched returns the lump that a load or store touches, or nil.
func (p *piecer) touched(in *ir.Instr) *lump {
	switch in.Op {
	case ir.OpLoad:
		return p.lumpOf[in.Args[0]]
	case ir.OpStore:
		return p.lumpOf[in.Args[1]]
	}
	return nil
}

// write lists instructions that need no piece and the starts of all copies in, then the slots, then the waits for all copies out, in
// their order.
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

// again replaces operands that an earlier slot has stored by a load from the buffer, so that they need no register until then.
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

// stored is a value in a buffer that is copied out.
type stored struct {
	store    *ir.Instr
	slot     int
	loaded   *ir.Value // the value loaded again in slot loadedIn
	loadedIn int
}

// drains returns, for each output, the slots after which its pieces are complete; never before the same piece has arrived.
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

// all starts or awaits the copies of all pieces.
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
