package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/packs"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences as a stream of chunks, for CPUs and GPUs. A chunk begins at its sequence's start, or
// after the previous chunk: its tokens are a slice of the arrays in place, so that nothing is
// gathered, padded or copied. A step reads its sequence's state, which stays in the order of the spec,
// takes a chunk, and writes the state back. Rows of a slice outside of the chunk have beta and g zero,
// so that they do not change the state, and their outputs are not written.
//
// Sequences are independent, so with batch=M a step takes chunks of M of them, interleaved: fewer and
// larger ops. They run in rounds of M of similar length, the shortest first. A
// round ends when more than a quarter of its places would idle (packs.Rounds). The rest of all
// sequences follows chunk by chunk, so that one long prompt costs as much as it does
// alone.
//
// Three sequences of 9, 2 and 5 tokens in chunks of 4, batch=1, 16 tokens in all:
//
//	step    0      1      2    3      4      5
//	chunk   a0..3  a4..7  a8   b0 b1  c0..3  c4
//	slice   0..3   4..7   8..  9..    11..   12..    c4 is the last row of its slice
//
// The slice of step 2 also has b0, b1 and c0, which are masked.

// streamed reports whether packed sequences are a stream of chunks.
func (p *plan) streamed() bool { return p.v.Mapping.Pack == gdn.PackStream }

// streaming builds the module of streamed packed sequences.
type streaming struct{ *plan }

// rowCount returns the number of tokens, at least enough that a slice of the first chunk is inside the arrays.
func (p streaming) rowCount() int { return p.packs().Rows() }

// streams returns the schedules in order: with batch=1 all chunks one by one; else rounds, and then the rest of each sequence, from
// the first token that rounds did not take.
func (p streaming) streams() []*packs.Steps {
	b := p.b
	begin, end := p.sequences()
	if p.s.Pool > 0 { // sequences without a state are skipped
		end = b.Select(p.pool().Held(b), end, begin)
	}
	if p.v.Mapping.Batch == 1 {
		return []*packs.Steps{p.packs().OneByOne(begin, end, p.v.Mapping.Chunks)}
	}
	rounds, taken := p.packs().Rounds(begin, end, p.v.Mapping.Batch)
	begin = b.Add(begin, b.Mul(taken, b.Like(taken, float64(p.c))))
	return []*packs.Steps{rounds, p.packs().OneByOne(begin, b.Max(begin, end), p.v.Mapping.Chunks)}
}

// module emits a loop per schedule. Each loop carries the states of all sequences and the outputs of all tokens; a step changes parts of both.
func (p streaming) module() []*ir.Value {
	s, b := p.s, p.b
	p.convolve()
	b.Stage("glue")
	q, k := p.args["q"], p.args["k"]
	if s.L2Norm {
		q, k = gate.NormRows(b, q), gate.NormRows(b, k)
	}
	g, beta := p.xlaGates()
	all := p.streams()
	w := p.gatesOf(all, g, beta)
	arrays := []*ir.Value{q, k, p.args["v"]}
	for i, x := range arrays {
		if !s.Packed { // a batch of one row
			x = b.Reshape(x, x.Type.Shape[1:]...)
			arrays[i] = x
		}
		if n := p.rowCount() - s.Tokens; n > 0 {
			lo, hi := make([]int, x.Type.Rank()), make([]int, x.Type.Rank())
			hi[0] = n
			arrays[i] = b.Pad(x, 0, lo, hi)
		}
	}
	states := p.states()
	o := b.Const(ir.T(s.Out, p.rowCount(), s.HeadsV, s.V), 0)
	for _, t := range all {
		states, o = p.loop(t, arrays, w, states, o)
	}
	b.Stage("glue")
	if b.Err() != nil {
		return nil
	}
	results := []*ir.Value{b.Reshape(b.SliceAxis(o, 0, 0, s.Tokens), s.Outputs()[0].Type.Shape...)}
	if s.Final {
		x := b.Convert(states, s.StateDType)
		if s.Pool > 0 {
			x = p.pool().Into(b, p.args["initial_state"], x)
		}
		results = append(results, x)
	}
	return results
}

// gatesOf returns the gates and sums of the chunks of all schedules, computed before the loops, since they are small and
// steps then have fewer ops. They are [chunks Hv, C]; chunks of a step are adjacent, in
// the order of First of the schedules. Rows of a slice outside of the chunk have log decay and
// beta zero here, once for all.
func (p streaming) gatesOf(all []*packs.Steps, g, beta *ir.Value) chunkwise.Gates {
	b, c, heads := p.b, p.c, p.s.HeadsV
	var start, lo, hi []*ir.Value
	chunks := 0
	for _, t := range all {
		t.First = chunks
		chunks += t.Steps * t.M
		all := func(x *ir.Value) *ir.Value { return b.SliceAxis(x, 0, 0, t.Steps*t.M) }
		start, lo, hi = append(start, all(t.Start)), append(lo, all(t.Lo)), append(hi, all(t.Hi))
	}
	table := []int{chunks, c}
	over := func(x []*ir.Value) *ir.Value { return b.Broadcast(b.Concat(0, x...), table, 0) }
	row := b.Iota(ir.T(ir.I32, table...), 1)
	own := b.And(b.Compare(ir.GE, row, over(lo)), b.Compare(ir.LT, row, over(hi)))
	// A slice may have rows of other sequences before and after its own; their gates make them inert.
	own = b.Broadcast(own, []int{chunks, c, heads}, 0, 1)
	at := b.Reshape(b.Add(row, over(start)), chunks*c)
	of := func(x *ir.Value) *ir.Value { // [chunks Hv, C]
		x = b.Reshape(b.GatherRows(b.Reshape(x, p.s.Tokens, heads), at, 0), chunks, c, heads)
		x = b.Select(own, x, b.Like(x, 0))
		return b.Reshape(b.Transpose(x, 0, 2, 1), chunks*heads, c)
	}
	w := chunkwise.Gates{G: of(g), Beta: of(beta)}
	newTiles(p.plan, b, nil).rule().Sums(&w)
	return w
}

// loop takes states and outputs through a schedule. arrays are q, k and v, and w the gates of all
// chunks.
//
// One by one, a step reads the state of each chunk and writes it back, since the next chunk in
// flight may be of the same sequence. In rounds the sequences of all
// steps of a round are the same. So their states are read once before its loop and written after it, and
// the inner loop carries only these.
func (p streaming) loop(t *packs.Steps, arrays []*ir.Value, w chunkwise.Gates, states, o *ir.Value) (*ir.Value, *ir.Value) {
	own := *p.plan
	p = streaming{&own}
	p.v.Mapping.Batch = t.Batch
	s, m, shape := p.s, t.M, states.Type.Shape

	// The states are stacked as the products need them, so that a step reads slices of the right
	// shape.
	first := newChunks(newTiles(p.plan, p.b, nil)).rule
	first.ValueFirst = s.State == gdn.StateVK
	per := s.HeadsV // rows of a sequence
	if first.SharesState() {
		per = s.HeadsK
	}
	states = p.b.Reshape(states, shape[0]*per, s.HeadsV/per*shape[2], shape[3])
	var rs []*ir.Value
	// One by one: with chunks=n a step has n chunks, which pass through their states in order, each after the previous ones wrote theirs.
	if t.Rounds == 0 {
		together := m / p.v.Mapping.Chunks // chunks that are applied to their states together
		rs = p.b.LoopUntil(t.Steps, t.Used, []*ir.Value{states, o}, func(b *ir.Builder, step *ir.Value, carried []*ir.Value) []*ir.Value {
			states := carried[0]
			k := p.step(b, t, step)
			enter := func(i int) *ir.Value { return k.states(states, per, i*together, together) }
			leave := func(i int, x *ir.Value) { states = k.put(states, b.Keep(x), per, i*together, together) }
			o := k.through(p.plan, arrays, w, carried[1], enter, leave)
			return []*ir.Value{states, o}
		})
	} else {
		rs = p.b.Loop(t.Rounds, []*ir.Value{states, o}, func(b *ir.Builder, round *ir.Value, carried []*ir.Value) []*ir.Value {
			b.Stage("load")
			of := func(x *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, round, 1)) }
			begin, steps := of(t.Begins), of(t.Lasts)
			k := p.step(b, t, begin) // its first step has the sequences of the round
			own := k.states(carried[0], per, 0, m)
			rs := b.LoopUntil(t.Longest, steps, []*ir.Value{own, carried[1]}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
				// Steps after the last of the round take no chunk, like the very last step.
				step := b.Select(b.Compare(ir.LT, i, steps), b.Add(begin, i), b.Like(i, float64(t.Steps-1)))
				state := carried[0]
				o := p.step(b, t, step).through(p.plan, arrays, w, carried[1],
					func(int) *ir.Value { return state }, func(_ int, x *ir.Value) { state = x })
				return []*ir.Value{state, o}
			})
			return []*ir.Value{k.put(carried[0], rs[0], per, 0, m), rs[1]}
		})
	}
	return p.b.Reshape(rs[0], shape...), rs[1]
}

// streamStep is a step of a schedule in a loop's body: its entries of the schedule's
// tables, read at run time.
type streamStep struct {
	*packs.Steps
	b                *ir.Builder
	step             *ir.Value
	start, seq, rows []*ir.Value // for each chunk in flight; rows is bool [C], the chunk's own rows
}

// step reads the tables for a step: start and sequence of each chunk, and the chunk's own rows in its slice.
func (p streaming) step(b *ir.Builder, t *packs.Steps, step *ir.Value) *streamStep {
	b.Stage("load")
	k := &streamStep{Steps: t, b: b, step: step}
	for i := range t.M {
		at := k.chunk(i)
		of := func(x *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, at, 1)) }
		row := b.Iota(ir.T(ir.I32, p.c), 0)
		all := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{p.c}) }
		k.start, k.seq = append(k.start, of(t.Start)), append(k.seq, of(t.Seq))
		k.rows = append(k.rows, b.And(b.Compare(ir.GE, row, all(of(t.Lo))), b.Compare(ir.LT, row, all(of(t.Hi)))))
	}
	return k
}

// chunk returns the index of the step's chunk i in the schedule.
func (k *streamStep) chunk(i int) *ir.Value {
	b, scalar := k.b, ir.T(ir.I32)
	return b.Add(b.Mul(k.step, b.Const(scalar, float64(k.M))), b.Const(scalar, float64(i)))
}

// states reads the states of the step's chunks from to from+n-1, with per rows each; put writes them back. All states
// are stacked, [sequences per, ...], with per = Hv rows, or Hk if the value heads of a key
// head are joined (chunkwise.Chunks.SharesState), so that reading is slicing rows.
func (k *streamStep) states(all *ir.Value, per, from, n int) *ir.Value {
	parts := make([]*ir.Value, n)
	for j := range parts {
		parts[j] = k.b.RowsAt(all, k.row(from+j, per), per)
	}
	return k.b.Concat(0, parts...)
}

// put is the inverse of states.
func (k *streamStep) put(all, x *ir.Value, per, from, n int) *ir.Value {
	for j := range n { // places without a sequence come first, since a real place may name the same state
		all = k.b.PutRows(all, k.b.SliceAxis(x, 0, j*per, (j+1)*per), k.row(from+j, per))
	}
	return all
}

// row returns the first row of the state of chunk i, for states of per rows.
func (k *streamStep) row(i, per int) *ir.Value {
	return k.b.Mul(k.seq[i], k.b.Like(k.seq[i], float64(per)))
}

// through takes the chunks of the step through their states, and writes their outputs to o. Values
// written to arrays are kept (OpKeep), since the write may run on one core.
//
// Slices are a window [1, M C H, D] of tokens in place, as layout=bthd loads it. K
// and V are zero in rows outside of the chunk. Q need not be, since those outputs are replaced by
// the old values of o.
func (k *streamStep) through(p *plan, arrays []*ir.Value, w chunkwise.Gates, o *ir.Value, enter func(int) *ir.Value, leave func(int, *ir.Value)) *ir.Value {
	b, s, c, m := k.b, p.s, p.c, k.M
	read := func(x *ir.Value, masked bool) *ir.Value { // [M C, ...]
		parts := make([]*ir.Value, m)
		for i := range m {
			if parts[i] = b.RowsAt(x, k.start[i], c); masked {
				parts[i] = b.Select(b.Broadcast(k.rows[i], parts[i].Type.Shape, 0), parts[i], b.Like(parts[i], 0))
			}
		}
		return b.Concat(0, parts...)
	}
	// A window per tensor and finished gates, like the grid of a chunk.
	in := &operands{}
	e := newChunks(newTiles(p, b, in))
	for i, at := range []**operand{&in.q, &in.k, &in.v} {
		x := read(arrays[i], i > 0)
		d := x.Type.Shape[2]
		*at = &operand{value: arrays[i], block: []int{1, x.Type.Size() / d, d}}
		e.blocks[*at] = b.Reshape(x, (*at).block...)
	}
	at := b.Mul(b.Add(k.chunk(0), b.Const(ir.T(ir.I32), float64(k.First))), b.Const(ir.T(ir.I32), float64(s.HeadsV)))
	e.ready = w.Each(func(x *ir.Value) *ir.Value { return b.Keep(b.RowsAt(x, at, m*s.HeadsV)) })
	e.rule.ValueFirst = s.State == gdn.StateVK
	e.rule.Enter, e.rule.Exit = enter, leave
	// Outputs go back to the slice; rows outside of the chunk get their old values.
	made := b.Keep(b.Reshape(e.fused()[0].block, m, c, s.HeadsV, s.V))
	for i := range m {
		x := b.Reshape(b.SliceAxis(made, 0, i, i+1), c, s.HeadsV, s.V)
		x = b.Select(b.Broadcast(k.rows[i], x.Type.Shape, 0), x, b.RowsAt(o, k.start[i], c))
		o = b.PutRows(o, x, k.start[i])
	}
	return o
}

// states returns the states before the first token, f32 in the order of the spec, and zero for empty sequences that
// must end as zero, since they take no step. With a pool it returns the sequences' initial
// states, [N, ...] in sequence order; the final states are written
// into the pool after the loops.
func (p streaming) states() *ir.Value {
	s, b := p.s, p.b
	shape := join([]int{s.Sequences()}, s.StateType().Shape[1:])
	x := p.args["initial_state"]
	if x == nil {
		return b.Const(ir.T(ir.F32, shape...), 0)
	}
	if s.Pool > 0 {
		x = b.GatherRows(x, p.pool().From(), 0)
	}
	x = b.Convert(x, ir.F32)
	if s.Empty == gdn.EmptyZero {
		length := p.packs().Of(p.sequences()).Length
		used := b.Broadcast(b.Compare(ir.GT, length, b.Like(length, 0)), shape, 0)
		x = b.Select(used, x, b.Like(x, 0))
	}
	return x
}
