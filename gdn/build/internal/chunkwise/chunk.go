package chunkwise

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Chunks takes the chunks in flight through the states of a step.
//
// Chunks in flight (chunks=n of a variant) are n successive chunks of one grid step. Work without the state is done for all of them interleaved, as N
// entries; then they pass through the state one after another:
//
//	chunks=2, 2 value heads   entries 0 1 2 3 = (chunk 0, head 0) (chunk 0, head 1) (chunk 1, head 0) (chunk 1, head 1)
//	step                      State -> chunk 0, entries 0 1 -> After[0] -> chunk 1, entries 2 3 -> After[1]
//
// In a stream of packed sequences chunks in flight may belong to different sequences. Then Enter returns the state of a chunk's own sequence, and Exit
// receives the state after it.
type Chunks struct {
	Rule
	State *ir.Value   // [batch x heads, K, V] f32, or [batch x heads, V, K]: the state before the next chunk; nil if the step has none
	After []*ir.Value // the states after each chunk in flight

	ValueFirst bool                             // states are [V, K]
	Enter      func(chunk int) *ir.Value        // if not nil, returns the state before a chunk in flight
	Exit       func(chunk int, state *ir.Value) // receives the state after it

	// For a training step: the state before each chunk in flight, and U, filled by Through; and T of all.
	Before, Values []*ir.Value
	Inverted       *ir.Value
}

// Work has the inputs of the state step, each of N entries. The caller sets Q, K, V and the gates, and of T, P, U and W the results of
// another grid; Pairs and Operands compute the rest.
type Work struct {
	Q, K *ir.Value // [N of key heads, C, K]; Q is nil if no output is needed
	V    *ir.Value // [N, C, V] f32
	T, P *ir.Value // [N, C, C]
	U, W *ir.Value // form uw: [N, C, V] and [N, C, K]
	// With split gates: b K of value heads, which reads the state; else nil.
	reads *ir.Value
	*meeting
	maps, adds *ir.Value // form map: maps of the state to output and next state, [N, C + K, K], and their offsets, [N, C + K, V]
	// If the kernel normalizes keys: 1/|k|, |k|, and 1/|q| with a scale applied to the output, [N of key heads, C].
	inverse, length, query *ir.Value
	Gates
}

// Operands computes the operands of products with the state, if the step has one; and U and W in form uw, unless an earlier grid made them. A grid
// that makes T and P for another one has no state.
//
// These operands are in stage operands, among the work without the state, so that a schedule can interleave them with it. With auto on v6e bench
// takes 60179 in-order cycles, and 65156 with the operands in stage state. Variant tpu, whose steps overlap in more phases, takes 35767 at 2048 tokens in
// stage state, and 37020 in stage operands.
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

// meeting computes the operands of products with the state, for all chunks in flight, in the current stage.
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

// folded returns K of value heads times the decay of the state up to each token (grown, for per-head decays), as it multiplies the
// state; foldedQuery returns Q likewise, with the scale.
//
// e^G (K S) = (e^G K) S: the weight can multiply the rows of K before the state is known (fold=yes), or the rows of K S after it. Both have equal size
// for K = V, but the latter is on the critical path of the next chunk. A per-channel decay can only multiply K.
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

// byExpSums multiplies the rows of x by exp(G) and a scale. If weights come from transposes, exp(G) exists as a tile already, from Between.
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

// explicit computes U = T beta V and W = T beta exp(G) K without the state, so that V' = U - W S needs one product after the state instead of two, K S and
// T R. It takes two products with T, of V and of K; form vprime takes one. With beta=right, beta is in A's columns: then T multiplies V and
// exp(G) K directly.
//
// If keys are normalized here, W includes their lengths: T belongs to keys of length 1, which also read the state.
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

// behindT scales V and K of value heads for the product with T, in float32: by beta if it is on the left, and K by 1/|k| if keys are normalized here.
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

// affine turns output and next state into affine maps of the state, so that only one product lies between two states; form uw has
// two, vprime three. With F = e^G K (times beta in its rows if it is on the left) and E = e^(G_C - G) K, everything but S is computed before S:
//
//	[P; E^T] T [F V] = [A Z]     O  = (e^G Q - A) S + Z
//	                   [B N]     S' = e^(G_C) S - B S + N
//
// If keys are normalized here, T has 1/|k| in its rows, for P and E, and F has it itself. That is one rounding per token, whose bias accuracy tests
// detect; in P and E, similar keys would no longer cancel in E^T T. So auto uses this form for keys without normalization only.
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

// mapped returns the output of a chunk, and the term added to the decayed state, by its affine map (affine).
func (e *Chunks) mapped(f *flight, at func(*ir.Value) *ir.Value) (o, added *ir.Value) {
	b, adds := e.B, at(f.adds)
	met := e.Dot(at(f.maps), e.State, false, false, e.V.Numerics.PrecState).Called("map_state")
	rows := met.Type.Shape[1]
	if f.q != nil {
		o = b.Add(b.SliceAxis(met, 1, 0, e.C), b.SliceAxis(adds, 1, 0, e.C)).Called("o")
	}
	return o, b.Sub(b.SliceAxis(adds, 1, rows-e.Spec.K, rows), b.SliceAxis(met, 1, rows-e.Spec.K, rows)).Called("added")
}

// Through takes the chunks in flight through the state, in order, and returns the output [batch x heads, C, V] of each; nil without queries.
// writes loads the split gates of V', after the other operands; nil for other rules.
//
// Instructions have their chunk in the task, so that a schedule can distinguish the chunks of a step. Outputs are scaled after all chunks, since no
// later chunk depends on them.
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

// meeting holds the operands of the state's products, computed before the state is known.
type meeting struct {
	expG   *ir.Value // [N, C], the decay from the state to each token; nil without decay or with per-channel decays
	k, q   *ir.Value // operands of products with the state; of key heads if value heads share them
	restK  *ir.Value // K times the decay after each token, for the update K^T V'
	shared bool      // the value heads of a key head use one product with their states
}

// flight has the inputs of the chunks in flight for the state step, all chunks together; step selects its chunk with at.
type flight struct {
	*Work
	*meeting
	turnedK, tail *ir.Value // if K is unscaled in the update: K^T, and the decay that multiplies V' instead
	unit, length  *ir.Value // norms; nil if there are none
	share         *ir.Value
	writes        *ir.Value // the write gate of a split-gate rule
}

// flight computes it. In the update the decay after each token multiplies K or V':
//
//	tail_decay=k      (e^(G_C - G) K)^T V'      K is scaled before the state, and rounded again
//	tail_decay=v      K^T (e^(G_C - G) V')      K is unchanged; V' is scaled and stored a second time, after T R
//	own precupdate    K^T (e^(G_C - G) V')      in three passes unchanged bf16 K is one part, scaled K would be two
//	shared            ((e^(G_C - G) V')^T K)    one K for all value heads of a key head, so it cannot include a value head's decay
func (e *Chunks) flight(w *Work) *flight {
	f := &flight{Work: w, meeting: w.meeting}
	if f.meeting == nil { // the state comes with the chunk
		f.meeting = e.meeting(w)
	}
	if !e.V.Fold && e.V.Out == gdn.OutJoined && f.q != nil { // a rule without decay: nothing to fold, but in [Q, P] [S; V'] Q includes the scale
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

// step takes a chunk in flight, whose values at selects, through the state. It returns the output [batch x heads, C, V], nil if none is needed.
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

// solved returns the output of a chunk, and the term added to the decayed state, by V'.
//
//	kS, qS = K S, Q S                       the first products that depend on the state
//	exact  = T beta (V - e^G kS)            V', or U (without beta) if beta is in the columns, in float32
//	u      = exact in its stored form       read by P and the update
//	o      = scale e^G qS + P u
//	added  = restK^T u                      to e^(G_C) State
//
// Three products lie between two states: K S, T R and the update; form uw has two. No schedule shortens this path.
//
// If keys are similar, rounding of u shows in outputs and state, since the errors of all tokens add up along one direction of the state. StoreValues passes
// rounding errors of earlier rows on to later ones. V of an additive rule in bf16 is exact and has no rounding error.
func (e *Chunks) solved(f *flight, at func(*ir.Value) *ir.Value) (o, added *ir.Value) {
	state := e.State
	up := at(f.expG)
	kS, qS := e.stateProducts(at(f.k), at(f.q), state) // the first work that depends on the previous chunk
	exact := e.written(f, at, kS, up)                  // V', or U if beta is in the columns
	u := exact
	if !e.Spec.Rule.Writes() && f.unit == nil && e.Spec.DType == ir.BF16 {
		u = e.Store(u) // V is exact
	} else {
		u = e.StoreValues(u, at(f.unit), at(f.length), at(f.writes))
	}
	kept := u // U for the backward pass
	switch {
	case e.V.Inverse.Refine && f.Channels != nil: // W for the backward pass
		kept = tile.Held(e.Body, tile.OnRows(e.Body, e.By(exact, at(f.unit)), at(f.Beta)), e.V.GradPrecision())
	case f.unit != nil: // u includes 1/|k|, for products with unscaled keys
		kept = e.Store(exact)
	}
	e.Before, e.Inverted, e.Values = append(e.Before, state), f.T, append(e.Values, kept)
	weighed := u // V' as it multiplies restK
	switch {
	case f.tail == nil: // K takes the remaining decay, or there is none
	case e.V.TailDecay == gdn.TailDecayV && e.V.Numerics.ErrorFeedback > 1: // all are scaled to the end of the chunk, so passing on rounding errors needs no decay
		weighed = e.StoreValues(e.B.Mul(exact, e.weight(at(f.tail))).Called("u_left"), at(f.unit), at(f.length), at(f.writes))
	case e.V.TailDecay == gdn.TailDecayV:
		weighed = e.Store(e.B.Mul(e.By(exact, at(f.unit)), e.weight(at(f.tail))).Called("u_left"))
	}
	o, added = e.outputOf(f, at, u, qS, up)
	return o, e.update(f, at, u, weighed, added)
}

// weight broadcasts weights of the rows of V', [N, C], over their lanes. beta without decay is broadcast by lane moves: with transposes, bench of
// deltanet on v5e went from 78661 to 78993 cycles.
func (e *Chunks) weight(x *ir.Value) *ir.Value {
	if !e.Spec.Rule.Decays() {
		return e.Column(x, e.Spec.V)
	}
	return tile.Weight(e.Body, x, e.Spec.V)
}

// grow returns x [N, C, V] times the decay from the state, by [N, C], unless K and Q include it.
func (e *Chunks) grow(x, by *ir.Value) *ir.Value {
	if e.V.Fold || by == nil {
		return x
	}
	return e.B.Mul(e.weight(by), x).Called(ir.NameOf(x))
}

// written returns V' of a chunk, [batch x heads, C, V] f32, the values that the rule writes; or U if beta is in the columns of A. An additive rule
// writes V. kS is K S; up is the decay from the state [N, C] unless K includes it.
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

// outputOf returns the output of a chunk, scaled and decayed Q S plus P V', and K^T V' if the same product makes it.
//
// The three forms differ in the weights of the MXU, and in the unit that adds:
//
//	out=separate   Q S + P V'             two products, added in float32 by the vector unit
//	out=joined     [e^G Q, P] [S; V']     one product of K + C terms: the MXU adds; needs the decay in Q, and S in stored form
//	out=shared     [P; restK] V'          one product of C + K rows, restK transposed [K, C]: P V' on top, the update below
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
	case f.q == nil: // only states are needed
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

// update returns K^T V' of a chunk with the decay after each token; or added if it exists already. It is [N, K, V] like the state; V'^T K, [N, V, K], if
// states have the value first; or [N of key heads, heads V, K] if the states of a key head are joined. u is V' in
// stored form, weighed is V' as it multiplies restK.
func (e *Chunks) update(f *flight, at func(*ir.Value) *ir.Value, u, weighed, added *ir.Value) *ir.Value {
	switch {
	case f.shared: // the remaining decay multiplies V'
		rest := e.B.Transpose(e.Store(e.ByRows(u, at(e.remains(f.Work)))), 0, 2, 1)
		return e.Dot(e.sideBySide(rest), at(f.k), false, false, e.V.Numerics.PrecState).Called("k_u")
	case e.ValueFirst:
		return e.Dot(weighed, at(f.restK), true, false, e.V.Numerics.PrecState).Called("k_u")
	case added != nil:
		return added
	case e.V.UpdatePrecision() != e.V.Numerics.PrecState: // K is exact, V' has parts: the remaining decay multiplies V'
		return e.Dot(at(f.turnedK), e.Store(e.ByRows(u, at(f.tail))), false, false, e.V.UpdatePrecision()).Called("k_u")
	}
	return e.Dot(at(f.restK), weighed, e.V.TransposeK == gdn.TransposeValue, false, e.V.Numerics.PrecState).Called("k_u")
}

// ofChunk returns the part of x for a chunk in flight; nil for nil.
func (e *Chunks) ofChunk(x *ir.Value, chunk int) *ir.Value {
	if x == nil || e.V.Mapping.Chunks == 1 {
		return x
	}
	n := x.Type.Shape[0] / e.V.Mapping.Chunks
	return e.Sliced(x, chunk*n, (chunk+1)*n)
}

// normColumns returns the norms that norms left out of the products, in all lanes [N, C, V]; nil if the kernel does not normalize keys. They are broadcast
// once for all chunks in flight, before the state.
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

// leaving applies the factor that an output's products left out: share from normColumns, or the scale.
func (e *Chunks) leaving(x, share *ir.Value) *ir.Value {
	switch {
	case share != nil:
		return e.B.Mul(x, share).Called("out")
	case e.V.Scale == gdn.ScaleOutput:
		return e.B.Scale(x, e.Spec.EffectiveScale()).Called("out")
	}
	return x
}

// rest returns K for the state's update: rows times the decay after each token, and times beta if V' does not include it,
// unless V' takes both. It is [N, C, K], or transposed [N, K, C].
//
// transpose_k=key transposes K once per key head and scales its lanes (tokens) for each value head. Otherwise the product transposes the scaled rows of
// each value head. A per-channel decay scales elements, [N, C, K], before that; beta scales rows after it.
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

// remains returns the decay after each token [N, C], times beta if V' does not include it; nil for ones.
func (e *Chunks) remains(w *Work) *ir.Value {
	left := e.Exp(w.Tail).Called("left") // e^(GC-G)
	if e.V.Beta != gdn.BetaLeft {
		left = e.Weighed(left, w.Beta).Called("left")
	}
	return left
}

// stateDecay broadcasts the decay of the state over the chunk, the last lane of grown [N, C], over the state. If value heads of a key head are
// joined, each has its own V rows of a state [heads V, K].
func (e *Chunks) stateDecay(grown, state *ir.Value) *ir.Value {
	s := state.Type.Shape
	rows := s[0] * s[1] / grown.Type.Shape[0]
	return e.B.Reshape(e.Scalar(grown, e.C-1, rows, s[2]), s...)
}

// stateChannels broadcasts the chunk's decay of each channel [N, 1, K] over the state.
func (e *Chunks) stateChannels(total, state *ir.Value) *ir.Value {
	if e.ValueFirst {
		return e.B.Broadcast(total, state.Type.Shape, 0, 1, 2)
	}
	return e.B.Broadcast(e.B.Transpose(total, 0, 2, 1), state.Type.Shape, 0, 1, 2)
}

// SharesState reports whether the value heads of a key head multiply K and Q in one product: their states [V, K] are stacked,
// [N of key heads, heads V, K].
func (e *Chunks) SharesState() bool { return e.ValueFirst && e.V.Share && !e.V.Fold && e.Group > 1 }

// sideBySide stacks the value heads of a key head: [N of value heads, R, L] becomes [N of key heads, heads R, L].
func (e *Chunks) sideBySide(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.B.Reshape(x, s[0]/e.Group, e.Group*s[1], s[2])
}

// meet returns the product of rows [N, C, K] with the state; apart converts the result, or some of its rows, to [N of value heads, C, V].
//
// With the states of 2 value heads joined, [2 V, K], one product K S^T is [C, 2 V]: the lanes of value head 0, then of value head 1. So one product
// of twice the width replaces two.
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

// stateProducts returns K S and Q S if the form needs them. Form uw uses W S instead of K S (written), and out=joined computes Q S in the output's
// product. An additive rule does not read the state to write.
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
