package chunkwise

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/segments"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// A visit is a block of tokens with two sequences: A, which is open when the visit begins, and B, the next one (internal/segments has an
// example). Both use their own state in the same products. Tokens are along the lanes in all of them:
//
//	R = V - [S_A S_B] [K_A K_B]^T D   U = R T^T   O = [S_A S_B] [Q_A Q_B]^T D + U P^T
//	[S_A S_B] <- [e^A S_A  e^B S_B] + U E [K_A K_B]
//
// where V, R, U and O are [V, C], states [V, K]; K_A is K in the rows of A and zero elsewhere; D is the decay from the state to each token and E the decay
// after it, times beta if it is in the columns, each one row [C] for a whole tile; e^A is the decay of S_A over its tokens.
// In a block with rows 0 1 of A and 2 3 of B:
//
//	[K_A K_B] = [k0  . ]     T and P: [x . . .]     D = [e^a  e^(a+b)  e^c  e^(c+d)] of log decays a b c d
//	            [k1  . ]              [x x . .]     E = [e^b  1        e^d  1      ]
//	            [.   k2]              [. . x .]
//	            [.   k3]              [. . x x]
//
// So one product of [heads V, 2 K] by [2 K, 2 C], keys next to queries, has both states for all value heads of a key head. A token reads the state
// of its own sequence, since its row is zero in the half of the other. Pairs between sequences are cleared, and the inverse of a block-diagonal matrix
// consists of the blocks' inverses.
//
// Zero times infinity is NaN, so infinite numbers of one sequence would spoil the other. Shared operands are therefore made finite first
// (tile.Body.Finite, Vanishing), so that only outputs and state of the affected sequence show the fault.

// Meeting has the inputs of the visits of a step for products with the states, with tokens along the lanes.
type Meeting struct {
	Next func(visit int) *ir.Value // loads the state [heads, V, K] of the next sequence; nil for zeros

	*Work
	sides       []*side
	expG, rest  *ir.Value // [N, C], the decay from the state to each token, and after it, times beta
	fades       bool      // rest is at most 1, so that finite numbers times rest stay finite
	values      *ir.Value // V^T
	unit, share *ir.Value // norms; nil if there are none
}

// Meet does the visits' work without the state, on Q, K, V and the gates. falls means that neither a token's decay nor beta exceeds 1.
//
// Then E, the decay after a token, is at most 1 except for rounding, and finite numbers times E stay finite: U is scaled in the form cleaned for its
// product with P (fades). Given gates may have log decays above 0 and any E, so there U E itself is cleaned.
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

// Segment takes a visit through the states of the open sequence and the next one. It returns the output [heads, C, V] and the state that is
// closed; e.State becomes the state that stays open.
//
// Every visit does the work of two sequences, whatever the tables say. If no sequence starts, B has no rows, and the result of its half is
// dropped (entered). If the open one has no rows left, K_A is zero, and S_A is unchanged since e^A is 1. A final state of zeros, for a
// sequence without tokens (Keep), uses a decay of zero.
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
			// Infinities in a state must show in outputs of its sequence. For a carried state, earlier outputs showed them, so
			// they may vanish here; the state of a new sequence was not used yet, so they become huge numbers.
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
			if i == 1 {
				kept := e.Segments.At(j, segments.Keep, n, c)
				grown = b.Select(b.Compare(ir.GT, kept, b.Like(kept, 0)), grown, b.Like(grown, 0)).Called(sideNames[i] + "_growth")
			}
			x.after = b.Add(b.Mul(x.state, e.Scalar(grown, c-1, s.V, s.K)).Called(sideNames[i]+"_decayed"), x.after).Called(sideNames[i] + "_after")
		}
	}
	// From is beyond the block if no sequence starts in this visit.
	from := e.Segments.At(j, segments.From, s.V, s.K)
	entered := e.Over(n, b.Compare(ir.LE, from, b.Like(from, float64(c))))
	e.State = b.Select(entered, cur[1].after, cur[0].after).Called("state")
	return b.Transpose(e.leaving(o, at(m.share)), 0, 2, 1), cur[0].after
}

// tailRows returns the tokens' update of the states in visit j, U E, from U in float32 (exact) and in stored form (u). In one bf16 pass it has two
// parts, with keys stacked twice: [U0 U1] [K; K], a product of 2 C terms, which an MXU of 256 rows computes in the time of C. bf16 keys
// are exact.
//
// If keys are similar, the rounding of U adds up over a chunk's tokens along one direction of the state: on one key with beta 1, final states
// are off by 3.0e-2 with one part and by 1.9e-3 with two. Chunks of one sequence instead pass rounding errors on to later rows
// (tile.Body.StoreValues). Here tokens are lanes, and transposing them costs more than the second part. If E fades it is rounded to bf16, and so are
// products with it: on random keys the error is then 2.5e-3, with float32 2.6e-4.
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

// sideNames are the names of a visit's sequences.
var sideNames = [...]string{"open", "next"}

// side is one of the two sequences of a visit, with the values of its rows only. Of the gates it has the log decay, zero in other rows, and its sums.
type side struct {
	first, behind int // marks of its first row and of its end
	Gates
	q, k         *ir.Value // of key heads, zero in other rows
	state, after *ir.Value // nil: zeros
}

// sumSides fills the sums of w, with the sums of each token's own sequence, which no other sequence's gates enter.
//
//	rows of A 0 1, of B 2 3, g = [a b c d]:   Sum = [a a+b c c+d]   Left = [b 0 d 0]
//
// One sum over the block minus its value at B's start would be equal in exact arithmetic. But a NaN of A would reach all of B, and strong
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

// ofSomebody returns x [N, C], a norm of key heads or beta, with zero at tokens without a sequence if sequences may be skipped. Outputs are multiplied by x,
// and must be zero there even if the token has NaN.
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

// normRow returns a norm [N of key heads, C] for each value head, in all rows [N, V, C]; nil for nil.
func (e *Chunks) normRow(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	return e.PerValue(e.Row(x, e.Spec.V))
}
