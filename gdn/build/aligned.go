package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/schedule"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences by aligned blocks. Blocks of tokens are taken as they lie, whatever sequences share them, so that nothing
// is gathered. A visit is a block with two of its sequences: the one that is open when it begins has the rows before the next
// one's, and both meet their own state in the same products. Tokens lie along the lanes of all of them:
//
//	R = V - [S_A S_B] [K_A K_B]^T D   U = R T^T   O = [S_A S_B] [Q_A Q_B]^T D + U P^T
//	[S_A S_B] <- [e^A S_A  e^B S_B] + U E [K_A K_B]
//
// where K_A is K in the rows of A and zero elsewhere, D the decay from its state to each token and E what is left after it: a row
// of each serves a whole tile. Products with K and Q are one for all value heads of a key head, whose states [V, K] lie one below
// the other; matrix units take weights turned. V and O are turned as words of two heads. Decay across the border is zero,
// so T and P are one for both. S_A is final where a next one starts, which stays open. A block in which more than one
// sequence starts takes a visit for each: later ones have no rows of A, and keep what earlier ones gave for the rows before theirs.
//
// A step takes several visits (chunks of the variant): what needs no state in lockstep, then the visits through the state in
// order. Each writes its block of outputs, when that is complete, and the state that is final, where a table says.

// Marks of the tokens of a visit, rows of an operand in f32.
const (
	markOpen  = iota // 1 in the rows of the open sequence
	markNext         // 1 in the rows of the next one
	markOrder        // 0, 1 and 2: before the next one's rows, in them, and after
	markFresh        // the first row of the visit, throughout
	markEnter        // 1 throughout where there is a next one
	markKeep         // 0 throughout where the state of the next one is dropped: it has no tokens, and final states of such are zero
	marks
)

// rowsOfMarks fills a register.
const rowsOfMarks = 8

// segments is the schedule of packed sequences by aligned blocks.
type segments struct {
	table *ir.Value // i32: the steps, then for each of the columns and each place in a step the entries of the steps
	marks *operand
}

// Columns of the table. -1 stands for none.
const (
	columnBlock  = iota // the block of tokens of a visit
	columnNext          // the sequence that is open at its end
	columnDone          // the block whose output is then complete
	columnClosed        // the sequence whose state is then final
	columnLast          // the same of the state that the step leaves open; in one place
)

// aligning makes the module of packed sequences by aligned blocks.
type aligning struct{ *plan }

// column is the index of an entry: column, place in the step, sequential axis.
func (p aligning) column(column, place int) ir.Index {
	x := ir.IndexTable(2, 0)
	x.Const = 1 + (column*p.v.Chunks+place)*p.steps()
	return x
}

// aligned says whether packed sequences are taken by aligned blocks.
func (p *plan) aligned() bool { return p.v.Pack == gdn.PackAligned }

// steps bounds the steps: of a visit for each sequence and one for each block in which none starts.
func (p aligning) steps() int { return (p.nc + p.s.Seqs + p.v.Chunks - 1) / p.v.Chunks }

// segments makes the schedule. There is a visit for each block, and one more for each sequence that starts in the block of the one
// before it. What is of sequences lies along the lanes of squares by visits, whose sums give what is of visits.
func (p aligning) segments() *segments {
	s, b := p.s, p.b
	n, nb, m, c := s.Seqs, p.nc, p.v.Chunks, p.c
	steps := p.steps()
	visits := steps * m
	i32 := func(shape ...int) ir.Type { return ir.T(ir.I32, shape...) }
	one := func(c *ir.Value) *ir.Value {
		t := i32(c.Type.Shape...)
		return b.Select(c, b.Const(t, 1), b.Const(t, 0))
	}
	plus := func(x *ir.Value, by int) *ir.Value { return b.Add(x, b.Like(x, float64(by))) }
	// over sums x over the sequences whose key is in a relation to that of a row [rows, n].
	over := func(row *ir.Value, cmp ir.Cmp, key, x *ir.Value) *ir.Value {
		hit := b.Compare(cmp, b.Broadcast(key, row.Type.Shape, 1), row)
		return b.Sum(b.Select(hit, b.Broadcast(x, row.Type.Shape, 1), b.Like(row, 0)), 1)
	}

	cu := b.Convert(p.args["cu_seqlens"], ir.I32)
	begin, end := b.SliceAxis(cu, 0, 0, n), b.SliceAxis(cu, 0, 1, n+1)
	home := b.Min(b.Div(begin, b.Like(begin, float64(c))), b.Like(begin, float64(nb-1))) // the block of the first token
	prior := []*ir.Value{b.Const(i32(1), 0)}
	if n > 1 {
		prior = append(prior, b.SliceAxis(home, 0, 0, n-1))
	}
	seq := b.Iota(home.Type, 0)
	gap := b.Sub(home, b.Concat(0, prior...))
	between := b.Max(gap, b.Min(seq, b.Like(seq, 1))) // visits from the one that enters the sequence before
	later := b.Sub(between, gap)                      // 1 where that one starts in the same block
	enter := over(b.Iota(i32(n, n), 0), ir.LE, seq, between)

	// The table, by places and steps. Blocks exist even where cu_seqlens does not ascend.
	order := func(t ir.Type) *ir.Value {
		entry := b.Iota(t, 0)
		visit := b.Scale(entry, float64(m))
		for place := 1; place < m; place++ {
			visit = b.Sub(visit, b.Scale(one(b.Compare(ir.GE, entry, b.Like(entry, float64(place*steps)))), float64(visits-1)))
		}
		return visit
	}
	visit, each := order(i32(visits)), order(i32(visits, n))
	none, zero, tail := b.Like(visit, -1), b.Like(visit, 0), b.Like(visit, float64(nb-1))
	block := b.Sub(visit, over(each, ir.LE, enter, later))
	idle := b.Compare(ir.GT, block, tail) // visits behind the last
	block = b.Max(b.Min(block, tail), zero)
	next := b.Max(plus(over(each, ir.LE, enter, b.Like(enter, 1)), -1), zero) // the sequence entered last
	entered := b.Compare(ir.GT, over(each, ir.EQ, enter, b.Like(enter, 1)), zero)
	closed := b.Select(entered, plus(next, -1), none) // a visit that enters one closes the one before
	stays := b.Compare(ir.GT, over(plus(each, 1), ir.EQ, enter, later), zero)
	done := b.Select(b.Or(idle, stays), none, block)
	extra := b.Sum(b.Reshape(later, 1, n), 1) // no slice: the compiler would take it through main memory
	live := b.Bitcast(plus(extra, nb+m-1), ir.U32)
	live = b.Bitcast(b.Div(live, b.Like(live, float64(m))), ir.I32)
	live = b.Min(live, b.Like(live, float64(steps)))
	step := b.Iota(i32(steps), 0)
	last := b.Compare(ir.EQ, step, b.Broadcast(plus(live, -1), step.Type.Shape, 0))
	last = b.Select(last, b.Like(step, float64(n-1)), b.Like(step, -1))
	columns := []*ir.Value{columnBlock: block, columnNext: next, columnDone: done, columnClosed: closed, columnLast: last}

	// Marks, by visits. One that enters no sequence has its rows behind the last. What is kept would be made anew for each of eight rows.
	visit, each = b.Iota(i32(visits), 0), b.Iota(i32(visits, n), 0)
	entering := func(x *ir.Value) *ir.Value { return over(each, ir.EQ, enter, x) }
	behind := float64(c + 1)
	base := b.Scale(home, float64(c))
	start, stop := b.Sub(begin, base), b.Min(b.Sub(end, base), b.Like(base, float64(c)))
	from := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(start, behind), start)))
	to := b.Sub(b.Like(visit, behind), entering(b.Sub(b.Like(stop, behind), stop)))
	idle = b.Compare(ir.GE, b.Sub(visit, over(each, ir.LE, enter, later)), b.Like(visit, float64(nb)))
	first := b.Select(idle, b.Like(visit, float64(c)), entering(b.Mul(later, start)))
	sq := i32(visits, c)
	spread := func(x *ir.Value) *ir.Value { return b.Keep(b.Broadcast(x, sq.Shape, 0)) }
	from, to, first = spread(from), spread(to), spread(first)
	behindRow := func(x *ir.Value) *ir.Value { return one(b.Compare(ir.GE, b.Iota(sq, 1), x)) }
	atFirst, atFrom, atTo := behindRow(first), behindRow(from), behindRow(to)
	keep := b.Const(sq, 1)
	if s.Empty == gdn.EmptyZero {
		keep = one(b.Compare(ir.GT, to, from))
	}
	tall := ir.T(ir.F32, visits, rowsOfMarks, c)
	which := b.Iota(ir.T(ir.I32, tall.Shape...), 1)
	all := b.Const(tall, 0)
	for i, x := range [marks]*ir.Value{
		markOpen: b.Sub(atFirst, atFrom), markNext: b.Sub(atFrom, atTo), markOrder: b.Add(atFrom, atTo),
		markFresh: first, markEnter: one(b.Compare(ir.LT, from, b.Like(from, behind))), markKeep: keep,
	} {
		x = b.Keep(b.Convert(x, ir.F32))
		all = b.Select(b.Compare(ir.EQ, which, b.Like(which, float64(i))), b.Broadcast(x, tall.Shape, 0, 2), all)
	}
	return &segments{table: b.Concat(0, append([]*ir.Value{live}, columns...)...),
		marks: &operand{value: all, axes: []axis{axisStep, axisNone, axisNone}, block: []int{m, rowsOfMarks, c}}}
}

// module emits the glue and the grid over aligned blocks.
func (p aligning) module(in *operands, used []*operand) []*ir.Value {
	s, v, b := p.s, p.v, p.b
	m := v.Chunks
	g := p.segments()
	state := p.specStates()
	heads := p.s.HeadsV
	dims := []ir.GridDim{{Name: "b", Size: 1}, {Name: "h", Size: s.HeadsK / p.kb}, {Name: "c", Size: p.steps(), Seq: true}}
	window := func(o *operand, column, place int) ir.Window {
		w := ir.Window{Block: o.block}
		for _, a := range o.axes {
			x := ir.IndexConst(0)
			switch a {
			case axisHead:
				x = ir.IndexAxis(1)
			case axisStep:
				x = ir.IndexAxis(2)
			case axisChunk, axisSeq:
				x = p.column(column, place)
			}
			w.Index = append(w.Index, x)
		}
		return w
	}
	grid := &ir.Grid{Name: "packed", Dims: dims, Tables: 1, Main: v.Main}
	*p.carriers = append(*p.carriers, schedule.Carrier{Grid: grid.Name, Heads: v.Heads * v.Batch * v.Chunks})
	if p.ordered {
		grid.Live = 1
	}
	args := []*ir.Value{g.table}
	// One window for both gates: control of a step costs by the window.
	gates := &operand{value: b.Concat(3, in.g.value, in.beta.value), axes: in.g.axes, block: slices.Clone(in.g.block)}
	gates.block[3] *= 2
	used = slices.DeleteFunc(slices.Clone(used), func(o *operand) bool { return o == in.g || o == in.beta })
	used = append(used, gates, g.marks)
	if s.Init {
		used = append(used, state)
	}
	count := func(o *operand) int {
		for _, a := range o.axes {
			if a == axisChunk || a == axisSeq {
				return m
			}
		}
		return 1
	}
	for _, o := range used {
		for j := range count(o) {
			column := columnBlock
			if o == state {
				column = columnNext
			}
			grid.In = append(grid.In, window(o, column, j))
			args = append(args, o.value)
		}
	}
	if s.InPlace && p.ordered && v.Fetch == gdn.FetchCopies {
		// A state is fetched before the step that closes its sequence, from one operand for all visits.
		grid.Alias = [][2]int{{1, len(grid.In) - m}}
	}
	// What is carried: the state of the open sequence, and the output of the block.
	open := ir.Window{Block: []int{1, heads, s.V, s.K}, Index: slices.Repeat([]ir.Index{ir.IndexConst(0)}, 4)}
	// Not the output's own block, whose copy to main memory would have to end with the step.
	held := ir.Window{Block: in.v.block[1:], Index: slices.Repeat([]ir.Index{ir.IndexConst(0)}, len(in.v.block)-1)}
	grid.Carry = []ir.Window{open, held}
	args = append(args, b.Const(ir.T(ir.F32, open.Block...), 0), b.Const(ir.T(s.Out, held.Block...), 0))
	rs := b.Grid(grid, args, func(b *ir.Builder, blocks, carried []*ir.Value) (ys, next []*ir.Value) {
		e := newChunkwise(newTiles(p.plan, b, in))
		slots := map[*operand][]*ir.Value{}
		i := 0
		for _, o := range used {
			n := count(o)
			e.blocks[o], slots[o] = blocks[i], blocks[i:i+n]
			i += n
		}
		e.state = b.Reshape(carried[0], heads, s.V, s.K)
		r := e.aligned(g.marks, gates, state, slots, carried[1])
		final := &operand{axes: state.axes, block: state.block, dtype: s.StateDType, shape: state.value.Type.Shape}
		out := func(array int, o blockOut, column, place int) {
			ys = append(ys, o.block)
			grid.Out = append(grid.Out, window(o.operand, column, place))
			grid.Outs = append(grid.Outs, ir.T(o.operand.dtype, o.operand.shape...))
			grid.Into = append(grid.Into, array)
		}
		for j, step := range r {
			out(0, step.output, columnDone, j)
			out(1, blockOut{step.closed, final}, columnClosed, j)
		}
		out(1, blockOut{e.asSpec(r[m-1].open, state), final}, columnLast, 0)
		return ys, []*ir.Value{b.Reshape(r[m-1].open, open.Block...), b.Reshape(r[m-1].output.block, held.Block...)}
	})
	b.Stage("glue")
	o := in.v
	results := []*ir.Value{p.tokensOut(in, &operand{value: rs[0], axes: o.axes, block: o.block}, s.HeadsV)}
	if s.Final {
		results = append(results, rs[1])
	}
	return results
}

// specStates describes the states of the sequences to the grid over aligned blocks, as the spec has them.
func (p aligning) specStates() *operand {
	s := p.s
	t := s.StateType()
	o := &operand{axes: []axis{axisSeq, axisNone, axisNone, axisNone}, block: append([]int{1}, t.Shape[1:]...), dtype: t.DType, shape: t.Shape}
	if s.Init {
		o.value = p.args["initial_state"]
	} else {
		o.value = &ir.Value{Type: t}
	}
	return o
}

// visit is what a visit gives: the output, and the states of the sequence that was open, as the spec has it, and of the one that
// is open now.
type visit struct {
	output blockOut
	closed *ir.Value // a state as the spec has it
	open   *ir.Value // a state [heads, V, K]
}

// ofOne is e for one visit.
func (e *chunkwise) ofOne() *chunkwise {
	p, t, one := *e.plan, *e.tiles, *e
	p.v.Chunks = 1
	t.plan, one.tiles = &p, &t
	return &one
}

// each loads what the visits of a step have of an operand, side by side.
func (e *chunkwise) each(blocks []*ir.Value, o *operand, load func(*chunkwise, *operand) *ir.Value) *ir.Value {
	var l []*ir.Value
	for _, x := range blocks {
		one := e.ofOne()
		one.blocks = map[*operand]*ir.Value{o: x}
		l = append(l, load(one, o))
	}
	return e.b.Concat(0, l...)
}

// aligned does the visits of a step; slots are what each has of an operand, held the output of the first block by earlier steps.
func (e *chunkwise) aligned(marked, gates, state *operand, slots map[*operand][]*ir.Value, held *ir.Value) []visit {
	b, s, c := e.b.Stage("gates"), e.s, e.c
	n, m := e.v.Heads, e.v.Chunks
	var tiles []*ir.Value
	for j := range m {
		tiles = append(tiles, b.SliceAxis(b.Reshape(e.blocks[marked], m*rowsOfMarks, c), 0, j*rowsOfMarks, (j+1)*rowsOfMarks))
	}
	mark := func(i, heads int) *ir.Value {
		var l []*ir.Value
		for _, tile := range tiles {
			l = append(l, b.Broadcast(b.SliceAxis(tile, 0, i, i+1), []int{heads, c}, 0, 1))
		}
		return b.Concat(0, l...)
	}
	var sides []*side
	for _, i := range []int{markOpen, markNext} {
		sides = append(sides, &side{mark: mark(i, n), keys: mark(i, n/e.gb)})
	}

	w := &work{q: e.each(slots[e.in.q], e.in.q, (*chunkwise).productKey), k: e.each(slots[e.in.k], e.in.k, (*chunkwise).productKey)}
	w.v = b.Convert(e.each(slots[e.in.v], e.in.v, (*chunkwise).loadRows), ir.F32)
	b.Stage("gates")
	for i, o := range []*operand{e.in.g, e.in.beta} {
		var l []*ir.Value
		for _, x := range slots[gates] {
			l = append(l, b.SliceAxis(b.Reshape(x, 2*n, c), 0, i*n, (i+1)*n))
		}
		e.blocks[o] = b.Concat(0, l...)
	}
	w.gates = e.loadGates()
	w.beta = b.Mul(w.beta, b.Add(sides[0].mark, sides[1].mark))
	for _, x := range sides {
		x.g = b.Mul(w.g, x.mark)
		e.sums(&x.gates)
	}
	w.sum = b.Add(sides[0].sum, sides[1].sum)
	border := b.Scale(mark(markOrder, n), -border)
	if w.parts = []*ir.Value{w.sum, border}; e.v.Decay == gdn.DecayBase2 {
		w.parts = []*ir.Value{b.Add(w.sum, border)}
	}
	kk, qk := e.products(w.q, w.k)
	negKK := e.negated(w, kk)
	negA, p := e.weights(negKK, qk, e.decay(w.gates), w.gates)
	w.p, w.t = p, e.invert(negA)

	b.Stage("operands")
	for _, x := range sides {
		x.operands(e, w)
	}
	grown, rest := b.Add(sides[0].grown, sides[1].grown), b.Add(sides[0].rest, sides[1].rest)
	values := b.Transpose(w.v, 0, 2, 1)
	unit, share := e.normRow(w.inverse), e.normRow(w.query)
	var steps []visit
	var prev *ir.Value // the output of the visit before, as values
	for j := range m {
		at := func(x *ir.Value) *ir.Value { return e.ofChunk(x, j) }
		b.Stage("enter")
		cur := []*side{{state: e.state}, {}}
		for i, x := range sides {
			cur[i].k, cur[i].q, cur[i].sum = at(x.k), at(x.q), at(x.sum)
		}
		if s.Init {
			x := b.Convert(b.Reshape(slots[state][j], state.block[1:]...), ir.F32)
			if s.State != gdn.StateVK {
				x = b.Transpose(x, 0, 2, 1)
			}
			cur[1].state = x
		}

		b.At(ir.Task{Stage: "state", Chunk: j, Head: -1})
		var keys, queries, states []*ir.Value
		for _, x := range cur {
			if x.state != nil {
				keys, queries, states = append(keys, x.k), append(queries, x.q), append(states, e.store(x.state))
			}
		}
		met := e.dot(e.sideBySide(e.concat(2, states...)), e.concat(1, e.concat(2, keys...), e.concat(2, queries...)), false, true, e.v.PrecState)
		met = b.Reshape(met, n, s.V, 2*c)
		decay := at(grown)
		r := b.Sub(at(values), e.by(b.Mul(b.SliceAxis(met, 2, 0, c), e.row(decay, s.V)), at(unit)))
		if e.v.Beta == gdn.BetaLeft {
			r = b.Mul(r, e.row(at(w.beta), s.V))
		}
		r = e.store(r)
		exact := e.by(e.applied(at(w.t), r, true), at(unit))
		u := e.store(exact)
		o := b.Add(b.Mul(b.SliceAxis(met, 2, c, 2*c), e.row(e.scaled(decay), s.V)), e.dot(u, at(w.p), false, true, e.v.PrecIntra))
		left := e.store(e.byLanes(exact, at(rest)))
		added := e.dot(e.sideBySide(left), e.concat(2, cur[0].k, cur[1].k), false, false, e.v.PrecState)
		added = b.Reshape(added, n, s.V, 2*s.K)
		for i, x := range cur {
			x.after = b.SliceAxis(added, 2, i*s.K, (i+1)*s.K)
			if x.state != nil {
				grown := e.exp(x.sum)
				if i == 1 {
					grown = b.Mul(grown, at(mark(markKeep, n)))
				}
				x.after = b.Add(b.Mul(x.state, e.scalar(grown, c-1, s.V, s.K)), x.after)
			}
		}
		splat := func(i, rows, lanes int) *ir.Value { // what a mark is throughout
			x := b.Slice(tiles[j], []int{i, 0}, []int{i + 1, 1})
			return b.Broadcast(b.Reshape(x, 1, 1), []int{rows, lanes}, 0, 1)
		}
		entered := e.over(n, b.Compare(ir.GT, splat(markEnter, s.V, s.K), b.Const(ir.T(ir.F32, s.V, s.K), .5)))
		step := visit{closed: cur[0].after, open: b.Select(entered, cur[1].after, cur[0].after)}
		e.state = step.open

		o = b.Transpose(e.leaving(o, at(share)), 0, 2, 1)
		fresh := e.over(n, b.Compare(ir.GE, b.Convert(e.iota(c, s.V, 0), ir.F32), splat(markFresh, c, s.V)))
		if prev == nil {
			prev = e.each([]*ir.Value{held}, e.in.v, (*chunkwise).loadRows)
		}
		o = b.Select(fresh, o, b.Convert(prev, ir.F32))
		prev = b.Convert(o, s.Out)
		step.output = e.ofOne().output([]*ir.Value{o})
		step.closed = e.asSpec(step.closed, state)
		steps = append(steps, step)
	}
	return steps
}

// asSpec brings a state [N, V, K] into the order and type of the spec.
func (e *chunkwise) asSpec(x *ir.Value, like *operand) *ir.Value {
	if e.s.State != gdn.StateVK {
		x = e.b.Transpose(x, 0, 2, 1)
	}
	return e.b.Reshape(e.b.Convert(x, e.s.StateDType), like.block...)
}

// border is a decay across the border of two sequences, of whose exponential to base 2 or e nothing is left, twice over.
const border = 100

// side is one of the two sequences of a visit: what is of its rows alone.
type side struct {
	mark, keys *ir.Value // 1 in its rows, of value heads [N, C] and of key heads
	gates
	q, k         *ir.Value // of key heads, zero in other rows
	grown, rest  *ir.Value // [N, C], by which the state meets its rows, and by which U adds to it
	state, after *ir.Value // nil: zeros
}

func (x *side) operands(e *chunkwise, w *work) {
	b := e.b
	x.k, x.q = e.store(e.byRows(w.k, x.keys)), e.store(e.byRows(w.q, x.keys))
	x.grown = b.Mul(e.exp(x.sum), x.mark)
	if x.rest = b.Mul(e.exp(x.left), x.mark); e.v.Beta != gdn.BetaLeft {
		x.rest = b.Mul(x.rest, w.beta)
	}
}

// normRow is a norm [N of key heads, C] for each value head, in all rows [N, V, C]; nil of nil.
func (e *chunkwise) normRow(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	return e.perValue(e.row(x, e.s.V))
}
