package channel

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// With F and R the factors of a level at j and at i, and X, Y the gradients of P and A of its pairs, zero for all others,
//
//	dQ += R . (X (F . K))    dK += R . (Y (F . K)) + F . (X^T (R . Q) + Y^T (R . K))
//
// Where the rows of A are not those of K, the first term of dK is their gradient, and they replace K in products with R.
//
// The log decay of token t decays the pairs j < t <= i. For t in the second half of a block these are all pairs of the level with i >= t, and
// for t in the first half those with j < t. So its gradient sums, along the tokens of a half,
//
//	rows = (R . Q) . (X (F . K)) + (R . K) . (Y (F . K))    columns = (F . K) . (X^T (R . Q) + Y^T (R . K))
//
// from t on, or up to t: sums in which nothing cancels, whatever the decay. Within the narrowest blocks it sums rows less columns from t on.
// There pairs on one side of t cancel, to the last bit but for the order of float32 sums, since both are made of operands rounded once.

// Pairs are the gradients of P (X) and A (Y) before their decay is applied, [N, i, j], and their transposes [N, j, i].
// Only elements with i >= j for P, and i > j for A, have a meaning. Y and TurnedY are nil for additive rules, which
// have no A.
type Pairs struct{ X, Y, TurnedX, TurnedY *ir.Value }

// Gradients are the results of Decay.Gradients, [N, C, K]. Q, K and Rows have the gradients through the pairs of a
// chunk: of Q, of K, and of the rows of A where they are not K. Log is the gradient of the log decays, through pairs
// and state.
type Gradients struct{ Q, K, Rows, Log *ir.Value }

// Ends are the terms of the log decay's gradient that do not come from pairs. Risen [N, C, K] is for tokens as they
// read the state before the chunk, Rest [N, C, K] for tokens as they are written to the state after it: each an operand
// times its gradient, by element. Whole [N, 1, K] is for the decay of the state itself.
type Ends struct{ Risen, Rest, Whole *ir.Value }

// made are the gradients by way of a level: those of Q and K at i, of K at j, and the summands of the decay. Where nothing cancels, summands
// are those of a token: rows in second halves and columns in first ones.
//
//	block of 4, dg of:   t = 0: none   1: columns_0   2: rows_2 + rows_3   3: rows_3
//	pair (3, 0) decays by g1, g2 and g3, and is in all three
type made struct {
	level
	q, k, column *ir.Value
	summands     *ir.Value
}

// Gradients returns the gradients of Q, K, the rows of A and the log decays, from p, the gradients of pairs, and ends.
// q, k and rows are [N, C, K] of value heads; rows may be k.
func (d *Decay) Gradients(q, k, rows *ir.Value, p Pairs, ends Ends) Gradients {
	var levels []made
	for _, l := range d.levels {
		levels = append(levels, d.ofPairs(l, q, k, rows, p))
	}
	var g Gradients
	add := func(sum **ir.Value, l made, x *ir.Value, second bool) {
		switch {
		case x == nil:
		case *sum == nil:
			*sum = x
		default:
			*sum = l.halves().each(d.Builder, *sum, x, second)
		}
	}
	ofRows := &g.K
	if rows != k {
		ofRows = &g.Rows
	}
	for _, l := range levels {
		add(&g.Q, l, l.q, true)
		add(&g.K, l, l.column, false)
		add(ofRows, l, l.k, true)
	}
	g.Log = d.alongDecay(levels, ends)
	return g
}

// ofPairs are the gradients by way of a level.
func (d *Decay) ofPairs(l level, q, k, reads *ir.Value, p Pairs) made {
	b, h := d.Builder, l.halves()
	b.Stage("dq")
	rowsQ, rowsK := d.Times(h.second(b, q), h.second(b, l.rows)), d.OfKeys(h.second(b, reads), h.second(b, l.rows))
	columns := d.columns(l, k, rowsK)
	second := func(x *ir.Value) *ir.Value { return h.second(b, x) }
	first := func(x *ir.Value) *ir.Value { return h.first(b, x) }
	if l.wide && d.Variant.Inverse.Refine { // rows less columns of a span cancel, so that both are of X in all its parts; columns of wide levels do not
		first = func(x *ir.Value) *ir.Value { return h.first(b, d.Convert(x, ir.BF16)) }
	}
	// P has pairs of a token with itself (0), A has none (1).
	x, turned := d.Masked(d.Moved(p.X, second), l.lower(b, 0)), d.Masked(d.Moved(p.TurnedX, first), l.upper(b, 0))
	m := made{level: l}
	all := func(own *ir.Value) *ir.Value { // rows of all tokens; first halves have no part in the level
		if h == 0 {
			return own
		}
		return h.join(b, h.first(b, columns), own)
	}
	prec := d.Variant.GradPrecision()
	if p.Y == nil {
		m.q, m.column = d.Dot(x, columns, false, false, prec), d.Dot(turned, all(rowsQ), false, false, prec)
	} else {
		y, turnedY := d.Masked(h.second(b, p.Y), l.lower(b, 1)), d.Masked(h.first(b, p.TurnedY), l.upper(b, 1))
		n := x.Type.Shape[1]
		if d.Variant.KQ == gdn.JointJoined {
			both := d.Dot(d.Concat(1, x, y), columns, false, false, prec)
			m.q, m.k = b.SliceAxis(both, 1, 0, n), b.SliceAxis(both, 1, n, 2*n)
			m.column = d.Dot(d.Concat(2, turned, turnedY), d.Concat(1, all(rowsQ), all(rowsK)), false, false, prec)
		} else {
			m.q, m.k = d.Dot(x, columns, false, false, prec), d.Dot(y, columns, false, false, prec)
			m.column = b.Add(d.Dot(turned, all(rowsQ), false, false, prec), d.Dot(turnedY, all(rowsK), false, false, prec))
		}
	}
	if !l.wide { // rows less columns: both of operands rounded once
		m.summands = d.along(rowsQ, m.q)
		if m.k != nil {
			m.summands = b.Add(m.summands, d.along(rowsK, m.k))
		}
		m.summands = b.Sub(m.summands, d.along(columns, m.column))
	}
	grown := func(x, factor *ir.Value) *ir.Value {
		if factor == nil || x == nil {
			return x
		}
		return b.Mul(x, factor)
	}
	m.q, m.k, m.column = grown(m.q, h.second(b, l.rows)), grown(m.k, h.second(b, l.rows)), grown(m.column, h.first(b, l.columns))
	if l.wide {
		rows := d.Along(h.second(b, q), m.q)
		if m.k != nil {
			rows = b.Add(rows, d.Along(h.second(b, reads), m.k))
		}
		cols := d.Along(h.first(b, k), m.column)
		if h == 0 {
			m.summands = b.Add(rows, cols) // zero in the other half
		} else {
			m.summands = h.join(b, cols, rows)
		}
	}
	return m
}

// along multiplies elements of an operand of a product with elements of its gradient; Along does it in the type of operands.
func (d *Decay) along(x, dx *ir.Value) *ir.Value {
	return d.Mul(d.Convert(x, ir.F32), d.Convert(dx, ir.F32))
}

func (d *Decay) Along(x, dx *ir.Value) *ir.Value {
	return d.Mul(d.element(x, gdn.DecayBF16Rows), d.element(dx, gdn.DecayBF16Rows))
}

// lower says which pairs of rows i, those of second halves or all, and lanes j are of a level; of a span those with i at least by after j.
func (l level) lower(b *ir.Builder, by int) func(row, lane *ir.Value) *ir.Value {
	return func(row, lane *ir.Value) *ir.Value {
		if l.wide {
			return l.pairs(b, row, lane)
		}
		return l.within(b, lane, row, by)
	}
}

// upper is the transpose of lower: rows j, those of first halves or all, and lanes i.
// Where first halves stand alone, r is half 2r, whose pairs are lanes of 2r + 1.
func (l level) upper(b *ir.Builder, by int) func(row, lane *ir.Value) *ir.Value {
	return func(row, lane *ir.Value) *ir.Value {
		switch {
		case !l.wide:
			return l.within(b, row, lane, by)
		case l.halves() == 0:
			return l.pairs(b, lane, row)
		}
		half := b.Like(row, float64(l.block/2))
		row, lane = b.Div(row, half), b.Div(lane, half)
		return b.Compare(ir.EQ, lane, b.Add(b.Add(row, row), b.Like(row, 1)))
	}
}

// within reports whether j and i are in one block, i at least by after j.
func (l level) within(b *ir.Builder, j, i *ir.Value, by int) *ir.Value {
	size := b.Like(j, float64(l.block))
	return b.And(b.Compare(ir.EQ, b.Div(j, size), b.Div(i, size)), b.Compare(ir.GE, i, b.Add(j, b.Like(j, float64(by)))))
}

// alongDecay sums what each log decay decays: of each level over its halves, and over the narrowest blocks, from each token on or up to it.
//
//	dg_t = sum_(l >= t) Risen_l + sum_(l < t) Rest_l + Whole + those of the levels
//
// since e^(L_l), the decay from the state before to token l, has g_t for l >= t, e^(L_C - L_l) has it for l < t, and e^(L_C) always. All of
// them are terms of one product (sums).
func (d *Decay) alongDecay(levels []made, ends Ends) *ir.Value {
	b, c := d.Builder.Stage("dg"), d.Chunk
	from := func(b *ir.Builder, i, l *ir.Value) *ir.Value { return b.Compare(ir.LE, i, l) }
	until := func(b *ir.Builder, i, l *ir.Value) *ir.Value { return b.Compare(ir.GT, i, l) }
	once := func(x *ir.Value) *ir.Value { // nothing cancels, so one rounding is as good as those of the products
		if d.onePass() {
			return d.Convert(x, ir.BF16)
		}
		return x
	}
	terms := []summed{{once(ends.Risen), c, from}, {once(ends.Rest), c, until}}
	for _, l := range levels {
		if l.wide {
			terms = append(terms, summed{once(l.summands), l.block, halfwise(l.block, from, until)})
		} else {
			terms = append(terms, summed{l.summands, l.block, from})
		}
	}
	dg := b.Add(d.sums(terms...), d.row(b.Reshape(ends.Whole, ends.Whole.Type.Shape[0], ends.Whole.Type.Shape[2]), c))
	if d.Bound != 0 {
		return dg
	}
	// At the floor and below, the decay is the floor whatever the log decay is: no gradient.
	floor := float64(tile.ResetFloor) * Nat(d.Variant)
	return b.Select(b.Compare(ir.GT, d.Log, b.Like(d.Log, floor*(1-1e-6))), dg, b.Like(dg, 0))
}
