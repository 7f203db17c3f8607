package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
)

// Packed sequences as a stream of chunks, for CPUs and GPUs. A chunk begins where its sequence, or the chunk before it, says: its
// tokens are a slice of the arrays as they lie, so that nothing is gathered, padded or copied. A step of the stream takes a chunk
// from the states of its own sequence, which stay in the order of the spec, and puts the state after it back. Rows of a slice that
// are not the chunk's have beta and g zero, so that they leave the state alone, and their outputs are not written.
//
// Sequences do not wait for one another, so with batch=M a step takes chunks of M of them in lockstep: fewer and larger ops. They
// go in rounds of M of like length, the shortest first. A round ends where few of its sequences have tokens left, and what is left
// of all rounds follows chunk by chunk, so that one long prompt costs as much as it does alone.

// stream is a schedule: for each step the chunks that it takes, i32.
type stream struct {
	batch  int       // sequences of a step
	m      int       // chunks of a step
	steps  int       // more than there ever are
	used   *ir.Value // how many there are, a scalar
	seq    *ir.Value // [steps m]: the sequence of each chunk
	start  *ir.Value // first token of its slice
	lo, hi *ir.Value // its rows of the slice; none where there is no chunk
	first  int       // chunks of the schedules before it, whose gates come first

	// Where steps come in rounds, each with sequences of its own, whose states are read before the first step and put back after
	// the last: how many rounds, the most steps of one, and [rounds] the first step of each and how many it has.
	rounds, longest int
	begins, lasts   *ir.Value
}

func (p *plan) streamed() bool { return p.v.Mapping.Pack == gdn.PackStream }

// streaming makes the module of packed sequences that stream.
type streaming struct{ *plan }

// rowCount is the number of tokens with those that fill the first chunk.
func (p streaming) rowCount() int { return max(p.s.Tokens, p.c) }

// streams are the schedules that follow one another.
func (p streaming) streams() []*stream {
	b := p.b
	begin, end := p.sequences()
	if p.s.Pool > 0 { // sequences without a state are skipped
		end = b.Select(p.pool().Held(b), end, begin)
	}
	if p.v.Mapping.Batch == 1 {
		return []*stream{p.oneByOne(begin, end)}
	}
	rounds, taken := p.rounds(begin, end)
	begin = b.Add(begin, b.Mul(taken, b.Like(taken, float64(p.c))))
	return []*stream{rounds, p.oneByOne(begin, b.Max(begin, end))}
}

// oneByOne takes one chunk after another, as many in a step as the variant says.
func (p streaming) oneByOne(begin, end *ir.Value) *stream {
	b, m := p.b, p.v.Mapping.Chunks
	k := p.packs().Of(begin, end)
	x := p.slices(k.Table, k.At, k.End)
	n := b.Sum(p.packs().Count(k.Length), 0)
	x.batch, x.m, x.steps = 1, m, p.nc/m
	x.used = b.Div(b.Add(n, b.Like(n, float64(m-1))), b.Like(n, float64(m)))
	return x
}

// slices are the slices of the tokens at .. end-1 of sequences that begin with token at, at most a chunk of each.
func (p streaming) slices(seq, at, end *ir.Value) *stream {
	b := p.b
	start := b.Min(at, b.Like(at, float64(p.rowCount()-p.c)))
	return &stream{seq: seq, start: start, lo: b.Sub(at, start), hi: b.Sub(end, start)}
}

// rounds takes the sequences in rounds, and says how many chunks of each are taken, [Seqs].
func (p streaming) rounds(begin, end *ir.Value) (x *stream, taken *ir.Value) {
	b, n, m := p.b, p.s.Seqs, p.v.Mapping.Batch
	rounds := (n + m - 1) / m
	spare := rounds*m - n // places of the first round that no sequence has
	few := m / 4          // the most sequences that a round leaves waiting for the others
	vec := func(k int) ir.Type { return ir.T(ir.I32, k) }
	count := func(hit, of *ir.Value) *ir.Value { // sums of what is hit, over the last axis
		return b.Sum(b.Select(hit, of, b.Like(of, 0)), 1)
	}

	// The place of each sequence in the order of length, and what stands in each place.
	chunks := p.packs().Count(b.Sub(end, begin))
	sq := ir.T(ir.I32, n, n)
	own, other := b.Broadcast(chunks, sq.Shape, 0), b.Broadcast(chunks, sq.Shape, 1)
	earlier := b.And(b.Compare(ir.EQ, other, own), b.Compare(ir.LT, b.Iota(sq, 1), b.Iota(sq, 0)))
	place := count(b.Or(b.Compare(ir.LT, other, own), earlier), b.Const(sq, 1))
	place = b.Add(place, b.Like(place, float64(spare)))
	places := ir.T(ir.I32, rounds*m, n)
	hit := b.Compare(ir.EQ, b.Broadcast(place, places.Shape, 1), b.Iota(places, 0))
	order, most := count(hit, b.Iota(places, 1)), count(hit, b.Broadcast(chunks, places.Shape, 1))

	// A round has steps until all but few of its sequences are done.
	steps := b.Reshape(b.SliceAxis(b.Reshape(most, rounds, m), 1, few, few+1), rounds)
	until := b.Cumsum(steps, 0)
	x = &stream{batch: m, m: m, steps: p.nc/(m-few) + 1, rounds: rounds, longest: (p.s.Tokens + p.c - 1) / p.c, begins: b.Sub(until, steps), lasts: steps}
	x.used = b.Sum(steps, 0)
	round := b.Min(p.packs().NotAfter(until, x.steps), b.Const(vec(x.steps), float64(rounds-1)))
	local := b.Sub(b.Iota(vec(x.steps), 0), b.GatherRows(b.Sub(until, steps), round, 0)) // which step of its round
	local = b.Select(b.Compare(ir.LT, b.Iota(vec(x.steps), 0), b.Broadcast(x.used, []int{x.steps})), local, b.Const(vec(x.steps), float64(p.nc)))

	table := []int{x.steps, m}
	flat := func(y *ir.Value) *ir.Value { return b.Reshape(y, x.steps*m) }
	lane := b.Iota(ir.T(ir.I32, table...), 1)
	at := flat(b.Add(b.Mul(b.Broadcast(round, table, 0), b.Like(lane, float64(m))), lane))
	chunk := flat(b.Broadcast(local, table, 0))
	seq := b.GatherRows(order, at, 0)
	first := b.Add(b.GatherRows(begin, seq, 0), b.Mul(chunk, b.Like(chunk, float64(p.c))))
	some := b.Compare(ir.LT, chunk, b.GatherRows(most, at, 0))
	y := p.slices(seq, first, b.Select(some, b.GatherRows(end, seq, 0), b.Like(first, 0)))
	x.seq, x.start, x.lo, x.hi = y.seq, y.start, y.lo, y.hi
	return x, b.Min(chunks, b.GatherRows(steps, b.Div(place, b.Like(place, float64(m))), 0))
}

// module emits a loop for each schedule.
func (p streaming) module() []*ir.Value {
	s, b := p.s, p.b
	b.Stage("glue")
	q, k := p.args["q"], p.args["k"]
	if s.L2Norm {
		q, k = gate.NormRows(b, q), gate.NormRows(b, k)
	}
	g, beta := p.glueGates()
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

// gatesOf are the gates and sums of the chunks of all schedules, which are few enough to be made before the loops: fewer ops
// in each step.
func (p streaming) gatesOf(all []*stream, g, beta *ir.Value) gates {
	b, c, heads := p.b, p.c, p.s.HeadsV
	var start, lo, hi []*ir.Value
	chunks := 0
	for _, t := range all {
		t.first = chunks
		chunks += t.steps * t.m
		all := func(x *ir.Value) *ir.Value { return b.SliceAxis(x, 0, 0, t.steps*t.m) }
		start, lo, hi = append(start, all(t.start)), append(lo, all(t.lo)), append(hi, all(t.hi))
	}
	table := []int{chunks, c}
	over := func(x []*ir.Value) *ir.Value { return b.Broadcast(b.Concat(0, x...), table, 0) }
	row := b.Iota(ir.T(ir.I32, table...), 1)
	own := b.And(b.Compare(ir.GE, row, over(lo)), b.Compare(ir.LT, row, over(hi)))
	own = b.Broadcast(own, []int{chunks, c, heads}, 0, 1)
	at := b.Reshape(b.Add(row, over(start)), chunks*c)
	of := func(x *ir.Value) *ir.Value { // [chunks Hv, C]
		x = b.Reshape(b.GatherRows(b.Reshape(x, p.s.Tokens, heads), at, 0), chunks, c, heads)
		x = b.Select(own, x, b.Like(x, 0))
		return b.Reshape(b.Transpose(x, 0, 2, 1), chunks*heads, c)
	}
	w := gates{g: of(g), beta: of(beta)}
	newGated(newTiles(p.plan, b, nil)).sums(&w)
	return w
}

// loop takes states and outputs through a schedule. Arrays are q, k and v, and w the gates of all chunks.
func (p streaming) loop(t *stream, arrays []*ir.Value, w gates, states, o *ir.Value) (*ir.Value, *ir.Value) {
	own := *p.plan
	p = streaming{&own}
	p.v.Mapping.Batch = t.batch
	s, m, shape := p.s, t.m, states.Type.Shape

	// The states are rows as the products take them, so that what a step reads has its shape at once.
	first := newChunkwise(newTiles(p.plan, p.b, nil))
	first.valueFirst = s.State == gdn.StateVK
	per := s.HeadsV // rows of a sequence
	if first.sharesState() {
		per = s.HeadsK
	}
	states = p.b.Reshape(states, shape[0]*per, s.HeadsV/per*shape[2], shape[3])
	var rs []*ir.Value
	if t.rounds == 0 {
		together := m / p.v.Mapping.Chunks // chunks that meet their states at once
		rs = p.b.LoopUntil(t.steps, t.used, []*ir.Value{states, o}, func(b *ir.Builder, step *ir.Value, carried []*ir.Value) []*ir.Value {
			states := carried[0]
			k := p.step(b, t, step)
			enter := func(i int) *ir.Value { return k.states(states, per, i*together, together) }
			leave := func(i int, x *ir.Value) { states = k.put(states, b.Keep(x), per, i*together, together) }
			o := k.through(p.plan, arrays, w, carried[1], enter, leave)
			return []*ir.Value{states, o}
		})
	} else {
		rs = p.b.Loop(t.rounds, []*ir.Value{states, o}, func(b *ir.Builder, round *ir.Value, carried []*ir.Value) []*ir.Value {
			b.Stage("load")
			of := func(x *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, round, 1)) }
			begin, steps := of(t.begins), of(t.lasts)
			k := p.step(b, t, begin)
			own := k.states(carried[0], per, 0, m)
			rs := b.LoopUntil(t.longest, steps, []*ir.Value{own, carried[1]}, func(b *ir.Builder, i *ir.Value, carried []*ir.Value) []*ir.Value {
				// Steps after the last of the round take no chunk, as the last of all does.
				step := b.Select(b.Compare(ir.LT, i, steps), b.Add(begin, i), b.Like(i, float64(t.steps-1)))
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

// streamStep is a step of a schedule in the body of a loop.
type streamStep struct {
	*stream
	b                *ir.Builder
	step             *ir.Value
	start, seq, rows []*ir.Value // of each chunk in flight; rows is bool [C]: its own
}

func (p streaming) step(b *ir.Builder, t *stream, step *ir.Value) *streamStep {
	b.Stage("load")
	k := &streamStep{stream: t, b: b, step: step}
	for i := range t.m {
		at := k.chunk(i)
		of := func(x *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, at, 1)) }
		row := b.Iota(ir.T(ir.I32, p.c), 0)
		all := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{p.c}) }
		k.start, k.seq = append(k.start, of(t.start)), append(k.seq, of(t.seq))
		k.rows = append(k.rows, b.And(b.Compare(ir.GE, row, all(of(t.lo))), b.Compare(ir.LT, row, all(of(t.hi)))))
	}
	return k
}

// chunk is the place of chunk i of the step in the schedule.
func (k *streamStep) chunk(i int) *ir.Value {
	b, scalar := k.b, ir.T(ir.I32)
	return b.Add(b.Mul(k.step, b.Const(scalar, float64(k.m))), b.Const(scalar, float64(i)))
}

// states are those of n chunks of the step from one on, per rows each; put puts them back.
func (k *streamStep) states(all *ir.Value, per, from, n int) *ir.Value {
	parts := make([]*ir.Value, n)
	for j := range parts {
		parts[j] = k.b.RowsAt(all, k.row(from+j, per), per)
	}
	return k.b.Concat(0, parts...)
}

func (k *streamStep) put(all, x *ir.Value, per, from, n int) *ir.Value {
	for j := range n { // places that no sequence has come first: what they name may have a place too
		all = k.b.PutRows(all, k.b.SliceAxis(x, 0, j*per, (j+1)*per), k.row(from+j, per))
	}
	return all
}

func (k *streamStep) row(i, per int) *ir.Value {
	return k.b.Mul(k.seq[i], k.b.Like(k.seq[i], float64(per)))
}

// through takes the chunks of the step through their states, and puts their outputs into o. What is put into an array is kept
// before, since that may run on one core.
func (k *streamStep) through(p *plan, arrays []*ir.Value, w gates, o *ir.Value, enter func(int) *ir.Value, leave func(int, *ir.Value)) *ir.Value {
	b, s, c, m := k.b, p.s, p.c, k.m
	read := func(x *ir.Value, masked bool) *ir.Value { // [M C, ...]
		parts := make([]*ir.Value, m)
		for i := range m {
			if parts[i] = b.RowsAt(x, k.start[i], c); masked {
				parts[i] = b.Select(b.Broadcast(k.rows[i], parts[i].Type.Shape, 0), parts[i], b.Like(parts[i], 0))
			}
		}
		return b.Concat(0, parts...)
	}
	in := &operands{}
	e := newChunkwise(newTiles(p, b, in))
	for i, at := range []**operand{&in.q, &in.k, &in.v} {
		x := read(arrays[i], i > 0)
		d := x.Type.Shape[2]
		*at = &operand{value: arrays[i], block: []int{1, x.Type.Size() / d, d}}
		e.blocks[*at] = b.Reshape(x, (*at).block...)
	}
	at := b.Mul(b.Add(k.chunk(0), b.Const(ir.T(ir.I32), float64(k.first))), b.Const(ir.T(ir.I32), float64(s.HeadsV)))
	e.ready = w.each(func(x *ir.Value) *ir.Value { return b.Keep(b.RowsAt(x, at, m*s.HeadsV)) })
	e.valueFirst = s.State == gdn.StateVK
	e.enter, e.leave = enter, leave
	made := b.Keep(b.Reshape(e.fused()[0].block, m, c, s.HeadsV, s.V))
	for i := range m {
		x := b.Reshape(b.SliceAxis(made, 0, i, i+1), c, s.HeadsV, s.V)
		x = b.Select(b.Broadcast(k.rows[i], x.Type.Shape, 0), x, b.RowsAt(o, k.start[i], c))
		o = b.PutRows(o, x, k.start[i])
	}
	return o
}

// states are the states before the first token, f32 in the order of the spec, and zero where they are to end as zero.
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
