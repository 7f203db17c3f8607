package chunkwise

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// A visit is a block of tokens in which two sequences meet: A, which is open when the visit begins, and B, the next one (internal/visits, which has an
// example). Both meet their own state in the same products. The tokens lie along the lanes of all of them:
//
//	R = V - [S_A S_B] [K_A K_B]^T D   U = R T^T   O = [S_A S_B] [Q_A Q_B]^T D + U P^T
//	[S_A S_B] <- [e^A S_A  e^B S_B] + U E [K_A K_B]
//
// where V, R, U and O are [V, C], states [V, K]; K_A is K in the rows of A and zero elsewhere; D the decay from its state to each token and E what is
// left after it, times beta where that is in the columns, a row [C] each that serves a whole tile; e^A what is left of S_A after its tokens. In a block of four, rows 0 1 of A and 2 3 of B:
//
//	[K_A K_B] = [k0  . ]     T and P: [x . . .]     D = [e^a  e^(a+b)  e^c  e^(c+d)] of log decays a b c d
//	            [k1  . ]              [x x . .]     E = [e^b  1        e^d  1      ]
//	            [.   k2]              [. . x .]
//	            [.   k3]              [. . x x]
//
// So one product of [heads V, 2 K] by [2 K, 2 C], keys beside queries, has both states for all value heads of a key head, and a token finds the state
// of its own sequence, since its row is zero in the half of the other. Pairs of two sequences are cleared, and the inverse of two blocks on a diagonal
// is that of each.
//
// A zero times infinity is NaN: one sequence whose numbers are infinite would poison the other. What both meet is made finite before
// (tile.Body.Finite, Vanishing), so that the poison stays in the outputs and the state that it belongs to.

// Meeting is what the visits of a step take to the states: rows of tokens along the lanes.
type Meeting struct {
	Next func(visit int) *ir.Value // loads the state [heads, V, K] of the next sequence; nil for zeros

	*Work
	sides       []*side
	expG, rest  *ir.Value // [N, C], the decay from the state to each token, and what is left after it, times beta
	fades       bool      // rest is at most 1, so that what is left of finite numbers is finite
	values      *ir.Value // V^T
	unit, share *ir.Value // norms, nil of none
}

// Meet does what the visits of a step need no state for, of Q, K, V and the gates; falls says that neither the decay of a token nor beta is above 1.
//
// What is left of a token, E, is then at most 1 but for rounding, and what is finite stays finite beside it: U is weighed as it was cleaned for its
// product with P (fades). Of gates that are given a log decay may be above 0 and E as large as it likes, so there U E is cleaned itself.
func (e *Chunks) Meet(w *Work, falls bool) *Meeting {
	var sides []*side
	for _, x := range e.Segments.Sides() {
		sides = append(sides, &side{first: x[0], behind: x[1]})
	}
	e.sumSides(w, sides)
	w.Beta = e.ofSomebody(w.Beta)
	e.Pairs(w, true, true)

	b := e.B.Stage("operands")
	for _, x := range sides {
		own := func(visit int, row, _ *ir.Value) *ir.Value { return e.Segments.Within(visit, x.first, x.behind, row) }
		x.k, x.q = e.MaskedIn(w.K, own), e.MaskedIn(w.Q, own)
	}
	m := &Meeting{Work: w, sides: sides, expG: e.Exp(w.Sum).Called("growth"), rest: e.Exp(w.Tail).Called("left")}
	if e.V.Beta != gdn.BetaLeft {
		m.rest = b.Mul(m.rest, w.Beta).Called("left")
	}
	if m.fades = falls && tile.Fades(e.V); m.fades {
		m.rest, m.expG = tile.AtMostOne(e.Body, m.rest, m.expG)
	}
	m.values, m.unit, m.share = b.Transpose(w.V, 0, 2, 1), e.normRow(w.inverse), e.normRow(e.ofSomebody(w.query))
	return m
}

// Segment takes a visit through the states of the sequence that is open and of the next one: the output [heads, C, V] and the state that is
// closed. The state that stays open is e.State then.
//
// Every visit does the work of two sequences, whatever the tables say of it. Where no sequence starts, B has no rows, and what its half gives is
// dropped (entered). Where the open one has no rows left, K_A is zero, and S_A passes as it is, e^A being 1. A state that is to end as zeros, of a
// sequence without tokens (Keep), takes a decay of zero.
func (e *Chunks) Segment(m *Meeting, j int) (o, closed *ir.Value) {
	b, s, c, n := e.B, e.Spec, e.C, e.V.Mapping.Heads
	at := func(x *ir.Value) *ir.Value { return e.ofChunk(x, j) }
	b.Stage("enter")
	cur := []*side{{state: e.State}, {}}
	for i, x := range m.sides {
		cur[i].k, cur[i].q, cur[i].Sum = at(x.k), at(x.q), at(x.Sum)
	}
	if m.Next != nil {
		cur[1].state = m.Next(j)
	}

	b.At(ir.Task{Stage: "state", Chunk: j, Head: -1})
	var keys, queries, states []*ir.Value
	for i, x := range cur {
		if x.state != nil {
			// What is infinite in a state must show in outputs of its sequence. Of one that is carried earlier outputs have shown it, so
			// here it may vanish; one that enters has been seen by nobody yet, and becomes huge.
			keys, queries, states = append(keys, x.k), append(queries, x.q), append(states, e.Cleaned(x.state, []tile.Cleaning{e.Vanishing, e.Finite}[i]))
		}
	}
	met := e.Dot(e.sideBySide(e.Concat(2, states...)), e.Concat(1, e.Concat(2, keys...), e.Concat(2, queries...)), false, true, e.V.Numerics.PrecState).Called("state_kq")
	met = b.Reshape(met, n, s.V, 2*c)
	decay := at(m.expG)
	r := b.Sub(at(m.values), e.By(b.Mul(b.SliceAxis(met, 2, 0, c), e.Row(decay, s.V)).Called("state_k"), at(m.unit))).Called("r")
	if e.V.Beta == gdn.BetaLeft {
		r = b.Mul(r, e.Row(at(m.Beta), s.V)).Called("r")
	}
	exact := e.By(e.Solver().Applied(at(m.T), e.Cleaned(r, e.Finite), true).Called("u"), at(m.unit)).Called("u")
	u := e.Cleaned(exact, e.Vanishing)
	o = b.Add(b.Mul(b.SliceAxis(met, 2, c, 2*c), e.Row(e.scaled(decay), s.V)).Called("state_q"), e.Dot(u, at(m.P), false, !tile.TurnsPairs(e.Body), e.V.Numerics.PrecIntra).Called("u_p")).Called("o")
	left, own := e.tailRows(m, exact, u, j), e.Concat(2, cur[0].k, cur[1].k)
	if len(left) > 1 {
		own = e.Concat(1, own, own)
	}
	added := e.Dot(e.sideBySide(e.Concat(2, left...)), own, false, false, e.V.Numerics.PrecState).Called("u_k")
	added = b.Reshape(added, n, s.V, 2*s.K)
	for i, x := range cur {
		x.after = b.SliceAxis(added, 2, i*s.K, (i+1)*s.K)
		if x.state != nil {
			grown := e.Exp(x.Sum).Called(sideNames[i] + "_growth")
			if i == 1 && !e.Segments.Began {
				kept := e.Segments.At(j, segments.Keep, n, c)
				grown = b.Select(b.Compare(ir.GT, kept, b.Like(kept, 0)), grown, b.Like(grown, 0)).Called(sideNames[i] + "_growth")
			}
			x.after = b.Add(b.Mul(x.state, e.Scalar(grown, c-1, s.V, s.K)).Called(sideNames[i]+"_decayed"), x.after).Called(sideNames[i] + "_after")
		}
	}
	// From lies beyond the block where no sequence starts in this visit.
	from := e.Segments.At(j, segments.From, s.V, s.K)
	entered := e.Over(n, b.Compare(ir.LE, from, b.Like(from, float64(c))))
	e.State = b.Select(entered, cur[1].after, cur[0].after).Called("state")
	return b.Transpose(e.leaving(o, at(m.share)), 0, 2, 1), cur[0].after
}

// tailRows is what the tokens of visit j write to the states, U E, of U in float32 (exact) and as it is stored (u). In one bf16 pass it is in two
// parts, with keys twice below each other: [U0 U1] [K; K], a product of 2 C terms, which an MXU of 256 rows takes in the time of C. Keys in
// bf16 are exact.
//
// Where keys are alike the rounding of U adds up over the tokens of a chunk, all in one direction of the state: on one key, beta 1, final states
// are off by 3.0e-2 in one part and by 1.9e-3 in two. Chunks of one sequence hand on what rounding leaves to the next rows
// (tile.Body.StoreValues). Here tokens are lanes, and to turn them costs more than the second part. Where E fades it is rounded to bf16, and the
// products with it are: on random keys that leaves 2.5e-3, where float32 leaves 2.6e-4.
func (e *Chunks) tailRows(m *Meeting, exact, u *ir.Value, j int) []*ir.Value {
	rest := e.ofChunk(m.rest, j)
	parts := e.V.Numerics.PrecState == ir.PrecBF16x1
	switch {
	case m.fades && parts:
		return []*ir.Value{e.ByLanes(u, rest), e.ByLanes(tile.Rounded(e.Body, exact), rest)}
	case m.fades:
		return []*ir.Value{e.ByLanes(u, rest)}
	case parts:
		x := e.B.Mul(exact, e.Row(rest, e.Spec.V)).Called("u_left")
		return []*ir.Value{e.Cleaned(x, e.Finite), tile.Rounded(e.Body, x)}
	}
	return []*ir.Value{e.Cleaned(e.ByLanes(exact, rest), e.Finite)}
}

// sideNames are what sequences of a visit are called.
var sideNames = [...]string{"open", "next"}

// side is one of the two sequences of a visit: what is of its rows alone. Of the gates it has the log decay, zero in other rows, and its sums.
type side struct {
	first, behind int // the marks of its first row and of the first behind it
	Gates
	q, k         *ir.Value // of key heads, zero in other rows
	state, after *ir.Value // nil: zeros
}

// sumSides fills the sums of w, which for each token are those of its own sequence: no other's gates are part of them.
//
//	rows of A 0 1, of B 2 3, g = [a b c d]:   Sum = [a a+b c c+d]   Left = [b 0 d 0]
//
// One sum over the block, less what it is where B begins, would be the same in exact arithmetic. But a NaN of A would be in all of B, and strong
// decays of A would leave B few digits.
func (e *Chunks) sumSides(w *Work, sides []*side) {
	b, n := e.B, e.V.Mapping.Heads
	lane := e.Iota(n, e.C, 1).Called("lane")
	lanes := func(holds func(visit int) *ir.Value) *ir.Value {
		var l []*ir.Value
		for visit := range e.Segments.Tiles {
			l = append(l, holds(visit))
		}
		return b.Concat(0, l...)
	}
	for i, x := range sides {
		x.G = b.Select(lanes(func(visit int) *ir.Value { return e.Segments.Within(visit, x.first, x.behind, lane) }).Called(sideNames[i]+"_own"), w.G, b.Like(w.G, 0)).Called(sideNames[i] + "_g")
		e.Sums(&x.Gates)
		x.G.Called(sideNames[i] + "_g")
		x.Sum.Called(sideNames[i] + "_sum")
		x.Tail.Called(sideNames[i] + "_rest")
	}
	open := lanes(func(visit int) *ir.Value { return b.Compare(ir.LT, lane, e.Segments.At(visit, segments.From, n, e.C)) }).Called("is_open")
	w.Sum = b.Select(open, sides[0].Sum, sides[1].Sum).Called("g_sum")
	w.Tail = b.Select(open, sides[0].Tail, sides[1].Tail).Called("g_rest")
	w.Parts = []*ir.Value{w.Sum}
}

// ofSomebody is x [N, C], a norm of key heads or beta, which multiplies outputs, or zero where a sequence may be skipped and the token is of none: NaN of
// such a token would be NaN in outputs of zero.
func (e *Chunks) ofSomebody(x *ir.Value) *ir.Value {
	if x == nil || !e.Segments.Pool {
		return x
	}
	b, n := e.B, x.Type.Shape[0]/len(e.Segments.Tiles)
	lane := e.Iota(n, e.C, 1)
	sides := e.Segments.Sides()
	var lanes []*ir.Value
	for visit := range e.Segments.Tiles {
		own := func(i int) *ir.Value { return e.Segments.Within(visit, sides[i][0], sides[i][1], lane) }
		lanes = append(lanes, b.Or(own(0), own(1)))
	}
	return b.Select(b.Concat(0, lanes...), x, b.Like(x, 0))
}

// normRow is a norm [N of key heads, C] for each value head, in all rows [N, V, C]; nil of nil.
func (e *Chunks) normRow(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	return e.PerValue(e.Row(x, e.Spec.V))
}
