package chunkwise

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Chunks passes the chunks in flight through the states of a grid step.
//
// Chunks in flight (chunks=n of a variant) are n successive chunks of one grid step. Work that needs no state is done
// for all of them interleaved, as N entries. Then they pass through the state one after another:
//
//	chunks=2, 2 value heads   entries 0 1 2 3 = (chunk 0, head 0) (chunk 0, head 1) (chunk 1, head 0) (chunk 1, head 1)
//	step                      State -> chunk 0, entries 0 1 -> After[0] -> chunk 1, entries 2 3 -> After[1]
//
// In a stream of packed sequences, chunks in flight may belong to different sequences. Then a chunk does not continue
// from the previous chunk's state: Enter returns the state of its sequence, and Exit stores the state after it.
type Chunks struct {
	Rule
	State *ir.Value   // [batch x heads, K, V] f32, or [batch x heads, V, K]: that of the next chunk; nil where the step has none
	After []*ir.Value // the states after each chunk in flight

	ValueFirst bool                             // states are [V, K]
	Enter      func(chunk int) *ir.Value        // where not nil, the state before a chunk in flight
	Exit       func(chunk int, state *ir.Value) // and what takes the state after it

	// Of the chunks in flight, as they are taken through the state, for what a training step keeps: the state before each, and U; and T of all.
	Before, Values []*ir.Value
	Inverted       *ir.Value
}

// Work has the operands of the state step, for N entries. A caller sets Q, K, V, the gates, and those of T, P, U and W
// that an earlier grid computed; Pairs and Operands compute the others.
type Work struct {
	Q, K *ir.Value // [N of key heads, C, K]; Q is nil where no output is wanted
	V    *ir.Value // [N, C, V] f32
	T, P *ir.Value // [N, C, C]
	U, W *ir.Value // form uw: [N, C, V] and [N, C, K]
	// With separate erase and write gates: b K of value heads, which reads the state; else nil.
	reads *ir.Value
	*meeting
	maps, adds *ir.Value // form map: what takes the state to output and state, [N, C + K, K], and what they add to it, [N, C + K, V]
	// Where the kernel normalizes keys: 1/|k|, |k|, and 1/|q| with a scale that the output takes, [N of key heads, C].
	inverse, length, query *ir.Value
	Gates
}

// Operands computes K and Q as they are multiplied by the state, if the step has a state; and U and W in form uw,
// unless an earlier grid did. A grid that computes only T and P has no state.
//
// The operands are in stage operands, with the work that needs no state, so that a schedule can overlap them with it.
// By auto on v6e, bench takes 60179 in-order cycles, and 65156 with the operands in stage state. Variant tpu, whose
// steps overlap in more phases, takes 35767 at 2048 tokens, and 37020 with the operands in stage operands.
func (e *Chunks) Operands(w *Work) {
	if e.State != nil {
		e.B.Stage("operands")
		w.meeting = e.meeting(w)
	}
	switch {
	case e.V.Form == gdn.FormUW && w.U == nil && w.V != nil:
		e.explicit(w)
	case e.V.Form == gdn.FormMap && e.State != nil:
		e.affine(w)
	}
}

// meeting makes the operands of products with the state, for all chunks in flight, in the current stage.
func (e *Chunks) meeting(w *Work) *meeting {
	m := &meeting{expG: e.Exp(w.Sum).Called("growth"), k: w.K, q: w.Q, shared: e.SharesState()}
	if !m.shared {
		m.restK, m.k = e.rest(w), cmp.Or(w.reads, e.PerValue(w.K))
	}
	if e.V.Fold {
		m.k = e.folded(w, m.k, m.expG)
	}
	if w.Q == nil {
		return m
	}
	if !m.shared {
		m.q = e.PerValue(w.Q)
	}
	if e.V.Fold {
		m.q = e.foldedQuery(w, m.q, m.expG)
	}
	return m
}

// folded is K of value heads times the decay from the state before the chunk to each token (grown, with one decay a head), for its product with that
// state; foldedQuery is Q, with the scale.
//
// e^G (K S) = (e^G K) S: the weight may stand in the rows of K before the state is there (fold=yes), or in those of K S after it, as many numbers
// where K = V, but on the way that the next chunk waits for. A decay a channel is not the same for all of a row, so it can stand in K alone.
func (e *Chunks) folded(w *Work, x, grown *ir.Value) *ir.Value {
	if w.Channels != nil {
		return w.Channels.Times(x, w.Channels.Risen)
	}
	return e.byExpSums(w, x, grown, func(x *ir.Value) *ir.Value { return x }, "k_grown")
}

func (e *Chunks) foldedQuery(w *Work, x, grown *ir.Value) *ir.Value {
	if w.Channels != nil {
		return w.Channels.Times(x, e.scaled(w.Channels.Risen))
	}
	return e.byExpSums(w, x, grown, e.scaled, "q_grown")
}

// byExpSums weighs the rows of x by exp(G), times a scale. Where weights come from transposes, that of G is there already: Between has it.
func (e *Chunks) byExpSums(w *Work, x, grown *ir.Value, scaled func(*ir.Value) *ir.Value, name string) *ir.Value {
	switch {
	case grown == nil:
		return e.Store(e.ByRows(x, scaled(grown)))
	case !tile.TurnsWeights(e.V):
		return e.Store(e.ByRows(x, scaled(grown)).Called(name))
	}
	column := scaled(e.Exp(tile.TurnedColumn(e.B, w.Sum, x.Type.Shape[2])).Called("growth"))
	return e.Store(e.B.Mul(e.Element(x, gdn.DecayBF16Rows), e.Element(column, gdn.DecayBF16Rows)).Called(name))
}

// explicit makes U = T beta V and W = T beta exp(G) K without the state, so that V' = U - W S is one product behind it in place of two, K S and T R.
// It takes two products with T, of V and of K, where form vprime takes one. Beta is in A's columns where it is on the right: then T takes V and
// exp(G) K as they are.
//
// With keys that are normalized here, W has their lengths too: T is that of keys of length 1, and reads the state by such.
func (e *Chunks) explicit(w *Work) {
	b := e.B.Stage("uw")
	ku, kw := w.V, b.Convert(e.PerValue(w.K), ir.F32)
	if grown := e.Exp(w.Sum); grown != nil {
		kw = b.Mul(kw, e.Column(grown, e.Spec.K)).Called("k_w")
	}
	ku, kw = e.behindT(w, ku, kw)
	w.U = e.Store(e.Dot(w.T, e.Store(ku), false, false, e.V.ApplyPrecision()).Called("u")) // T beta V
	w.W = e.Store(e.Dot(w.T, e.Store(kw), false, false, e.V.ApplyPrecision()).Called("w")) // T beta e^G K
}

// behindT weighs V and K of value heads as T takes them, in float32: by beta if it is on the left, and K by 1/|k| where keys are normalized here.
func (e *Chunks) behindT(w *Work, v, k *ir.Value) (*ir.Value, *ir.Value) {
	b := e.B
	if e.V.Beta == gdn.BetaLeft {
		v = b.Mul(v, e.Column(w.Beta, e.Spec.V)).Called("k_u")
		k = b.Mul(b.Convert(k, ir.F32), e.Column(w.Beta, e.Spec.K)).Called("k_w")
	}
	if w.inverse != nil {
		k = b.Mul(b.Convert(k, ir.F32), e.PerValue(e.Column(w.inverse, e.Spec.K)))
	}
	return v, k
}

// affine makes the output and the next state affine maps of the state, so that one product stands between a state and the next one, where form uw has
// two and vprime three. With F = e^G K, the operand of the product with the state, beta in its rows if it is on the left, and E = e^(G_C - G) K, all but S ahead of S:
//
//	[P; E^T] T [F V] = [A Z]     O  = (e^G Q - A) S + Z
//	                   [B N]     S' = e^(G_C) S - B S + N
//
// Of keys that are normalized here T has 1/|k| in its rows, for P and E, and F in its own. That is one rounding for all of a token, whose bias the exam
// sees; in P and E keys alike would no longer cancel in E^T T. So auto takes it for keys as they are given.
func (e *Chunks) affine(w *Work) {
	b, m := e.B.Stage("uw"), w.meeting
	v, f := e.behindT(w, w.V, m.k)
	t := w.T
	if w.inverse != nil {
		t = e.Store(b.Mul(b.Convert(t, ir.F32), e.PerValue(e.Column(w.inverse, e.C))).Called("t_unit"))
	}
	left := m.restK
	if w.P != nil {
		left = e.Concat(1, w.P, left)
	}
	applied := e.Store(e.Dot(left, t, false, false, e.V.ApplyPrecision()).Called("pk_t"))
	both := e.Dot(applied, e.Concat(2, e.Store(f), e.Store(v)), false, false, e.V.ApplyPrecision()).Called("map")
	rows := both.Type.Shape[1]
	w.maps, w.adds = b.SliceAxis(both, 2, 0, e.Spec.K), b.SliceAxis(both, 2, e.Spec.K, e.Spec.K+e.Spec.V)
	if m.q != nil {
		query := b.Convert(m.q, ir.F32)
		if !e.V.Fold { // a rule without decay: the scale is not in Q yet
			query = e.scaled(query)
		}
		query = b.Sub(query, b.SliceAxis(w.maps, 1, 0, e.C)).Called("map_q")
		w.maps = b.Concat(1, query, b.SliceAxis(w.maps, 1, e.C, rows))
	}
	w.maps = e.Store(w.maps)
}

// mapped gives the output of a chunk, and what it adds to the decayed state, by its affine map (affine).
func (e *Chunks) mapped(f *flight, at func(*ir.Value) *ir.Value) (o, added *ir.Value) {
	b, adds := e.B, at(f.adds)
	met := e.Dot(at(f.maps), e.State, false, false, e.V.Numerics.PrecState).Called("map_state")
	rows := met.Type.Shape[1]
	if f.q != nil {
		o = b.Add(b.SliceAxis(met, 1, 0, e.C), b.SliceAxis(adds, 1, 0, e.C)).Called("o")
	}
	return o, b.Sub(b.SliceAxis(adds, 1, rows-e.Spec.K, rows), b.SliceAxis(met, 1, rows-e.Spec.K, rows)).Called("added")
}

// Through passes the chunks in flight through the state, in order, and returns the output of each, [batch x heads, C,
// V]; none without queries. writes loads the write gate of a rule with separate erase and write gates, after the other
// operands; for other rules it returns nil.
//
// The task of each instruction names its chunk, so that a schedule can separate the chunks of a step. Outputs are
// scaled after the last chunk, so no chunk waits for the scaling.
func (e *Chunks) Through(w *Work, writes func() *ir.Value) []*ir.Value {
	b := e.B.Stage("state")
	f := e.flight(w)
	f.writes = writes()
	var outs []*ir.Value
	for c := range e.V.Mapping.Chunks {
		b.At(ir.Task{Stage: "state", Chunk: c, Head: -1})
		if o := e.step(f, func(x *ir.Value) *ir.Value { return e.ofChunk(x, c) }, c); o != nil {
			outs = append(outs, o)
		}
	}
	b.Stage("output")
	for i, x := range outs {
		outs[i] = e.leaving(x, e.ofChunk(f.share, i))
	}
	return outs
}

// meeting holds the operands of the state's products, made before the state is there.
type meeting struct {
	expG   *ir.Value // [N, C], the decay from the state to each token; nil where there is none, or each channel has one
	k, q   *ir.Value // K and Q for products with the state; of key heads if value heads share the product
	restK  *ir.Value // K with the decay that is left, of the update K^T V'
	shared bool      // value heads of a key head share one product with the states
}

// flight is what the chunks in flight take to the state, each of all of them; step takes its chunk's part by at.
type flight struct {
	*Work
	*meeting
	turnedK, tail *ir.Value // for an update in which K is as it is: K^T, and what V' takes of the decay in its place
	unit, length  *ir.Value // norms, nil of none
	share         *ir.Value
	writes        *ir.Value // the write gate, of a rule that has one
}

// flight makes it. K of the update takes the decay that is left, or V' does:
//
//	tail_decay=k      (e^(G_C - G) K)^T V'      K is weighed ahead of the state, and rounded again
//	tail_decay=v      K^T (e^(G_C - G) V')      K is as it was given; V' is weighed and stored a second time, behind T R
//	precupdate apart  K^T (e^(G_C - G) V')      in three passes K in bf16 is one part, so they are two, and weighed it would be two parts
//	shared            ((e^(G_C - G) V')^T K)    one K for all value heads of a key head, so nothing of a value head may be in it
func (e *Chunks) flight(w *Work) *flight {
	f := &flight{Work: w, meeting: w.meeting}
	if f.meeting == nil { // the state comes with the chunk
		f.meeting = e.meeting(w)
	}
	if !e.V.Fold && e.V.Out == gdn.OutJoined && f.q != nil { // a rule without decay: nothing to fold, but [Q, P] [S; V'] has the scale in Q
		f.q = e.Store(e.scaled(e.B.Convert(f.q, ir.F32)))
	}
	switch {
	case e.V.UpdatePrecision() != e.V.Numerics.PrecState:
		f.turnedK, f.tail = e.PerValue(e.Turned(w.K)), e.remains(w)
	case e.V.TailDecay == gdn.TailDecayV:
		f.tail = e.remains(w)
	}
	f.unit, f.length, f.share = e.normColumns(w)
	return f
}

// step takes a chunk in flight, of which at gives values, through the state: the output [batch x heads, C, V], nil where none is wanted.
func (e *Chunks) step(f *flight, at func(*ir.Value) *ir.Value, c int) *ir.Value {
	if e.Enter != nil {
		e.State = e.Enter(c)
	}
	take := e.solved
	if f.maps != nil {
		take = e.mapped
	}
	o, added := take(f, at)
	state := e.State
	if up := at(f.expG); f.Channels != nil {
		state = e.B.Mul(state, e.stateChannels(at(f.Channels.Total), state)).Called("decayed")
	} else if up != nil {
		state = e.B.Mul(state, e.stateDecay(up, state)).Called("decayed")
	}
	e.State = e.B.Add(state, added).Called("next_state") // e^GC S + (e^(GC-G) K)^T V'
	e.After = append(e.After, e.State)
	if e.Exit != nil {
		e.Exit(c, e.State)
	}
	return o
}

// solved gives the output of a chunk, and what it adds to the decayed state, by V'.
//
//	kS, qS = K S, Q S                       the first products that wait for the state
//	exact  = T beta (V - e^G kS)            V', or without beta U where that is in the columns, in float32
//	u      = exact as it is stored          what P and the update read
//	o      = scale e^G qS + P u
//	added  = restK^T u                      to e^(G_C) State
//
// Between a state and the next one stand three products, K S, T R and the update, where form uw has two: no schedule makes that way shorter.
//
// Where keys are alike, rounding of u shows in outputs and state, since errors of all tokens add up in one direction of the state. StoreValues hands
// on to later rows what rounding left of earlier ones. V of an additive rule in bf16 is exact as it comes, and has nothing to hand on.
func (e *Chunks) solved(f *flight, at func(*ir.Value) *ir.Value) (o, added *ir.Value) {
	state := e.State
	up := at(f.expG)
	kS, qS := e.stateProducts(at(f.k), at(f.q), state) // all that waits for the chunk before, with what follows
	exact := e.written(f, at, kS, up)                  // V', or U where beta is in the columns
	u := exact
	if !e.Spec.Rule.Writes() && f.unit == nil && e.Spec.DType == ir.BF16 {
		u = e.Store(u) // V is exact
	} else {
		u = e.StoreValues(u, at(f.unit), at(f.length), at(f.writes))
	}
	kept := u // U as the backward pass takes it
	switch {
	case e.V.Inverse.Refine && f.Channels != nil: // W, as the backward pass takes it
		kept = tile.Held(e.Body, tile.OnRows(e.Body, e.By(exact, at(f.unit)), at(f.Beta)), e.V.GradPrecision())
	case f.unit != nil: // u is stored times 1/|k|, for products with unnormalized keys
		kept = e.Store(exact)
	}
	e.Before, e.Inverted, e.Values = append(e.Before, state), f.T, append(e.Values, kept)
	weighed := u // V' for its product with restK
	switch {
	case f.tail == nil: // K takes the rest, or there is none
	case e.V.TailDecay == gdn.TailDecayV && e.V.Numerics.ErrorFeedback > 1: // all are weighed to the end of the chunk: what rounding leaves needs no decay
		weighed = e.StoreValues(e.B.Mul(exact, e.weight(at(f.tail))).Called("u_left"), at(f.unit), at(f.length), at(f.writes))
	case e.V.TailDecay == gdn.TailDecayV:
		weighed = e.Store(e.B.Mul(e.By(exact, at(f.unit)), e.weight(at(f.tail))).Called("u_left"))
	}
	o, added = e.outputOf(f, at, u, qS, up)
	return o, e.update(f, at, u, weighed, added)
}

// weight spreads what weighs the rows of V', [N, C], over their lanes. Beta alone, of a rule without decay, is moved along them: by transposes bench of
// deltanet on v5e went from 78661 to 78993 cycles.
func (e *Chunks) weight(x *ir.Value) *ir.Value {
	if !e.Spec.Rule.Decays() {
		return e.Column(x, e.Spec.V)
	}
	return tile.Weight(e.Body, x, e.Spec.V)
}

// grow is x [N, C, V] times the decay from the state, by [N, C], unless K and Q have it.
func (e *Chunks) grow(x, by *ir.Value) *ir.Value {
	if e.V.Fold || by == nil {
		return x
	}
	return e.B.Mul(e.weight(by), x).Called(ir.NameOf(x))
}

// written is V' of a chunk, [batch x heads, C, V] f32: what the rule writes for each token, or U where beta is in the columns of A. An additive rule
// writes V. kS is K S, up the decay from the state [N, C] unless K has it.
func (e *Chunks) written(f *flight, at func(*ir.Value) *ir.Value, kS, up *ir.Value) *ir.Value {
	b := e.B
	switch {
	case !e.Spec.Rule.Writes():
		return at(f.V)
	case e.V.Form == gdn.FormUW:
		return b.Sub(b.Convert(at(f.U), ir.F32), e.Dot(at(f.W), e.State, false, false, e.V.Numerics.PrecState).Called("w_state")).Called("u")
	}
	r := b.Sub(at(f.V), e.By(e.grow(kS, up), at(f.unit))).Called("r") // V - e^G K S
	if e.V.Beta == gdn.BetaLeft {
		r = b.Mul(r, e.Column(at(f.Beta), e.Spec.V)).Called("r")
	}
	return e.Solver().Applied(at(f.T), e.Store(r), false).Called("u") // T r
}

// outputOf is the output of a chunk, Q S decayed and scaled with P V'; and K^T V' where that is of the same product.
//
// The three forms differ in what an MXU has as weights, and who adds:
//
//	out=separate   Q S + P V'             two products, added in float32 by the vector unit
//	out=joined     [e^G Q, P] [S; V']     one product of K + C terms: the unit adds; needs the decay in Q, and S as products take it
//	out=shared     [P; restK] V'          one product of C + K rows, restK turned [K, C]: the output's P V', and below it the update
func (e *Chunks) outputOf(f *flight, at func(*ir.Value) *ir.Value, u, qS, up *ir.Value) (o, added *ir.Value) {
	b := e.B
	read := func() *ir.Value {
		switch {
		case e.V.Fold:
			return qS
		case up == nil:
			return e.scaled(qS)
		}
		return e.grow(qS, e.scaled(up))
	}
	switch {
	case f.q == nil: // states alone are wanted
		return nil, nil
	case e.V.Out == gdn.OutShared && e.V.UpdatePrecision() == e.V.Numerics.PrecState:
		both := e.Dot(e.Concat(1, at(f.P), at(f.restK)).Called("pk"), u, false, false, e.V.Numerics.PrecState).Called("pk_u") // [P; (e^(GC-G) K)^T] V': one pass of V' through the unit as weights
		own := b.SliceAxis(both, 1, 0, e.C).Called("p_u")
		o = b.Add(read(), own).Called("o")
		return o, b.SliceAxis(both, 1, e.C, e.C+e.Spec.K).Called("k_u")
	case e.V.Out == gdn.OutJoined:
		left, right := e.Concat(2, at(f.q), at(f.P)).Called("qp"), e.Concat(1, e.Store(e.State), u).Called("state_u") // [e^G Q, P] [S; V']: the unit adds both
		return e.Dot(left, right, false, false, e.V.Numerics.PrecState).Called("o"), nil
	}
	own := e.Dot(at(f.P), u, false, false, e.V.Numerics.PrecIntra).Called("p_u") // P V'
	return b.Add(read(), own).Called("o"), nil
}

// update is K^T V' of a chunk, with the decay that is left after each token: added where that was made before. It is [N, K, V] as the state is, or
// [N, V, K] where states have the value first, V'^T K, or [N of key heads, heads V, K] where those of a key head are joined. u is V' as it is
// stored, weighed is V' for its product with restK.
func (e *Chunks) update(f *flight, at func(*ir.Value) *ir.Value, u, weighed, added *ir.Value) *ir.Value {
	switch {
	case f.shared: // the rest of the decay goes to V'
		rest := e.B.Transpose(e.Store(e.ByRows(u, at(e.remains(f.Work)))), 0, 2, 1)
		return e.Dot(e.sideBySide(rest), at(f.k), false, false, e.V.Numerics.PrecState).Called("k_u")
	case e.ValueFirst:
		return e.Dot(weighed, at(f.restK), true, false, e.V.Numerics.PrecState).Called("k_u")
	case added != nil:
		return added
	case e.V.UpdatePrecision() != e.V.Numerics.PrecState: // K is exact, V' is in parts: the rest of the decay goes to V'
		return e.Dot(at(f.turnedK), e.Store(e.ByRows(u, at(f.tail))), false, false, e.V.UpdatePrecision()).Called("k_u")
	}
	return e.Dot(at(f.restK), weighed, e.V.TransposeK == gdn.TransposeValue, false, e.V.Numerics.PrecState).Called("k_u")
}

// ofChunk is what of x belongs to a chunk in flight; nil of nil.
func (e *Chunks) ofChunk(x *ir.Value, chunk int) *ir.Value {
	if x == nil || e.V.Mapping.Chunks == 1 {
		return x
	}
	n := x.Type.Shape[0] / e.V.Mapping.Chunks
	return e.Sliced(x, chunk*n, (chunk+1)*n)
}

// normColumns are what norms has taken, in all lanes [N, C, V]; nil where the kernel does not normalize keys. They are spread here once for all
// chunks in flight, ahead of the state.
func (e *Chunks) normColumns(w *Work) (unit, length, query *ir.Value) {
	if w.inverse == nil {
		return nil, nil, nil
	}
	over := func(x *ir.Value) *ir.Value { return e.PerValue(e.Column(x, e.Spec.V)) }
	if w.query != nil {
		query = over(w.query)
	}
	return over(w.inverse), over(w.length), query
}

// leaving is an output with what its products left out: the share of normColumns, or the scale.
func (e *Chunks) leaving(x, share *ir.Value) *ir.Value {
	switch {
	case share != nil:
		return e.B.Mul(x, share).Called("out")
	case e.V.Scale == gdn.ScaleOutput:
		return e.B.Scale(x, e.Spec.EffectiveScale()).Called("out")
	}
	return x
}

// rest is K for the state's update: its rows times the decay from each token to the end of the chunk, and by beta where
// that is not in V' yet, unless V' takes both. It is [N, C, K], or [N, K, C] if it is transposed first.
//
// transpose_k=key transposes K once per key head and scales its lanes, which then are tokens, for each value head. Otherwise the product transposes the scaled rows of
// each value head. A decay a channel weighs elements, [N, C, K], before that; beta, of rows, comes after it.
func (e *Chunks) rest(w *Work) *ir.Value {
	b := e.B
	if e.V.TailDecay == gdn.TailDecayV {
		if e.V.TransposeK == gdn.TransposeKey {
			return e.PerValue(e.Turned(w.K))
		}
		return e.PerValue(w.K)
	}
	left := e.remains(w)
	if w.Channels != nil {
		x := b.Mul(e.Element(e.PerValue(w.K), gdn.DecayBF16Operands), e.Element(w.Channels.Rest, gdn.DecayBF16Operands))
		x = e.Store(tile.OnRows(e.Body, x, left))
		if e.V.TransposeK == gdn.TransposeKey {
			x = e.Turned(x)
		}
		return x
	}
	if e.V.TransposeK == gdn.TransposeKey {
		return e.Store(e.ByLanes(e.PerValue(b.Transpose(w.K, 0, 2, 1)), left))
	}
	return e.Store(e.ByRows(e.PerValue(w.K), left))
}

// remains [N, C] is the decay that is left after each token, times beta where that is not in V' yet; nil for ones.
func (e *Chunks) remains(w *Work) *ir.Value {
	left := e.Exp(w.Tail).Called("left") // e^(GC-G)
	if e.V.Beta != gdn.BetaLeft {
		left = e.Weighed(left, w.Beta).Called("left")
	}
	return left
}

// stateDecay broadcasts the decay of a chunk, the last lane of grown [N, C], over the elements of the state. Where value heads of a key head are
// joined, each has its own V rows of a state [heads V, K].
func (e *Chunks) stateDecay(grown, state *ir.Value) *ir.Value {
	s := state.Type.Shape
	rows := s[0] * s[1] / grown.Type.Shape[0]
	return e.B.Reshape(e.Scalar(grown, e.C-1, rows, s[2]), s...)
}

// stateChannels broadcasts the decay of each channel [N, 1, K] over the state.
func (e *Chunks) stateChannels(total, state *ir.Value) *ir.Value {
	if e.ValueFirst {
		return e.B.Broadcast(total, state.Type.Shape, 0, 1, 2)
	}
	return e.B.Broadcast(e.B.Transpose(total, 0, 2, 1), state.Type.Shape, 0, 1, 2)
}

// SharesState reports whether one product multiplies K or Q of a key head by the states of all its value heads. These
// are stacked: [N of key heads, heads V, K].
func (e *Chunks) SharesState() bool { return e.ValueFirst && e.V.Share && !e.V.Fold && e.Group > 1 }

// sideBySide joins values of the value heads of a key head: [N of value heads, R, L] to [N of key heads, heads R, L].
func (e *Chunks) sideBySide(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.B.Reshape(x, s[0]/e.Group, e.Group*s[1], s[2])
}

// meet returns rows [N, C, K] times the state; byValueHead brings the result, or some of its rows, to [N of value heads, C, V].
//
// With the states of 2 value heads joined, [2 V, K], one product K S^T is [C, 2 V]: the lanes of value head 0, then those of value head 1. One product
// of twice the width stands for two.
func (e *Chunks) meet(rows, state *ir.Value) *ir.Value {
	return e.Dot(rows, state, false, e.ValueFirst, e.V.Numerics.PrecState)
}

func (e *Chunks) byValueHead(x *ir.Value) *ir.Value {
	if !e.SharesState() {
		return x
	}
	b, s := e.B, x.Type.Shape
	x = b.Transpose(b.Reshape(x, s[0], s[1], e.Group, e.Spec.V), 0, 2, 1, 3)
	return b.Reshape(x, s[0]*e.Group, s[1], e.Spec.V)
}

// stateProducts are K S and Q S, where the form needs them: W S of form uw takes the place of K S (written), and out=joined has Q S in the product
// of the output. An additive rule does not read the state for what it writes.
func (e *Chunks) stateProducts(k, q, state *ir.Value) (kS, qS *ir.Value) {
	b := e.B
	needK, needQ := e.V.Form != gdn.FormUW && e.Spec.Rule.Writes(), e.V.Out != gdn.OutJoined && q != nil
	switch {
	case !needK && !needQ:
		return nil, nil
	case !needK:
		return nil, e.byValueHead(e.meet(q, state).Called("q_state"))
	case !needQ:
		return e.byValueHead(e.meet(k, state).Called("k_state")), nil
	case e.V.KQ == gdn.JointJoined:
		both := e.meet(e.Concat(1, k, q).Called("kq"), state).Called("kq_state")
		return e.byValueHead(b.SliceAxis(both, 1, 0, e.C).Called("k_state")), e.byValueHead(b.SliceAxis(both, 1, e.C, 2*e.C).Called("q_state"))
	}
	return e.byValueHead(e.meet(k, state).Called("k_state")), e.byValueHead(e.meet(q, state).Called("q_state"))
}
