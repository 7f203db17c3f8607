package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// work is what the state step of the chunks in flight needs, each of N entries.
type work struct {
	q, k *ir.Value // of key heads
	v    *ir.Value
	t, p *ir.Value
	// Of a rule that erases and writes apart: b K of value heads, by which the state is read; else nil.
	reads *ir.Value
	u, w  *ir.Value // form uw
	// What meets the state, of value heads: K and Q, with exp(G) where folded, and K as its update needs it.
	stateK, stateQ, restK *ir.Value
	grown                 *ir.Value // exp(G) [N, C]
	// Where the kernel normalizes keys: 1/|k|, |k|, and 1/|q| with a scale that the output takes, [N of key heads, C].
	inverse, length, query *ir.Value
	gates
}

// stateFree does the work that needs no state; what an earlier grid made is loaded.
func (e *chunkwise) stateFree() *work {
	w := &work{}
	if e.blocks[e.in.q] != nil {
		w.q = e.productKey(e.in.q)
	}
	w.k = e.productKey(e.in.k)
	if e.blocks[e.in.v] != nil {
		w.v = e.led(e.loadValues())
	}
	if e.ready != nil {
		w.gates = *e.ready
	} else {
		w.gates = e.loadGates()
		e.sums(&w.gates)
	}
	w.reads = e.reading(w.gates, w.k)
	has := func(o *operand) bool { return o != nil && e.blocks[o] != nil }
	needT := !has(e.in.t) && !has(e.in.u) && e.s.Rule.Writes()
	needP := w.q != nil && !has(e.in.p)
	if needT || needP {
		var q, negA, negKK, qk *ir.Value
		if needP {
			q = w.q
		}
		switch {
		case w.channels != nil:
			negA, w.p = e.channelPairs(w, q, needT)
		case needT:
			var kk *ir.Value
			kk, qk = e.products(q, w.k)
			negKK = e.negated(w, kk)
		default:
			qk = e.queryProducts(q, w.k)
		}
		if w.channels == nil {
			negA, w.p = e.weights(negKK, qk, e.decay(w.gates), w.gates)
		}
		if needT {
			w.t = e.solver().Invert(negA)
		}
	}
	e.b.Stage("load")
	if e.normalizes() && w.inverse == nil {
		e.norms(w, nil)
	}
	for _, l := range []struct {
		o  *operand
		to **ir.Value
	}{{e.in.t, &w.t}, {e.in.p, &w.p}, {e.in.u, &w.u}, {e.in.w, &w.w}} {
		if has(l.o) {
			*l.to = e.loadMade(l.o)
		}
	}
	if e.state != nil {
		e.stateOperands(w)
	}
	if e.v.Form == gdn.FormUW && w.u == nil && w.v != nil {
		e.explicit(w)
	}
	return w
}

// stateOperands makes what meets the state.
func (e *chunkwise) stateOperands(w *work) {
	e.b.Stage("operands")
	w.grown = e.Exp(w.Sum)
	w.restK = e.rest(w)
	w.stateK = cmp.Or(w.reads, e.perValue(w.k))
	if e.v.Fold {
		w.stateK = e.folded(w, w.stateK, w.grown)
	}
	if w.q == nil {
		return
	}
	if w.stateQ = e.perValue(w.q); e.v.Fold {
		w.stateQ = e.foldedQuery(w, w.stateQ, w.grown)
	}
}

// folded is K of value heads with what is left at each token of the state before the chunk, grown where a head has one decay, as it meets that
// state; foldedQuery is Q, with the scale.
func (e *chunkwise) folded(w *work, x, grown *ir.Value) *ir.Value {
	if w.channels != nil {
		return w.channels.Times(x, w.channels.Risen)
	}
	return e.Store(e.ByRows(x, grown))
}

func (e *chunkwise) foldedQuery(w *work, x, grown *ir.Value) *ir.Value {
	if w.channels != nil {
		return w.channels.Times(x, e.scaled(w.channels.Risen))
	}
	return e.Store(e.ByRows(x, e.scaled(grown)))
}

// explicit makes U = T beta V and W = T beta exp(G) K, beta being in T's columns already where it is on the right.
func (e *chunkwise) explicit(w *work) {
	b := e.b.Stage("uw")
	ku, kw := w.v, b.Convert(e.perValue(w.k), ir.F32)
	if grown := e.Exp(w.Sum); grown != nil {
		kw = b.Mul(kw, e.Column(grown, e.s.K))
	}
	if e.v.Beta == gdn.BetaLeft {
		ku = b.Mul(ku, e.Column(w.beta, e.s.V))
		kw = b.Mul(kw, e.Column(w.beta, e.s.K))
	}
	if w.inverse != nil {
		kw = b.Mul(kw, e.perValue(e.Column(w.inverse, e.s.K)))
	}
	w.u = e.Store(e.Dot(w.t, e.Store(ku), false, false, e.v.ApplyPrecision())) // T beta V
	w.w = e.Store(e.Dot(w.t, e.Store(kw), false, false, e.v.ApplyPrecision())) // T beta e^G K
}

// fused does everything in one grid, or everything but what an earlier grid made.
func (e *chunkwise) fused() []blockOut { return e.steps(e.stateFree()) }

// intra makes T and P, or U, W and P.
func (e *chunkwise) intra() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	if e.v.Form == gdn.FormUW {
		return []blockOut{e.made(w.u), e.made(w.w), e.made(w.p)}
	}
	return []blockOut{e.made(w.t), e.made(w.p)}
}

// inverse makes T alone.
func (e *chunkwise) inverse() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	return []blockOut{e.made(w.t)}
}

// steps takes the chunks in flight through the state, in order.
func (e *chunkwise) steps(w *work) []blockOut {
	b := e.b.Stage("state")
	f := e.flight(w)
	var outs []*ir.Value
	for c := range e.v.Mapping.Chunks {
		b.At(ir.Task{Stage: "state", Chunk: c, Head: -1})
		if o := e.step(f, func(x *ir.Value) *ir.Value { return e.ofChunk(x, c) }, c); o != nil {
			outs = append(outs, o)
		}
	}
	b.Stage("output")
	for i, x := range outs {
		outs[i] = e.leaving(x, e.ofChunk(f.share, i))
	}
	if w.q == nil {
		return nil
	}
	return []blockOut{e.output(outs)}
}

// flight is what the chunks in flight take to the state.
type flight struct {
	*work
	grown         *ir.Value // [N, C], the decay from the state to each token; nil where there is none, or each channel has one
	k, q          *ir.Value // as they meet the state; of key heads where those share it
	restK         *ir.Value // K with the decay that is left, of the update K^T V'
	turnedK, left *ir.Value // for an update in which K is as it is: K^T, and what V' takes of the decay in its place
	shared        bool      // value heads of a key head meet the states in one product
	unit, length  *ir.Value // norms, nil of none
	share         *ir.Value
	writes        *ir.Value // the write gate, of a rule that has one
}

func (e *chunkwise) flight(w *work) *flight {
	b := e.b
	f := &flight{work: w, grown: e.Exp(w.Sum), k: w.k, q: w.q, shared: e.sharesState()}
	if !f.shared {
		f.restK, f.k = e.rest(w), cmp.Or(w.reads, e.perValue(f.k))
		if f.q != nil {
			f.q = e.perValue(f.q)
		}
	}
	if e.v.Fold {
		f.k = e.folded(w, f.k, f.grown)
		if f.q != nil {
			f.q = e.foldedQuery(w, f.q, f.grown)
		}
	} else if e.v.Out == gdn.OutJoined && f.q != nil { // without decay
		f.q = e.Store(e.scaled(b.Convert(f.q, ir.F32)))
	}
	switch {
	case e.v.UpdatePrecision() != e.v.Numerics.PrecState:
		f.turnedK, f.left = e.perValue(e.Turned(w.k)), e.remains(w)
	case e.v.TailDecay == gdn.TailDecayV:
		f.left = e.remains(w)
	}
	f.unit, f.length, f.share = e.normColumns(w)
	f.writes = e.writes()
	return f
}

// step takes a chunk in flight, of which at gives values, through the state: the output [batch x heads, C, V], nil where none is wanted.
func (e *chunkwise) step(f *flight, at func(*ir.Value) *ir.Value, c int) *ir.Value {
	if e.enter != nil {
		e.state = e.enter(c)
	}
	state := e.state
	up := at(f.grown)
	kS, qS := e.stateProducts(at(f.k), at(f.q), state) // all that waits for the chunk before, with what follows
	exact := e.written(f, at, kS, up)                  // V', or U where beta is in the columns
	u := exact
	if !e.s.Rule.Writes() && f.unit == nil && e.s.DType == ir.BF16 {
		u = e.Store(u) // V is exact
	} else {
		u = e.StoreValues(u, at(f.unit), at(f.length), at(f.writes))
	}
	kept := u
	switch {
	case e.v.Inverse.Refine && f.channels != nil: // W, as the backward pass takes it
		kept = tile.Held(e.Body, tile.OnRows(e.Body, e.By(exact, at(f.unit)), at(f.beta)), e.v.GradPrecision())
	case f.unit != nil:
		kept = e.Store(exact)
	}
	e.before, e.inverted, e.values = append(e.before, state), f.t, append(e.values, kept)
	weighed := u // V' as it meets restK
	switch {
	case f.left == nil: // K takes the rest, or there is none
	case e.v.TailDecay == gdn.TailDecayV && e.v.Numerics.ErrorFeedback > 1: // all are weighed to the end of the chunk: what rounding leaves needs no decay
		weighed = e.StoreValues(e.b.Mul(exact, e.Column(at(f.left), e.s.V)), at(f.unit), at(f.length), at(f.writes))
	case e.v.TailDecay == gdn.TailDecayV:
		weighed = e.Store(e.b.Mul(e.By(exact, at(f.unit)), e.Column(at(f.left), e.s.V)))
	}
	o, added := e.outputOf(f, at, u, qS, up)
	if added = e.update(f, at, u, weighed, added); f.channels != nil {
		state = e.b.Mul(state, e.stateChannels(at(f.channels.Total), state))
	} else if up != nil {
		state = e.b.Mul(state, e.stateDecay(up, state))
	}
	e.state = e.b.Add(state, added) // e^GC S + (e^(GC-G) K)^T V'
	e.after = append(e.after, e.state)
	if e.leave != nil {
		e.leave(c, e.state)
	}
	return o
}

// grow is x times the decay from the state, unless K and Q have it.
func (e *chunkwise) grow(x, by *ir.Value) *ir.Value {
	if e.v.Fold || by == nil {
		return x
	}
	return e.b.Mul(e.Column(by, e.s.V), x)
}

// written is V' of a chunk: what the rule writes for each token.
func (e *chunkwise) written(f *flight, at func(*ir.Value) *ir.Value, kS, up *ir.Value) *ir.Value {
	b := e.b
	switch {
	case !e.s.Rule.Writes():
		return at(f.v)
	case e.v.Form == gdn.FormUW:
		return b.Sub(b.Convert(at(f.u), ir.F32), e.Dot(at(f.w), e.state, false, false, e.v.Numerics.PrecState))
	}
	r := b.Sub(at(f.v), e.By(e.grow(kS, up), at(f.unit))) // V - e^G K S
	if e.v.Beta == gdn.BetaLeft {
		r = b.Mul(r, e.Column(at(f.beta), e.s.V))
	}
	return e.solver().Applied(at(f.t), e.Store(r), false) // T r
}

// outputOf is the output of a chunk, Q S decayed and scaled with P V'; and K^T V' where that is of the same product.
func (e *chunkwise) outputOf(f *flight, at func(*ir.Value) *ir.Value, u, qS, up *ir.Value) (o, added *ir.Value) {
	b := e.b
	read := func() *ir.Value {
		switch {
		case e.v.Fold:
			return qS
		case up == nil:
			return e.scaled(qS)
		}
		return e.grow(qS, e.scaled(up))
	}
	switch {
	case f.q == nil: // states alone are wanted
		return nil, nil
	case e.v.Out == gdn.OutShared && e.v.UpdatePrecision() == e.v.Numerics.PrecState:
		both := e.Dot(e.Concat(1, at(f.p), at(f.restK)), u, false, false, e.v.Numerics.PrecState) // [P; (e^(GC-G) K)^T] V': one pass of V' through the unit as weights
		own := b.SliceAxis(both, 1, 0, e.c)
		o = b.Add(read(), own)
		return o, b.SliceAxis(both, 1, e.c, e.c+e.s.K)
	case e.v.Out == gdn.OutJoined:
		left, right := e.Concat(2, at(f.q), at(f.p)), e.Concat(1, e.Store(e.state), u) // [e^G Q, P] [S; V']: the unit adds both
		return e.Dot(left, right, false, false, e.v.Numerics.PrecState), nil
	}
	own := e.Dot(at(f.p), u, false, false, e.v.Numerics.PrecIntra) // P V'
	return b.Add(read(), own), nil
}

// update is K^T V' of a chunk, with the decay that is left after each token: added where that was made before.
func (e *chunkwise) update(f *flight, at func(*ir.Value) *ir.Value, u, weighed, added *ir.Value) *ir.Value {
	switch {
	case f.shared: // the rest of the decay goes to V'
		rest := e.b.Transpose(e.Store(e.ByRows(u, at(e.remains(f.work)))), 0, 2, 1)
		return e.Dot(e.sideBySide(rest), at(f.k), false, false, e.v.Numerics.PrecState)
	case e.valueFirst:
		return e.Dot(weighed, at(f.restK), true, false, e.v.Numerics.PrecState)
	case added != nil:
		return added
	case e.v.UpdatePrecision() != e.v.Numerics.PrecState: // K is exact, V' is in parts: the rest of the decay goes to V'
		return e.Dot(at(f.turnedK), e.Store(e.ByRows(u, at(f.left))), false, false, e.v.UpdatePrecision())
	}
	return e.Dot(at(f.restK), weighed, e.v.TransposeK == gdn.TransposeValue, false, e.v.Numerics.PrecState)
}

// ofChunk is what of x belongs to a chunk in flight; nil of nil.
func (e *chunkwise) ofChunk(x *ir.Value, chunk int) *ir.Value {
	if x == nil || e.v.Mapping.Chunks == 1 {
		return x
	}
	n := x.Type.Shape[0] / e.v.Mapping.Chunks
	return e.Sliced(x, chunk*n, (chunk+1)*n)
}

// normColumns are what norms has taken, in all lanes [N, C, V]; nil where the kernel does not normalize keys.
func (e *chunkwise) normColumns(w *work) (unit, length, query *ir.Value) {
	if w.inverse == nil {
		return nil, nil, nil
	}
	over := func(x *ir.Value) *ir.Value { return e.perValue(e.Column(x, e.s.V)) }
	if w.query != nil {
		query = over(w.query)
	}
	return over(w.inverse), over(w.length), query
}

// leaving is an output with what its products left out: the share of normColumns, or the scale.
func (e *chunkwise) leaving(x, share *ir.Value) *ir.Value {
	switch {
	case share != nil:
		return e.b.Mul(x, share)
	case e.v.Scale == gdn.ScaleOutput:
		return e.b.Scale(x, e.s.EffectiveScale())
	}
	return x
}

// rest is what K turns into for the state's update: its rows by the decay that is left after each token, and by beta where
// that is not in V' yet, unless V' takes both. It is [N, C, K], or [N, K, C] where it is turned before.
func (e *chunkwise) rest(w *work) *ir.Value {
	b := e.b
	if e.v.TailDecay == gdn.TailDecayV {
		if e.v.TransposeK == gdn.TransposeKey {
			return e.perValue(e.Turned(w.k))
		}
		return e.perValue(w.k)
	}
	left := e.remains(w)
	if w.channels != nil {
		x := b.Mul(e.Element(e.perValue(w.k), gdn.DecayBF16Operands), e.Element(w.channels.Rest, gdn.DecayBF16Operands))
		x = e.Store(tile.OnRows(e.Body, x, left))
		if e.v.TransposeK == gdn.TransposeKey {
			x = e.Turned(x)
		}
		return x
	}
	if e.v.TransposeK == gdn.TransposeKey {
		return e.Store(e.ByLanes(e.perValue(b.Transpose(w.k, 0, 2, 1)), left))
	}
	return e.Store(e.ByRows(e.perValue(w.k), left))
}

// remains [N, C] is the decay that is left after each token, times beta where that is not in V' yet; nil for ones.
func (e *chunkwise) remains(w *work) *ir.Value {
	left := e.Exp(w.Left) // e^(GC-G)
	if e.v.Beta != gdn.BetaLeft {
		left = e.Weighed(left, w.beta)
	}
	return left
}

// stateDecay spreads what is left of the state before a chunk over its elements.
func (e *chunkwise) stateDecay(grown, state *ir.Value) *ir.Value {
	s := state.Type.Shape
	rows := s[0] * s[1] / grown.Type.Shape[0]
	return e.b.Reshape(e.Scalar(grown, e.c-1, rows, s[2]), s...)
}

// stateChannels spreads what is left of each channel [N, 1, K] over the state.
func (e *chunkwise) stateChannels(total, state *ir.Value) *ir.Value {
	if e.valueFirst {
		return e.b.Broadcast(total, state.Type.Shape, 0, 1, 2)
	}
	return e.b.Broadcast(e.b.Transpose(total, 0, 2, 1), state.Type.Shape, 0, 1, 2)
}

// sharesState says whether the value heads of a key head meet K and Q in one product: their states [V, K] lie one below the other,
// [N of key heads, heads V, K].
func (e *chunkwise) sharesState() bool { return e.valueFirst && e.v.Share && !e.v.Fold && e.gb > 1 }

// sideBySide joins what belongs to the value heads of a key head: [N of value heads, R, L] to [N of key heads, heads R, L].
func (e *chunkwise) sideBySide(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.b.Reshape(x, s[0]/e.gb, e.gb*s[1], s[2])
}

// meet is rows [N, C, K] by the state, and apart brings that, or some rows of it, to [N of value heads, C, V].
func (e *chunkwise) meet(rows, state *ir.Value) *ir.Value {
	return e.Dot(rows, state, false, e.valueFirst, e.v.Numerics.PrecState)
}

func (e *chunkwise) apart(x *ir.Value) *ir.Value {
	if !e.sharesState() {
		return x
	}
	b, s := e.b, x.Type.Shape
	x = b.Transpose(b.Reshape(x, s[0], s[1], e.gb, e.s.V), 0, 2, 1, 3)
	return b.Reshape(x, s[0]*e.gb, s[1], e.s.V)
}

// stateProducts are K S and Q S, where the form needs them.
func (e *chunkwise) stateProducts(k, q, state *ir.Value) (kS, qS *ir.Value) {
	b := e.b
	needK, needQ := e.v.Form != gdn.FormUW && e.s.Rule.Writes(), e.v.Out != gdn.OutJoined && q != nil
	switch {
	case !needK && !needQ:
		return nil, nil
	case !needK:
		return nil, e.apart(e.meet(q, state))
	case !needQ:
		return e.apart(e.meet(k, state)), nil
	case e.v.KQ == gdn.JointJoined:
		both := e.meet(e.Concat(1, k, q), state)
		return e.apart(b.SliceAxis(both, 1, 0, e.c)), e.apart(b.SliceAxis(both, 1, e.c, 2*e.c))
	}
	return e.apart(e.meet(k, state)), e.apart(e.meet(q, state))
}
