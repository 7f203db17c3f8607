// Package recurrence takes tokens one by one through the states of several entries, in the order and type of the spec.
//
// A token with key k, query q, value v, decay a = exp(g) and write strength beta does, on the state S [K, V] of its head,
//
//	S' = a S                     the decay
//	u  = beta (v - S'^T k)       what is written along k: the error of the state's value for k   (an additive rule: u = v)
//	S  = S' + k u^T              the update, of rank 1
//	o  = S^T q                   the output; q has its scale already
//
// A few tokens do not fill an MXU, and a 128 x 128 float32 state is 64 KiB that is read and written for them. So the costs are
// passes of the state through the registers, and moves of k, u and q from lanes to rows. There are
// three forms of the same four lines (axis unit):
//
//	joined   reads S once, before the update: S'^T k = a S^T k, and o = S^T q = a S0^T q + (k.q) u, S0 being the state before
//	kv, vk   read S' for u, and the new S for o: two passes, each exact in float32 by element products and sums
//	inLanes  is vk with the columns u and o of all entries in one tile
package recurrence

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// A Step has the states of N entries, [N, K, V], or [N, V, K] if the spec has k last.
type Step struct {
	*tile.Body
	Spec  gdn.Spec
	Group int // value heads per key head
	State *ir.Value
}

// A Spread broadcasts one number per entry over a tile; nil for ones.
type Spread func(rows, lanes int) *ir.Value

// Token takes a token through the states and returns the output [N, 1, V]. q (from Query) and k are [Nk, K], v [N, V]; reads [N, K] is the key that
// reads the state, nil for k.
func (e *Step) Token(q, k, reads, v *ir.Value, decay, beta Spread) *ir.Value {
	switch {
	case e.before():
		return e.joined(q, k, reads, v, decay, beta)
	case e.Spec.State == gdn.StateVK:
		return e.vk(q, k, reads, v, decay, beta)
	}
	return e.kv(q, k, reads, v, decay, beta)
}

// Query returns q in the form for Token: scaled, except for kv, which scales the outputs, so that q is transposed unscaled.
func (e *Step) Query(q *ir.Value) *ir.Value {
	if e.before() || e.Spec.State == gdn.StateVK {
		return e.scaled(q)
	}
	return q
}

// before reports whether outputs are computed from the state before the update.
func (e *Step) before() bool { return e.V.Unit == gdn.UnitMatrix || e.V.Unit == gdn.UnitSums }

func (e *Step) scaled(x *ir.Value) *ir.Value { return e.B.Scale(x, e.Spec.EffectiveScale()) }

// perValue repeats key-head values for each of their value heads.
func (e *Step) perValue(x *ir.Value) *ir.Value { return tile.Repeated(e.B, x, e.Group) }

// Written returns the value that a token writes along its key: beta (v - read), where read returns the state's value for the key; or v for additive rules.
func (e *Step) Written(v *ir.Value, read, beta func() *ir.Value) *ir.Value {
	if !e.Spec.Rule.Writes() {
		return v
	}
	u := e.B.Sub(v, read())
	return e.By(u, beta())
}

// joined computes one token on a state of either order. K S and Q S use the state before the update, so that it is read
// by one product and one update. Q S is then decayed, and the update's share q.k u is added. It is for rules that read by k.
//
// With a scalar decay a, S = a S0 + k u^T gives
//
//	K S' = a (k^T S0)                          one row [1, V] of the product [k; q] S0
//	o    = q^T S = a (q^T S0) + (q.k) u        the other row, and the update's share by one scalar
//
// Example: a = .5, k = q = e1 (so q.k = 1), S0 = e1 w^T, v = 3 w, beta = 1. Then K S' = .5 w, u = 2.5 w, and o = .5 w + 2.5 w = 3 w: the
// state returns v for k, as beta = 1 requires.
func (e *Step) joined(q, k, _, v *ir.Value, decay, beta Spread) *ir.Value {
	b, s := e.B, e.Spec
	n := v.Type.Shape[0]
	turned := s.State == gdn.StateVK
	r, l := e.State.Type.Shape[1], e.State.Type.Shape[2]
	row := func(x *ir.Value) *ir.Value { return b.Reshape(x, x.Type.Shape[0], 1, s.K) }
	rows := b.Concat(1, row(k), row(q))
	var ks, qs, kq *ir.Value
	if e.V.Unit == gdn.UnitSums && turned {
		ks, qs, kq = e.readBySums(&rows)
	} else {
		ks, qs, kq = e.readByProduct(rows, turned)
	}
	g := decay(1, s.V)
	u := e.Written(b.Reshape(v, n, 1, s.V), func() *ir.Value { return e.Weighed(g, ks) }, func() *ir.Value { return beta(1, s.V) })
	down, across := e.perValue(b.SliceAxis(rows, 1, 0, 1)), u // along the rows and the lanes of the state
	if turned {
		down, across = u, down
	}
	add := b.Mul(b.Broadcast(b.Reshape(down, n, r), []int{n, r, l}, 0, 1), b.Broadcast(b.Reshape(across, n, l), []int{n, r, l}, 0, 2))
	e.State = b.Add(e.By(e.State, decay(r, l)), add)
	return b.Add(e.Weighed(g, qs), b.Mul(kq, u))
}

// readByProduct returns K S, Q S and k.q, each [N, 1, V], for rows k and q [Nk, 2, K].
func (e *Step) readByProduct(rows *ir.Value, turned bool) (ks, qs, kq *ir.Value) {
	b := e.B
	rows = e.perValue(rows)
	both := e.Dot(rows, e.State, false, turned, e.V.Numerics.PrecState)
	k, q := b.SliceAxis(rows, 1, 0, 1), b.SliceAxis(rows, 1, 1, 2)
	kq = b.Broadcast(b.Sum(b.Mul(k, q), 2), []int{both.Type.Shape[0], 1, e.Spec.V}, 0, 1)
	return b.SliceAxis(both, 1, 0, 1), b.SliceAxis(both, 1, 1, 2), kq
}

// readBySums is readByProduct for states [N, V, K], with k and q along the rows of the state: on a CPU the sum over k then adds
// contiguous elements. It keeps the rows (ir.OpKeep, a barrier between fusions) for later readers. Otherwise the backend
// would recompute them in each of its loops.
func (e *Step) readBySums(rows **ir.Value) (ks, qs, kq *ir.Value) {
	b := e.B
	*rows = b.Keep(*rows)
	k, q := b.SliceAxis(*rows, 1, 0, 1), b.SliceAxis(*rows, 1, 1, 2)
	both := b.Keep(tile.AddLanes(b, b.Keep(tile.RunningSums(b, e.State, *rows)))) // [N, V, 2, 1]
	n, values := both.Type.Shape[0], both.Type.Shape[1]
	of := func(i int) *ir.Value { return b.Reshape(b.SliceAxis(both, 2, i, i+1), n, 1, values) }
	kq = e.perValue(b.Reshape(tile.AddLanes(b, b.Keep(tile.RunningSums(b, k, q))), k.Type.Shape[0], 1, 1))
	return of(0), of(1), b.Broadcast(kq, []int{n, 1, values}, 0, 1, 2)
}

// kv computes one token on a state [N, K, V]: q and k [Nk, K], v [N, V], reads [N, K] or nil for k; the output is [N, 1, V].
// K is along rows: sums over k add registers, and v and u are rows already; only k and q must become columns. The output is a float32 sum even for bf16
// q: an MXU product would save half of these instructions, but its latency is not hidden in a kernel of
// few states. If the kernel made q float32, which doubles the registers to transpose, the product is faster if precstate allows it.
func (e *Step) kv(q, k, reads, v *ir.Value, decay, beta Spread) *ir.Value {
	b, s := e.B, e.Spec
	n := v.Type.Shape[0]
	row := func(x *ir.Value) *ir.Value { return b.Reshape(x, n, 1, s.V) }
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{n, s.K, s.V}, 0, 1, 2) }
	kc := e.perValue(tile.TurnedColumn(b, k, s.V))
	rc := kc
	if reads != nil {
		rc = tile.TurnedColumn(b, reads, s.V)
	}
	read := func(state, by *ir.Value) *ir.Value { return row(tile.SumRows(b, b.Mul(state, by))) }
	state := e.By(e.State, decay(s.K, s.V))
	u := e.Written(row(v), func() *ir.Value { return read(state, rc) }, func() *ir.Value { return beta(1, s.V) })
	e.State = b.Add(state, b.Mul(kc, over(u)))
	if normed := s.L2Norm && e.V.Fuse == gdn.PlaceKernel; normed && e.V.Numerics.PrecState != ir.PrecF32 {
		return e.scaled(e.Dot(e.perValue(b.Reshape(q, q.Type.Shape[0], 1, s.K)), e.State, false, false, e.V.Numerics.PrecState))
	}
	return e.scaled(read(e.State, e.perValue(tile.TurnedColumn(b, q, s.V))))
}

// vk computes one token on a state [N, V, K], the transpose of kv: k and q are rows already, sums over k go over lanes, and v and
// u must become columns. Servers store states in this order.
func (e *Step) vk(q, k, reads, v *ir.Value, decay, beta Spread) *ir.Value {
	b, s := e.B, e.Spec
	n := v.Type.Shape[0]
	row := func(x *ir.Value) *ir.Value { return e.perValue(b.Reshape(x, x.Type.Shape[0], 1, s.K)) }
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, []int{n, s.V, s.K}, 0, 1, 2) }
	sum := func(x *ir.Value) *ir.Value { return b.Broadcast(b.Sum(x, 2), []int{n, s.V, s.K}, 0, 1) }
	kr := row(k)
	rr := kr
	if reads != nil {
		rr = b.Reshape(reads, n, 1, s.K)
	}
	state := e.By(e.State, decay(s.V, s.K))
	if e.V.Unit == gdn.UnitLanes && n < s.K && s.Rule.Writes() {
		return e.inLanes(row(q), kr, rr, v, state, beta)
	}
	u := e.Written(e.Column(v, s.K), func() *ir.Value { return sum(b.Mul(state, over(rr))) }, func() *ir.Value { return tile.Each(over, beta(1, s.K)) })
	e.State = b.Add(state, b.Mul(u, over(kr)))
	if e.V.Numerics.PrecState != ir.PrecF32 {
		return e.Dot(row(q), e.State, false, true, e.V.Numerics.PrecState)
	}
	o := b.Sum(b.Mul(e.State, over(row(q))), 2)
	return b.Reshape(o, n, 1, s.V)
}

// inLanes is vk with the columns of v and o in lane n of one tile for all entries n: v is added before the sum over lanes,
// and o is put into its lane, so that no column is broadcast or transposed alone.
//
// The sum over lanes of S' k reaches every lane anyway, so v is added to it: lane n of entry n gets v - S'_n k_n, the others -S'_n k,
// and one sum over lanes gives v - S'^T k, in all lanes. Example of two entries, V = 2, K = 4 lanes:
//
//	v of the entries    columns (transposed once)     rest of entry 1, before the sum
//	[1 2]               1 3 . .                       -S'k   3-S'k  -S'k  -S'k      row 0
//	[3 4]               2 4 . .                       -S'k   4-S'k  -S'k  -S'k      row 1
//
// It needs fewer entries than lanes, and one sum and one transpose do the work of N.
func (e *Step) inLanes(q, k, read, v, state *ir.Value, beta Spread) *ir.Value {
	b, s := e.B, e.Spec
	n := v.Type.Shape[0]
	all := []int{n, s.V, s.K}
	over := func(x *ir.Value) *ir.Value { return b.Broadcast(x, all, 0, 1, 2) }
	place := b.Compare(ir.EQ, b.Iota(ir.T(ir.I32, all...), 0), b.Iota(ir.T(ir.I32, all...), 2))
	columns := b.Transpose(b.Concat(0, v, b.Const(ir.T(ir.F32, s.K-n, s.V), 0)), 1, 0)
	own := b.Broadcast(columns, all, 1, 2)
	rest := b.Sub(b.Select(place, own, b.Like(own, 0)), b.Mul(state, over(read)))
	u := b.Broadcast(b.Sum(rest, 2), all, 0, 1)
	e.State = b.Add(state, b.Mul(u, over(e.By(k, beta(1, s.K)))))
	if e.V.Numerics.PrecState != ir.PrecF32 {
		return e.Dot(q, e.State, false, true, e.V.Numerics.PrecState)
	}
	o := b.Broadcast(b.Sum(b.Mul(e.State, over(q)), 2), all, 0, 1)
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
