package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// token takes the tokens of a grid step through the recurrence one by one. The state of N entries is [N, K, V], or [N, V, K]
// where it stays in the order of the spec.
func (e *tokenwise) token() []blockOut {
	if e.v.Unit == gdn.UnitMatrix && e.v.KQ == gdn.JointSeparate {
		return e.tokenMatrix()
	}
	return e.tokenNative()
}

// tokenMatrix has the products of the recurrence on the matrix unit.
func (e *tokenwise) tokenMatrix() []blockOut {
	q, k := e.perValue(e.loadKey(e.in.q)), e.perValue(e.loadKey(e.in.k))
	v := e.loadValues()
	w := e.loadGates()
	reads := e.reading(w, k)
	b := e.b.Stage("state")
	q = b.Convert(q, ir.F32)
	q = b.Scale(q, e.s.EffectiveScale())
	decay := e.tokenDecay(w)
	var outs []*ir.Value
	for i := range e.c {
		at := func(x *ir.Value) *ir.Value { return b.SliceAxis(x, 1, i, i+1) }
		s := e.state
		if decay != nil {
			s = b.Mul(s, e.spreadDecay(decay, i, false)(e.s.K, e.s.V))
		}
		u := e.written(at(v), func() *ir.Value { return e.Dot(at(cmp.Or(reads, k)), s, false, false, e.v.Numerics.PrecState) },
			func() *ir.Value { return e.spreads(w.beta, i)(1, e.s.V) })
		s = b.Add(s, e.Dot(at(k), u, true, false, e.v.Numerics.PrecState))
		outs = append(outs, e.Dot(at(q), s, false, false, e.v.Numerics.PrecState))
		e.state, e.after = s, append(e.after, s)
	}
	b.Stage("output")
	return []blockOut{e.output([]*ir.Value{b.Concat(1, outs...)})}
}

// tokenNative works on states in the order of the spec. On the matrix unit K S and Q S are one product, before the update. On
// the vector unit K S is made of products and sums, and Q S too unless its precision is below f32; what runs along the rows of
// the state is a column, made by one transpose for all entries.
func (e *tokenwise) tokenNative() []blockOut {
	b := e.b.Stage("load")
	flat := func(x *ir.Value) *ir.Value { return b.Convert(x, ir.F32) }
	q, k := flat(e.tokenKey(e.in.q, e.s.L2Norm)), flat(e.tokenKey(e.in.k, true))
	v := e.loadValues()
	w := e.loadGates()
	reads := e.reading(w, k)
	decay := e.tokenDecay(w)
	q = b.Scale(q, e.s.EffectiveScale())
	b.Stage("state")
	step := e.tokenKV
	if e.v.Unit == gdn.UnitMatrix || e.v.Unit == gdn.UnitSums {
		step = e.tokenJoined
	} else if e.s.State == gdn.StateVK {
		step = e.tokenVK
	}
	var outs []*ir.Value
	for i := range e.c {
		at := func(x *ir.Value) *ir.Value {
			return b.Reshape(b.SliceAxis(x, 1, i, i+1), x.Type.Shape[0], x.Type.Shape[2])
		}
		outs = append(outs, step(at(q), at(k), each(at, reads), at(v), e.spreadDecay(decay, i, e.s.State == gdn.StateVK), e.spreads(w.beta, i)))
		e.after = append(e.after, e.state)
	}
	b.Stage("output")
	return []blockOut{e.output([]*ir.Value{b.Concat(1, outs...)})}
}

// tokenKey is loadKey, where each channel has a decay made in one tile for all entries of a token if that is wanted.
func (e *tokenwise) tokenKey(o *operand, together bool) *ir.Value {
	if !together || !e.channelwise() {
		return e.loadKey(o)
	}
	x := e.together(e.loadRows(o))
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		x = gate.NormRows(e.b, x)
	}
	return e.b.Transpose(e.b.Convert(x, ir.F32), 1, 0, 2)
}

// spread gives a number of each entry over its tile; nil for ones.
type spread func(rows, lanes int) *ir.Value

// spreads is the number of lane i of [N, C].
func (e *tokenwise) spreads(x *ir.Value, i int) spread {
	if x == nil {
		return func(rows, lanes int) *ir.Value { return nil }
	}
	return func(rows, lanes int) *ir.Value { return e.Scalar(x, i, rows, lanes) }
}

// spreadDecay is spreads of the decay, or that of token i of [C, N, K] over a state [N, K, V], or [N, V, K] if turned.
func (e *tokenwise) spreadDecay(x *ir.Value, i int, turned bool) spread {
	if !e.channelwise() {
		return e.spreads(x, i)
	}
	own := e.b.Reshape(e.b.SliceAxis(x, 0, i, i+1), x.Type.Shape[1], e.s.K)
	return func(rows, lanes int) *ir.Value {
		if turned {
			return e.Row(own, rows)
		}
		return e.Column(own, lanes)
	}
}

// tokenDecay is exp(g), [N, C] or [C, N, K]; nil where the rule has no decay.
func (e *tokenwise) tokenDecay(w gates) *ir.Value {
	if w.channels != nil {
		return e.b.Exp(w.channels.Log)
	}
	if w.g == nil {
		return nil
	}
	return e.b.Exp(w.g)
}

// written is what a token writes along its key: beta (v - read), with what read gives of the state before it, or v. A beta of nil is ones.
func (e *tokenwise) written(v *ir.Value, read, beta func() *ir.Value) *ir.Value {
	if !e.s.Rule.Writes() {
		return v
	}
	u := e.b.Sub(v, read())
	return e.By(u, beta())
}

// tokenJoined is one token on a state of either order: K S and Q S come from the state before the update, so that it is read
// by one product and one update. Q S is then decayed, and gains q of what the update adds. It is for rules that read the state by k.
func (e *tokenwise) tokenJoined(q, k, _, v *ir.Value, decay, beta spread) *ir.Value {
	b, s := e.b, e.s
	n := v.Type.Shape[0]
	turned := s.State == gdn.StateVK
	r, l := e.state.Type.Shape[1], e.state.Type.Shape[2]
	row := func(x *ir.Value) *ir.Value { return b.Reshape(x, x.Type.Shape[0], 1, s.K) }
	rows := b.Concat(1, row(k), row(q))
	var ks, qs, kq *ir.Value
	if e.v.Unit == gdn.UnitSums && turned {
		ks, qs, kq = e.readBySums(&rows)
	} else {
		ks, qs, kq = e.readByProduct(rows, turned)
	}
	g := decay(1, s.V)
	u := e.written(b.Reshape(v, n, 1, s.V), func() *ir.Value { return e.Weighed(g, ks) }, func() *ir.Value { return beta(1, s.V) })
	down, across := e.perValue(b.SliceAxis(rows, 1, 0, 1)), u // along the rows and the lanes of the state
	if turned {
		down, across = u, down
	}
	add := b.Mul(b.Broadcast(b.Reshape(down, n, r), []int{n, r, l}, 0, 1), b.Broadcast(b.Reshape(across, n, l), []int{n, r, l}, 0, 2))
	e.state = b.Add(e.By(e.state, decay(r, l)), add)
	return b.Add(e.Weighed(g, qs), b.Mul(kq, u))
}

// readByProduct gives K S, Q S and k.q, each [N, 1, V], of rows k and q [Nk, 2, K].
func (e *tokenwise) readByProduct(rows *ir.Value, turned bool) (ks, qs, kq *ir.Value) {
	b := e.b
	rows = e.perValue(rows)
	both := e.Dot(rows, e.state, false, turned, e.v.Numerics.PrecState)
	k, q := b.SliceAxis(rows, 1, 0, 1), b.SliceAxis(rows, 1, 1, 2)
	kq = b.Broadcast(b.Sum(b.Mul(k, q), 2), []int{both.Type.Shape[0], 1, e.s.V}, 0, 1)
	return b.SliceAxis(both, 1, 0, 1), b.SliceAxis(both, 1, 1, 2), kq
}

// readBySums is readByProduct on states [N, V, K]. It keeps the rows for what reads them later.
func (e *tokenwise) readBySums(rows **ir.Value) (ks, qs, kq *ir.Value) {
	b := e.b
	*rows = b.Keep(*rows)
	k, q := b.SliceAxis(*rows, 1, 0, 1), b.SliceAxis(*rows, 1, 1, 2)
	both := b.Keep(tile.AddLanes(b, b.Keep(tile.RunningSums(b, e.state, *rows)))) // [N, V, 2, 1]
	n, values := both.Type.Shape[0], both.Type.Shape[1]
	of := func(i int) *ir.Value { return b.Reshape(b.SliceAxis(both, 2, i, i+1), n, 1, values) }
	kq = e.perValue(b.Reshape(tile.AddLanes(b, b.Keep(tile.RunningSums(b, k, q))), k.Type.Shape[0], 1, 1))
	return of(0), of(1), b.Broadcast(kq, []int{n, 1, values}, 0, 1, 2)
}

// tokenKV is one token on a state [N, K, V]: q and k [Nk, K], v [N, V]; the state is read by k, or by reads [N, K]; the output is [N, 1, V].
func (e *tokenwise) tokenKV(q, k, reads, v *ir.Value, decay, beta spread) *ir.Value {
	b, s := e.b, e.s
	n := v.Type.Shape[0]
	row := func(x *ir.Value) *ir.Value { return b.Reshape(x, n, 1, s.V) }
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{n, s.K, s.V}, 0, 1, 2) }
	kc := e.perValue(e.Column(k, s.V))
	rc := kc
	if reads != nil {
		rc = e.Column(reads, s.V)
	}
	state := e.By(e.state, decay(s.K, s.V))
	u := e.written(row(v), func() *ir.Value { return row(b.Sum(b.Mul(state, rc), 1)) }, func() *ir.Value { return beta(1, s.V) })
	e.state = b.Add(state, b.Mul(kc, over(u)))
	if e.v.Numerics.PrecState != ir.PrecF32 {
		return e.Dot(e.perValue(b.Reshape(q, q.Type.Shape[0], 1, s.K)), e.state, false, false, e.v.Numerics.PrecState)
	}
	return row(b.Sum(b.Mul(e.state, e.perValue(e.Column(q, s.V))), 1))
}

// tokenVK is one token on a state [N, V, K].
func (e *tokenwise) tokenVK(q, k, reads, v *ir.Value, decay, beta spread) *ir.Value {
	b, s := e.b, e.s
	n := v.Type.Shape[0]
	row := func(x *ir.Value) *ir.Value { return e.perValue(b.Reshape(x, x.Type.Shape[0], 1, s.K)) }
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{n, s.V, s.K}, 0, 1, 2) }
	sum := func(x *ir.Value) *ir.Value { return b.Broadcast(b.Sum(x, 2), []int{n, s.V, s.K}, 0, 1) }
	kr := row(k)
	rr := kr
	if reads != nil {
		rr = b.Reshape(reads, n, 1, s.K)
	}
	state := e.By(e.state, decay(s.V, s.K))
	if e.v.Unit == gdn.UnitLanes && n < s.K && s.Rule.Writes() {
		return e.tokenLanes(row(q), kr, rr, v, state, beta)
	}
	u := e.written(e.Column(v, s.K), func() *ir.Value { return sum(b.Mul(state, over(rr))) }, func() *ir.Value { return each(over, beta(1, s.K)) })
	e.state = b.Add(state, b.Mul(u, over(kr)))
	if e.v.Numerics.PrecState != ir.PrecF32 {
		return e.Dot(row(q), e.state, false, true, e.v.Numerics.PrecState)
	}
	o := b.Sum(b.Mul(e.state, over(row(q))), 2)
	return b.Reshape(o, n, 1, s.V)
}

// tokenLanes is tokenVK with the columns of v and o kept in lane n of one tile for all entries n: v is added to the product
// that is summed, and o is put into its place, so that no column is broadcast or turned alone.
func (e *tokenwise) tokenLanes(q, k, read, v, state *ir.Value, beta spread) *ir.Value {
	b, s := e.b, e.s
	n := v.Type.Shape[0]
	all := []int{n, s.V, s.K}
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, all, 0, 1, 2) }
	place := b.Compare(ir.EQ, b.Iota(ir.T(ir.I32, all...), 0), b.Iota(ir.T(ir.I32, all...), 2))
	columns := b.Transpose(b.Concat(0, v, b.Const(ir.T(ir.F32, s.K-n, s.V), 0)), 1, 0)
	own := b.Broadcast(columns, all, 1, 2)
	rest := b.Sub(b.Select(place, own, b.Like(own, 0)), b.Mul(state, over(read)))
	u := b.Broadcast(b.Sum(rest, 2), all, 0, 1)
	e.state = b.Add(state, b.Mul(u, over(e.By(k, beta(1, s.K)))))
	if e.v.Numerics.PrecState != ir.PrecF32 {
		return e.Dot(q, e.state, false, true, e.v.Numerics.PrecState)
	}
	o := b.Broadcast(b.Sum(b.Mul(e.state, over(q)), 2), all, 0, 1)
	out := b.Const(ir.T(ir.F32, 1, s.V, s.K), 0)
	for i := range n {
		at := func(x *ir.Value) *ir.Value { return b.SliceAxis(x, 0, i, i+1) }
		out = b.Select(at(place), at(o), out)
	}
	out = b.Transpose(b.Reshape(out, s.V, s.K), 1, 0)
	rows := make([]*ir.Value, n)
	for i := range rows {
		rows[i] = b.Reshape(b.SliceAxis(out, 0, i, i+1), 1, 1, s.V)
	}
	return b.Concat(0, rows...)
}

// native says whether the state stays in the order and type of the spec: it is read and written by the kernel as it is.
func (p *plan) native() bool { return p.v.Native() }

// stateDType is the element type of the states between grids and glue.
func (p *plan) stateDType() ir.DType {
	if p.native() {
		return p.s.StateDType
	}
	return ir.F32
}

// once says whether one step of the grid takes a sequence from its initial to its final state, which then are an input and an
// output of the grid.
func (p *plan) once() bool { return p.native() && p.nc == p.v.Mapping.Chunks && p.s.Seqs == 0 }

// pooled says whether the grid looks up the states of its sequences in a pool, and leaves the others alone.
func (p *plan) pooled() bool { return p.once() && p.s.Pool > 0 }

// pool names the states of the sequences.
func (p *plan) pool() pool.Of {
	return pool.Of{Written: p.args["state_indices"], Read: p.args["read_indices"], Group: p.s.Checkpoints()}
}
