package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// work is what the state step of the chunks in flight needs, each of N entries.
type work struct {
	q, k *ir.Value // of key heads
	v    *ir.Value
	t, p *ir.Value
	u, w *ir.Value // form uw
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
		w.v = e.b.Convert(e.loadRows(e.in.v), ir.F32)
		if e.lead > 0 {
			w.v = e.b.Concat(2, e.b.Const(ir.T(ir.F32, w.v.Type.Shape[0], e.c, e.lead), 0), w.v)
		}
	}
	if e.ready != nil {
		w.gates = *e.ready
	} else {
		w.gates = e.loadGates()
		e.sums(&w.gates)
	}
	has := func(o *operand) bool { return o != nil && e.blocks[o] != nil }
	needT := !has(e.in.t) && !has(e.in.u) && e.s.Rule.Writes()
	needP := w.q != nil && !has(e.in.p)
	if needT || needP {
		var q, negKK, qk *ir.Value
		if needP {
			q = w.q
		}
		switch {
		case w.channels != nil:
			var kk *ir.Value
			kk, qk = e.channelProducts(w.channels, q, w.k, needT)
			if needT {
				negKK = e.negated(w, kk)
			}
		case needT:
			var kk *ir.Value
			kk, qk = e.products(q, w.k)
			negKK = e.negated(w, kk)
		default:
			qk = e.queryProducts(q, w.k)
		}
		negA, p := e.weights(negKK, qk, e.decay(w.gates), w.gates)
		w.p = p
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
	w.grown = e.exp(w.sum)
	w.restK = e.rest(w)
	w.stateK = e.perValue(w.k)
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
	return e.Store(e.byRows(x, grown))
}

func (e *chunkwise) foldedQuery(w *work, x, grown *ir.Value) *ir.Value {
	if w.channels != nil {
		return w.channels.Times(x, e.scaled(w.channels.Risen))
	}
	return e.Store(e.byRows(x, e.scaled(grown)))
}

// explicit makes U = T beta V and W = T beta exp(G) K, beta being in T's columns already where it is on the right.
func (e *chunkwise) explicit(w *work) {
	b := e.b.Stage("uw")
	ku, kw := w.v, b.Convert(e.perValue(w.k), ir.F32)
	if grown := e.exp(w.sum); grown != nil {
		kw = b.Mul(kw, e.Column(grown, e.s.K))
	}
	if e.v.Beta == gdn.BetaLeft {
		ku = b.Mul(ku, e.Column(w.beta, e.s.V))
		kw = b.Mul(kw, e.Column(w.beta, e.s.K))
	}
	if w.inverse != nil {
		kw = b.Mul(kw, e.perValue(e.Column(w.inverse, e.s.K)))
	}
	w.u = e.Store(e.Dot(w.t, e.Store(ku), false, false, e.v.ApplyPrecision()))
	w.w = e.Store(e.Dot(w.t, e.Store(kw), false, false, e.v.ApplyPrecision()))
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
	grown := e.exp(w.sum)
	k, q, shared := w.k, w.q, e.sharesState()
	var restK *ir.Value
	if !shared {
		restK, k = e.rest(w), e.perValue(k)
		if q != nil {
			q = e.perValue(q)
		}
	}
	if e.v.Fold {
		k = e.folded(w, k, grown)
		if q != nil {
			q = e.foldedQuery(w, q, grown)
		}
	} else if e.v.Out == gdn.OutJoined && q != nil { // without decay
		q = e.Store(e.scaled(b.Convert(q, ir.F32)))
	}
	var turnedK, left *ir.Value // for an update in which K is as it is
	switch {
	case e.v.UpdatePrecision() != e.v.PrecState:
		turnedK, left = e.perValue(e.Turned(w.k)), e.remains(w)
	case e.v.Rest == gdn.RestValue:
		left = e.remains(w)
	}
	unit, length, share := e.normColumns(w)
	var outs []*ir.Value
	for c := range e.v.Chunks {
		b.At(ir.Task{Stage: "state", Chunk: c, Head: -1})
		at := func(x *ir.Value) *ir.Value { return e.ofChunk(x, c) }
		grow := func(x, by *ir.Value) *ir.Value {
			if e.v.Fold || by == nil {
				return x
			}
			return b.Mul(e.Column(by, e.s.V), x)
		}
		read := func(qS, up *ir.Value) *ir.Value { // Q S, decayed and scaled
			if e.v.Fold {
				return qS
			}
			if up == nil {
				return e.scaled(qS)
			}
			return grow(qS, e.scaled(up))
		}
		if e.enter != nil {
			e.state = e.enter(c)
		}
		state := e.state
		up := at(grown)
		kS, qS := e.stateProducts(at(k), at(q), state)
		var u *ir.Value
		if !e.s.Rule.Writes() {
			u = at(w.v)
		} else if e.v.Form == gdn.FormUW {
			u = b.Sub(b.Convert(at(w.u), ir.F32), e.Dot(at(w.w), state, false, false, e.v.PrecState))
		} else {
			r := b.Sub(at(w.v), e.By(grow(kS, up), at(unit)))
			if e.v.Beta == gdn.BetaLeft {
				r = b.Mul(r, e.Column(at(w.beta), e.s.V))
			}
			u = e.solver().Applied(at(w.t), e.Store(r), false)
		}
		exact := u
		if !e.s.Rule.Writes() && unit == nil && e.s.DType == ir.BF16 {
			u = e.Store(u) // V is exact
		} else {
			u = e.StoreValues(u, at(unit), at(length))
		}
		kept := u
		if unit != nil {
			kept = e.Store(exact)
		}
		e.before, e.inverted, e.values = append(e.before, state), w.t, append(e.values, kept)
		weighed := u // V' as it meets restK
		switch {
		case left == nil: // K takes the rest, or there is none
		case e.v.Rest == gdn.RestValue && e.v.Feedback > 1: // all are weighed to the end of the chunk: what rounding leaves needs no decay
			weighed = e.StoreValues(b.Mul(exact, e.Column(at(left), e.s.V)), at(unit), at(length))
		case e.v.Rest == gdn.RestValue:
			weighed = e.Store(b.Mul(e.By(exact, at(unit)), e.Column(at(left), e.s.V)))
		}
		var added *ir.Value // K^T V'
		switch {
		case q == nil:
			// There is no output: states alone are wanted.
		case e.v.Out == gdn.OutShared && e.v.UpdatePrecision() == e.v.PrecState:
			both := e.Dot(e.Concat(1, at(w.p), at(restK)), u, false, false, e.v.PrecState)
			own := b.SliceAxis(both, 1, 0, e.c)
			outs = append(outs, b.Add(read(qS, up), own))
			added = b.SliceAxis(both, 1, e.c, e.c+e.s.K)
		case e.v.Out == gdn.OutJoined:
			left, right := e.Concat(2, at(q), at(w.p)), e.Concat(1, e.Store(state), u)
			outs = append(outs, e.Dot(left, right, false, false, e.v.PrecState))
		default:
			own := e.Dot(at(w.p), u, false, false, e.v.PrecIntra)
			outs = append(outs, b.Add(read(qS, up), own))
		}
		switch {
		case shared: // the rest of the decay goes to V'
			rest := b.Transpose(e.Store(e.byRows(u, at(e.remains(w)))), 0, 2, 1)
			added = e.Dot(e.sideBySide(rest), at(k), false, false, e.v.PrecState)
		case e.valueFirst:
			added = e.Dot(weighed, at(restK), true, false, e.v.PrecState)
		case added != nil:
		case e.v.UpdatePrecision() != e.v.PrecState: // K is exact, V' is in parts: the rest of the decay goes to V'
			added = e.Dot(at(turnedK), e.Store(e.byRows(u, at(left))), false, false, e.v.UpdatePrecision())
		default:
			added = e.Dot(at(restK), weighed, e.v.Turn == gdn.TurnValue, false, e.v.PrecState)
		}
		switch {
		case w.channels != nil:
			state = b.Mul(state, e.stateChannels(at(w.channels.Total), state))
		case up != nil:
			state = b.Mul(state, e.stateDecay(up, state))
		}
		e.state = b.Add(state, added)
		if e.leave != nil {
			e.leave(c, e.state)
		}
	}
	b.Stage("output")
	for i, x := range outs {
		outs[i] = e.leaving(x, e.ofChunk(share, i))
	}
	if q == nil {
		return nil
	}
	return []blockOut{e.output(outs)}
}

// ofChunk is what of x belongs to a chunk in flight; nil of nil.
func (e *chunkwise) ofChunk(x *ir.Value, chunk int) *ir.Value {
	if x == nil || e.v.Chunks == 1 {
		return x
	}
	n := x.Type.Shape[0] / e.v.Chunks
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
	if e.v.Rest == gdn.RestValue {
		if e.v.Turn == gdn.TurnKey {
			return e.perValue(e.Turned(w.k))
		}
		return e.perValue(w.k)
	}
	left := e.remains(w)
	if w.channels != nil {
		x := b.Mul(e.element(e.perValue(w.k), gdn.LowOperands), e.element(w.channels.Rest, gdn.LowOperands))
		x = e.Store(e.byRows(x, left))
		if e.v.Turn == gdn.TurnKey {
			x = e.Turned(x)
		}
		return x
	}
	if e.v.Turn == gdn.TurnKey {
		return e.Store(e.byLanes(e.perValue(b.Transpose(w.k, 0, 2, 1)), left))
	}
	return e.Store(e.byRows(e.perValue(w.k), left))
}

// remains [N, C] is the decay that is left after each token, times beta where that is not in V' yet; nil for ones.
func (e *chunkwise) remains(w *work) *ir.Value {
	left := e.exp(w.left)
	if e.v.Beta != gdn.BetaLeft {
		left = e.weighed(left, w.beta)
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
	return e.Dot(rows, state, false, e.valueFirst, e.v.PrecState)
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
		if q.Type.DType != k.Type.DType {
			q, k = b.Convert(q, ir.F32), b.Convert(k, ir.F32)
		}
		both := e.meet(e.Concat(1, k, q), state)
		return e.apart(b.SliceAxis(both, 1, 0, e.c)), e.apart(b.SliceAxis(both, 1, e.c, 2*e.c))
	}
	return e.apart(e.meet(k, state)), e.apart(e.meet(q, state))
}
