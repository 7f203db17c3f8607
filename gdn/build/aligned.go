package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Packed sequences by aligned blocks: blocks of tokens are read in place, so nothing is gathered. A visit processes a block for two of its sequences. The
// sequence open at its start has the rows before the next sequence's first, and both use their own state in the same products (chunkwise.Chunks.Visit has
// the algebra). The open sequence's state is final where the next one starts, which then is open. If more than one sequence starts in a block, it gets a
// visit for each: later visits have no rows of the first sequence, and keep the outputs of earlier visits for the rows before theirs.
//
// Programs take some of the value heads each and share one table: only the heads of their windows and carries differ.
//
// Block, sequences and rows of a visit are known only at run time. internal/segments makes tables and marks from
// cu_seqlens, which select windows and mask rows. Example: three sequences in two blocks, of which b begins in the first
// and c where the second begins, in steps of two visits:
//
//	visit   block   open  next   output written to   state written to
//	0       0       -     a      none: not complete  none
//	1       0       a     b      block 0             a
//	2       1       b     c      block 1             b
//	3       idle    c     -      none                c, as the last of the step
//
// A step takes several visits (chunks of the variant): their work without the state interleaved, then the visits through the state in
// order. Each writes its output block when it is complete, and the state that became final, where a table says.

// aligning builds the module of packed sequences by aligned blocks.
type aligning struct{ *plan }

// aligned reports whether packed sequences use aligned blocks. This is a form for kernels: windows by tables, and a grid that loads and stores states at
// any step.
func (p *plan) aligned() bool { return p.v.Mapping.Pack == gdn.PackAligned }

// schedule returns the schedule of the visits. The numbers of sequences and blocks bound its steps, since the lengths are known only at run time.
func (p aligning) schedule() segments.Schedule {
	x := segments.Schedule{Sequences: p.s.Seqs, Blocks: p.nc, Chunk: p.c, Places: p.v.Mapping.Chunks, Drop: p.s.Empty == gdn.EmptyZero, Kernel: p.ready != nil}
	if p.prompts {
		x.Spare, x.Began, x.Skip = p.s.Tokens+p.front(), cachesWithin(p.plan), p.front() > 0
	}
	return x
}

// module emits the grid over aligned blocks and the XLA ops around it.
//
// An operand placed by a table has a window on one array for each visit of a step (windows), since blocks of a step need not be neighbours. Each visit also
// has windows on the one array of outputs and the one of states; it writes where the table says, and nothing for -1. Steps after the last visit are
// idle, and a kernel skips them (Live).
func (p aligning) module(in *operands, used []*operand) []*ir.Value {
	s, v, b := p.s, p.v, p.b
	m := v.Mapping.Chunks
	plan := p.schedule()
	segmented := p.segments()
	marks := &operand{value: segmented.marks, axes: []axis{axisStep, axisNone, axisNone}, block: []int{m, segments.Rows, p.c}}
	state := p.specStates()
	dims := []ir.GridDim{{Name: "b", Size: 1}, {Name: "h", Size: s.HeadsK / p.kb}, {Name: "c", Size: plan.Steps(), Seq: true}}
	// The table is the first argument. Its first entry is the number of live steps; the rest is ordered by columns and places (segments.Schedule.Entry).
	grid := &ir.Grid{Name: "packed", Dims: dims, Main: v.Forward.HBM}
	carrier := schedule.Carrier{Grid: grid.Name, Heads: v.Mapping.Heads * v.Mapping.Batch * v.Mapping.Chunks}
	args := segmented.steps(grid)
	if !p.ordered {
		grid.Live = 0
	}
	used, gates := p.reads(in, used, marks)
	if s.Init {
		used = append(used, state)
	}
	cached := 0 // the first window on caches
	for _, o := range used {
		if o == in.cache {
			cached = len(grid.In)
		}
		for j := range p.windows(o) {
			column := segments.Block
			switch o {
			case state:
				column, carrier.Enter = segments.Next, append(carrier.Enter, len(grid.In))
			case in.cache:
				column = segments.Next
			}
			grid.In = append(grid.In, p.window(o, column, j))
			args = append(args, o.value)
		}
	}
	*p.carriers = append(*p.carriers, carrier)
	if s.Pool > 0 || s.InPlace && fetches(p.plan) {
		// A state is fetched before the step that closes its sequence, from one operand for all visits. Pool states without a sequence keep their values.
		grid.Alias = [][2]int{{1, len(grid.In) - m}}
	}
	args = bounded(grid, append(args, p.carries(grid, in)...), segmented.live)
	writes := cachesWithin(p.plan)
	if writes {
		grid.Alias = append(grid.Alias, [2]int{2, cached})
	}
	open, held := grid.Carry[0], grid.Carry[1]
	rs := b.Grid(grid, args, func(b *ir.Builder, blocks, carried []*ir.Value) (ys, next []*ir.Value) {
		e := newChunks(newTiles(p.plan, b, in))
		slots := p.slots(e, in, used, blocks)
		var conv *continued
		if in.cache != nil {
			conv = newContinued(e, slots[in.cache], carried[2:])
		}
		e.rule.State = b.Reshape(carried[0], open.Block[1:]...)
		e.cutScales() // ahead of all else: where loadGates asks for them tpu7x takes .2 % longer
		r := e.aligned(marks, gates, state, slots, carried[1], conv)
		final := &operand{axes: state.axes, block: state.block, dtype: s.StateDType, shape: state.value.Type.Shape}
		out := func(array int, o blockOut, column, place int) {
			ys = append(ys, o.block)
			grid.Out = append(grid.Out, p.window(o.operand, column, place))
			grid.Outs = append(grid.Outs, ir.T(o.operand.dtype, o.operand.shape...))
			grid.Into = append(grid.Into, array)
		}
		// In the order of the visits: if two write to one block, the last write counts. Only the last step writes the state that stays open.
		for j, step := range r {
			out(0, step.output, segments.Done, j)
			out(1, blockOut{step.closed, final}, segments.Closed, j)
		}
		out(1, blockOut{e.asSpec(r[m-1].open, state), final}, segments.Last, 0)
		next = []*ir.Value{b.Reshape(r[m-1].open, open.Block...), b.Reshape(r[m-1].output.block, held.Block...)}
		if conv != nil {
			next = append(next, conv.carry()...)
		}
		if writes {
			closed, last := conv.left()
			for j, x := range closed {
				out(2, blockOut{x, in.cache}, segments.Closed, j)
			}
			out(2, blockOut{last, in.cache}, segments.Last, 0)
		}
		return ys, next
	})
	if writes {
		p.caches = append(p.caches, rs[2])
	}
	b.Stage("glue")
	o := in.v
	results := []*ir.Value{p.tokensOut(in, &operand{value: rs[0], axes: o.axes, block: o.block}, s.HeadsV)}
	if s.Final {
		results = append(results, rs[1])
	}
	return results
}

// reads returns the operands that steps read, without states, and the one or two that are gates.
func (p aligning) reads(in *operands, used []*operand, marks *operand) (all, gates []*operand) {
	used = slices.DeleteFunc(slices.Clone(used), func(o *operand) bool {
		return o == in.g || o == in.beta || in.whole != nil && (o == in.q || o == in.k || o == in.v)
	})
	used = append(given(in.whole), used...)
	gates = []*operand{in.g, in.beta}
	if !fetchesGates(p.plan) {
		// One window for both gates, [.., 2 N, C] with g in the first half of the rows: a step's control costs grow with windows.
		both := &operand{value: p.b.Concat(3, in.g.value, in.beta.value).Called("gates"), axes: in.g.axes, block: slices.Clone(in.g.block)}
		both.block[3] *= 2
		gates = []*operand{both}
	}
	used = append(append(used, gates...), marks)
	if o := in.scales; o != nil { // after gates and marks
		used = append(slices.DeleteFunc(used, func(x *operand) bool { return x == o }), o)
	}
	return append(used, given(in.cache, in.ahead)...), gates
}

// carries adds the windows of what steps carry, and returns the first values: the state of the open sequence, the output of the block, and where the kernel
// convolves the rows before the block, and the cache of the sequence that began last if it writes caches.
func (p aligning) carries(grid *ir.Grid, in *operands) []*ir.Value {
	b, s := p.b, p.s
	open, opens := p.carry([]int{1, p.v.Mapping.Heads, s.V, s.K}, []axis{axisNone, axisHead, axisNone, axisNone})
	// This is not the output's own block, whose write-back would have to end with the step.
	held, holds := p.carry(in.v.block[1:], in.v.axes[1:])
	grid.Carry = []ir.Window{open, held}
	args := []*ir.Value{b.Const(ir.T(ir.F32, opens...), 0), b.Const(ir.T(s.Out, holds...), 0)}
	rows := 0
	if in.cache != nil {
		rows++
	}
	if cachesWithin(p.plan) {
		rows++
	}
	for range rows {
		w, shape := p.carry([]int{1, target.Sublanes, s.ConvChannels()}, make([]axis, 3))
		grid.Carry, args = append(grid.Carry, w), append(args, b.Const(ir.T(ir.F32, shape...), 0))
	}
	return args
}

// slots are the blocks of each operand, one a visit, or one alone; q, k and v are lanes of the array that has all three, where the kernel reads that.
func (p aligning) slots(e *chunks, in *operands, used []*operand, blocks []*ir.Value) map[*operand][]*ir.Value {
	slots := map[*operand][]*ir.Value{}
	for _, o := range used {
		n := p.windows(o)
		e.blocks[o], slots[o], blocks = blocks[0], blocks[:n], blocks[n:]
	}
	if in.whole != nil {
		for _, o := range []*operand{in.q, in.k, in.v} {
			for _, x := range slots[in.whole] {
				slots[o] = append(slots[o], e.b.SliceAxis(x, 2, o.conv.first, o.conv.first+o.block[2]))
			}
		}
	}
	return slots
}

// segments are the table and the marks of the visits.
func (p aligning) segments() scheduled {
	if p.ready != nil {
		return p.ready.packed
	}
	var slots *segments.Slots
	if p.s.Pool > 0 {
		slots = p.pool().Slots(segments.Lists{Builder: p.b})
	}
	begin, end := p.sequences()
	table, marked := p.schedule().Make(p.b, begin, end, slots)
	return scheduled{table: table, marks: marked}
}

// window returns the window of an operand for the visit at a place of its step. It moves by heads and steps as usual, and by blocks or sequences as a
// column of the table says.
func (p aligning) window(o *operand, column, place int) ir.Window {
	w := ir.Window{Block: o.block}
	for _, a := range o.axes {
		x := ir.IndexConst(0)
		switch a {
		case axisHead:
			x = ir.IndexAxis(1)
		case axisStep:
			x = ir.IndexAxis(2)
		case axisChunk, axisSeq:
			x = p.schedule().Entry(column, place)
		}
		w.Index = append(w.Index, x)
	}
	return w
}

// carry returns the window of a value that each program carries, one block per program of heads, and the array's shape.
func (p aligning) carry(block []int, axes []axis) (w ir.Window, shape []int) {
	w, shape = ir.Window{Block: block}, slices.Clone(block)
	for d, a := range axes {
		x := ir.IndexConst(0)
		if a == axisHead {
			x, shape[d] = ir.IndexAxis(1), block[d]*p.s.HeadsV/p.v.Mapping.Heads
		}
		w.Index = append(w.Index, x)
	}
	return w, shape
}

// fetchesGates reports whether the kernel copies raw gates from the caller's arrays. For eight heads in bf16, a block of 128 tokens is one tile in
// memory, a copy of 2 KiB. Otherwise the compiler concatenates both in float32 in vector memory, which takes 900 cycles on v6e before the kernel, and a copy
// from there is a loop of loads and stores.
func fetchesGates(p *plan) bool {
	f, s := p.v.Forward, p.s
	return p.aligned() && fetches(p) && f.HBM && s.Gates == gdn.GatesFused && p.v.Fuse == gdn.PlaceKernel &&
		s.GateDType == ir.BF16 && s.HeadsV == target.Sublanes && p.v.Mapping.Heads == s.HeadsV && p.c == target.Lanes && s.Tokens%p.c == 0
}

// fetches reports whether the kernel copies its blocks itself.
func fetches(p *plan) bool { return p.ordered && p.v.Forward.Prefetch == gdn.PrefetchDMA }

// windows returns the number of windows of an operand in a step: one per visit if a table places it; one for marks, which are stored by steps.
func (p aligning) windows(o *operand) int {
	if slices.Contains(o.axes, axisChunk) || slices.Contains(o.axes, axisSeq) {
		return p.v.Mapping.Chunks
	}
	return 1
}

// specStates describes the states of the sequences in the spec's layout. Each is read when its sequence begins and written when it ends, so transposing all
// of them before the kernel would double their traffic. Without initial states it has a type but no value, since only the layout of the written states
// is needed.
func (p aligning) specStates() *operand {
	s := p.s
	t := s.StateType()
	o := &operand{axes: []axis{axisSeq, axisHead, axisNone, axisNone}, block: append([]int{1, p.v.Mapping.Heads}, t.Shape[2:]...), dtype: t.DType, shape: t.Shape}
	if s.Init {
		o.value = p.args["initial_state"]
	} else {
		o.value = &ir.Value{Type: t}
	}
	return o
}

// segment is the result of a visit: the output, and the states of the sequence that was open and of the one that
// is open now. The table knows whether the closed state is final and the block complete; otherwise they are not written.
type segment struct {
	output blockOut
	closed *ir.Value // a state in the spec's layout
	open   *ir.Value // a state [heads, V, K]
}

// ofOne returns e as if a step had one visit, since loads and outputs of tokens depend on the chunks of a window.
func (e *tiles) ofOne() *tiles {
	p, t := *e.plan, *e
	p.v.Mapping.Chunks = 1
	t.plan, t.slots, t.held = &p, nil, nil
	return &t
}

// each loads an operand for all visits of a step and concatenates the results.
func (e *gated) each(blocks []*ir.Value, o *operand, load func(*gated, *operand) *ir.Value) *ir.Value {
	var l []*ir.Value
	for j, x := range blocks {
		one := newGated(e.ofOne())
		one.segment = j
		one.blocks = map[*operand]*ir.Value{o: x}
		l = append(l, load(one, o))
	}
	return e.b.Concat(0, l...)
}

// aligned computes the visits of a step. slots are the blocks of each operand by visit; held is the output of the first visit's block from earlier steps.
//
// Rows before the first of a visit are those of visits before it of the same block, whose output they keep: of the visit before in the step, or where it is
// the first of its step, of what the last step carried (held). A visit of a new block has all rows from 0 on, and keeps none.
func (e *chunks) aligned(marked *operand, gates []*operand, state *operand, slots map[*operand][]*ir.Value, held *ir.Value, conv *continued) []segment {
	b, c, n := e.b.Stage("gates"), e.c, e.v.Mapping.Heads
	e.Segments = &segments.Marks{Builder: e.b, Pool: e.s.Pool > 0, Began: cachesWithin(e.plan)}
	for j := range e.v.Mapping.Chunks {
		e.Segments.Tiles = append(e.Segments.Tiles, b.SliceAxis(b.Reshape(e.blocks[marked], e.v.Mapping.Chunks*segments.Rows, c), 0, j*segments.Rows, (j+1)*segments.Rows))
	}
	e.conv = conv
	w := &chunkwise.Work{Q: e.each(slots[e.in.q], e.in.q, (*gated).productKey), K: e.each(slots[e.in.k], e.in.k, (*gated).productKey)}
	rows := func(e *gated, o *operand) *ir.Value { return e.loadRows(o) }
	if conv != nil {
		w.V = e.each(slots[e.in.v], e.in.v, func(e *gated, o *operand) *ir.Value { return e.loadTokens(o) })
		e.Squared[w.Q], e.Squared[w.K] = b.Concat(0, conv.square[e.in.q.conv]...), b.Concat(0, conv.square[e.in.k.conv]...)
	} else {
		w.V = b.Convert(e.each(slots[e.in.v], e.in.v, rows), ir.F32)
	}
	b.Stage("gates")
	for i, o := range []*operand{e.in.g, e.in.beta} {
		var l []*ir.Value
		if len(gates) > 1 {
			for _, x := range slots[o] {
				l = append(l, b.Convert(b.Reshape(x, n, c), ir.F32))
			}
		} else {
			for _, x := range slots[gates[0]] {
				l = append(l, b.SliceAxis(b.Reshape(x, 2*n, c), 0, i*n, (i+1)*n))
			}
		}
		e.blocks[o] = b.Concat(0, l...).Called([...]string{"g", "beta"}[i])
	}
	w.Gates = e.loadGates()
	m := e.rule.Meet(w, e.in.raw && !e.s.NegEigval) // raw gates give log decays of at most 0, and beta by a sigmoid
	if e.s.Init {
		m.Next = func(j int) *ir.Value {
			x := b.Convert(b.Reshape(slots[state][j], state.block[1:]...), ir.F32)
			if e.s.Read {
				fresh := e.Segments.At(j, segments.Fresh, state.block[2], state.block[3])
				x = b.Select(e.Over(n, b.Compare(ir.GT, fresh, b.Like(fresh, 0))), b.Like(x, 0), x)
			}
			if e.s.State != gdn.StateVK {
				x = b.Transpose(x, 0, 2, 1).Called("next_state")
			}
			return x
		}
	}
	var steps []segment
	var prev *ir.Value // the output of the previous visit
	for j := range e.v.Mapping.Chunks {
		o, closed := e.rule.Segment(m, j)
		fresh := e.Over(n, b.Compare(ir.GE, e.Iota(c, e.s.V, 0), e.Segments.At(j, segments.First, c, e.s.V)))
		if prev == nil {
			prev = e.each([]*ir.Value{held}, e.in.v, rows)
		}
		o = b.Select(fresh, o, b.Convert(prev, ir.F32)).Called("held_o")
		o = e.ahead(o, j)
		prev = b.Convert(o, e.s.Out)
		steps = append(steps, segment{output: e.ofOne().output([]*ir.Value{o}), closed: e.asSpec(closed, state), open: e.rule.State})
	}
	return steps
}

// ahead returns the outputs [heads, C, V] of a visit with the outputs of a mixed batch's decodes in the first rows.
func (e *chunks) ahead(o *ir.Value, visit int) *ir.Value {
	x := e.in.ahead
	if x == nil {
		return o
	}
	b, v, rows := e.b, e.s.V, x.block[1]
	var heads []*ir.Value
	for from := 0; from < x.block[2]; from += v {
		heads = append(heads, b.Convert(b.SliceAxis(e.blocks[x], 2, from, from+v), ir.F32))
	}
	own := b.Compare(ir.LT, e.Iota(rows, v, 0), e.Segments.At(visit, segments.Given, rows, v))
	first := b.Select(e.Over(len(heads), own), b.Concat(0, heads...), b.SliceAxis(o, 1, 0, rows))
	if rows == e.c {
		return first
	}
	return b.Concat(1, first, b.SliceAxis(o, 1, rows, e.c))
}

// asSpec brings a state [N, V, K] into the order and type of the spec, in the block of an output. A kernel transposes the few states that begin or end in a step;
// XLA ops would transpose all of them, through HBM.
func (e *chunks) asSpec(x *ir.Value, like *operand) *ir.Value {
	if e.s.State != gdn.StateVK {
		x = e.b.Transpose(x, 0, 2, 1)
	}
	return e.b.Reshape(e.b.Convert(x, e.s.StateDType), like.block...)
}
