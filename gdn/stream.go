package gdn

import "github.com/gdngen/gdngen/ir"

// Packed sequences as a stream of chunks, for CPUs and GPUs. A chunk begins where its sequence, or the chunk before it, says: its
// tokens are a slice of the arrays as they lie, so that nothing is gathered, padded or copied. What needs no state is done for
// several chunks at once; then each takes the state of its own sequence from the states, which stay in the order of the spec, and
// puts it back. Rows of a slice that are not the chunk's have beta and g zero, so that they leave the state alone, and their
// outputs are not written.

// stream is the schedule: for each chunk, i32.
type stream struct {
	seq    *ir.Value // its sequence
	start  *ir.Value // first token of its slice
	lo, hi *ir.Value // its rows of the slice; none beyond the last chunk
}

func (p *plan) streamed() bool { return p.v.Pack == PackStream }

// streamRows is the number of tokens with those that fill the first chunk.
func (p *plan) streamRows() int { return max(p.s.Tokens, p.c) }

func (p *plan) stream() *stream {
	b, k := p.b, p.packedChunks()
	last := b.Const(k.at.Type, float64(p.streamRows()-p.c))
	start := b.Min(k.at, last)
	hi := b.Sub(k.end, start)
	if p.s.Pool > 0 { // sequences without a state are skipped
		held := b.GatherRows(p.args["state_indices"], k.table, 0)
		hi = b.Select(b.Compare(ir.GE, held, b.Like(held, 0)), hi, b.Like(hi, 0))
	}
	return &stream{seq: k.table, start: start, lo: b.Sub(k.at, start), hi: hi}
}

// streamModule emits the loop over the chunks.
func (p *plan) streamModule() []*ir.Value {
	s, b, c, m := p.s, p.b, p.c, p.v.Chunks
	b.Stage("glue")
	q, k := p.args["q"], p.args["k"]
	if s.L2Norm {
		q, k = normRows(b, q), normRows(b, k)
	}
	g, beta := p.glueGates()
	arrays := []*ir.Value{q, k, p.args["v"], g, beta}
	for i, x := range arrays {
		if !s.Packed { // a batch of one row
			x = b.Reshape(x, x.Type.Shape[1:]...)
			arrays[i] = x
		}
		if n := p.streamRows() - s.Tokens; n > 0 {
			lo, hi := make([]int, x.Type.Rank()), make([]int, x.Type.Rank())
			hi[0] = n
			arrays[i] = b.Pad(x, 0, lo, hi)
		}
	}
	t := p.stream()
	state := p.streamStates()
	shape := state.Type.Shape[1:]
	o := b.Const(ir.T(s.Out, p.streamRows(), s.HeadsV, s.V), 0)
	rs := b.Loop(p.nc/m, []*ir.Value{state, o}, func(b *ir.Builder, step *ir.Value, carried []*ir.Value) []*ir.Value {
		b.Stage("load")
		states, o := carried[0], carried[1]
		chunk := func(i int) *ir.Value {
			scalar := ir.T(ir.I32)
			return b.Add(b.Mul(step, b.Const(scalar, float64(m))), b.Const(scalar, float64(i)))
		}
		var start, seq, own []*ir.Value // of each chunk in flight; own is bool [C]
		for i := range m {
			at := chunk(i)
			of := func(x *ir.Value) *ir.Value { return b.Reshape(b.RowsAt(x, at, 1)) }
			row := b.Iota(ir.T(ir.I32, c), 0)
			all := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{c}) }
			start, seq = append(start, of(t.start)), append(seq, of(t.seq))
			own = append(own, b.And(b.Compare(ir.GE, row, all(of(t.lo))), b.Compare(ir.LT, row, all(of(t.hi)))))
		}
		read := func(x *ir.Value, masked bool) *ir.Value { // [M C, ...]
			parts := make([]*ir.Value, m)
			for i := range m {
				if parts[i] = b.RowsAt(x, start[i], c); masked {
					parts[i] = b.Select(b.Broadcast(own[i], parts[i].Type.Shape, 0), parts[i], b.Like(parts[i], 0))
				}
			}
			return b.Concat(0, parts...)
		}
		in := &operands{}
		e := newGen(p, b, in)
		for i, at := range []**operand{&in.q, &in.k, &in.v} {
			x := read(arrays[i], i > 0)
			d := x.Type.Shape[2]
			*at = &operand{value: arrays[i], block: []int{1, x.Type.Size() / d, d}}
			e.blocks[*at] = b.Reshape(x, (*at).block...)
		}
		for i, at := range []**operand{&in.g, &in.beta} {
			*at = &operand{}
			x := b.Reshape(read(arrays[3+i], true), m, c, s.HeadsV)
			e.blocks[*at] = b.Transpose(x, 0, 2, 1)
		}
		e.valueFirst = s.State == StateVK
		e.enter = func(i int) *ir.Value { return b.Reshape(b.RowsAt(states, seq[i], 1), shape...) }
		e.leave = func(i int, x *ir.Value) { states = b.PutRows(states, b.Reshape(x, join([]int{1}, shape)...), seq[i]) }
		made := b.Reshape(e.fused()[0].block, m, c, s.HeadsV, s.V)
		for i := range m {
			x := b.Reshape(b.SliceAxis(made, 0, i, i+1), c, s.HeadsV, s.V)
			x = b.Select(b.Broadcast(own[i], x.Type.Shape, 0), x, b.RowsAt(o, start[i], c))
			o = b.PutRows(o, x, start[i])
		}
		return []*ir.Value{states, o}
	})
	b.Stage("glue")
	if b.Err() != nil {
		return nil
	}
	results := []*ir.Value{b.Reshape(b.SliceAxis(rs[1], 0, 0, s.Tokens), s.Outputs()[0].Type.Shape...)}
	if s.Final {
		x := b.Convert(rs[0], s.StateDType)
		if s.Pool > 0 {
			x = p.intoPool(x)
		}
		results = append(results, x)
	}
	return results
}

// streamStates are the states before the first token, f32 in the order of the spec, and zero where they are to end as zero.
func (p *plan) streamStates() *ir.Value {
	s, b := p.s, p.b
	shape := join([]int{s.Sequences()}, s.stateType().Shape[1:])
	x := p.args["initial_state"]
	if x == nil {
		return b.Const(ir.T(ir.F32, shape...), 0)
	}
	if s.Pool > 0 {
		x = b.GatherRows(x, p.args["state_indices"], 0)
	}
	x = b.Convert(x, ir.F32)
	if s.Empty == EmptyZero {
		length := p.packedChunks().length
		used := b.Broadcast(b.Compare(ir.GT, length, b.Like(length, 0)), shape, 0)
		x = b.Select(used, x, b.Like(x, 0))
	}
	return x
}
