package arith

import (
	"math"

	"github.com/gdngen/gdngen/ir/array"
)

// Peer is the arithmetic of a public kernel in bf16: where it rounds operands of products.
type Peer struct {
	Name  string
	Chunk int
	chunk func(t tile) (o, state Matrix)
}

// Peers lists the public kernels whose arithmetic is known. All have A = tril(diag(beta) (K K^T . D), -1), X = (I + A)^-1,
//
//	U = X diag(beta) V   W = X diag(beta e^G) K   V' = U - W S
//	O = Q e^G S + (Q K^T . D) V'   S <- e^G_C S + (K e^(G_C - G))^T V'
//
// and differ in what they round: to bf16 before a product in one pass, or not at all in one of float32. What a TPU or GPU adds, the order of
// sums in float32, is not here. It is some 1e-6.
var Peers = []Peer{
	{"tokamax", 128, onePass},
	{"tpu-inference v2", 128, f32Inside},
	{"MaxText PR 4348", 128, func(t tile) (o, state Matrix) { return t.maxText(bf16s) }},
	{"MaxText PR 4348, A kept in f32 by XLA", 128, func(t tile) (o, state Matrix) { return t.maxText(asIs) }},
	{"FLA bf16, chunk 64 (GPU)", 64, flashLinearAttention},
}

// Run returns the outputs [T, V] and the final state [K, V].
func (p Peer) Run(h Head) (o, state Matrix) {
	t := h.Q.Rows
	o, state = New(t, h.V.Cols), h.Initial.clone()
	for first := 0; first < t; first += p.Chunk {
		n := min(p.Chunk, t-first)
		part := Head{Q: h.Q.rows(first, n), K: h.K.rows(first, n), V: h.V.rows(first, n), G: h.G[first:][:n], Beta: h.Beta[first:][:n], Scale: h.Scale, Initial: state}
		var rows Matrix
		rows, state = p.chunk(newTile(part))
		copy(o.X[first*h.V.Cols:], rows.X)
	}
	return o, state
}

// tile is one chunk of one head, with the values that all peers use.
type tile struct {
	Head
	d          Matrix    // decay between tokens, 1 on the diagonal, 0 above it
	beta       []float32 // of each token
	expG, tail []float32 // exp(G) and exp(G_C - G)
	all        float32   // exp(G_C)
}

func newTile(h Head) tile {
	n := h.Q.Rows
	t := tile{Head: h, d: New(n, n)}
	sum, at := make([]float32, n), float32(0)
	for i, g := range h.G {
		at += float32(g)
		sum[i] = at
		t.beta = append(t.beta, float32(h.Beta[i]))
	}
	exp := func(x float32) float32 { return float32(math.Exp(float64(x))) }
	for i := range n {
		for j := range i + 1 {
			t.d.X[i*n+j] = exp(sum[i] - sum[j])
		}
		t.expG, t.tail = append(t.expG, exp(sum[i])), append(t.tail, exp(at-sum[i]))
	}
	t.all = exp(at)
	return t
}

// each returns f of every element, and times the product of elements.
func (m Matrix) each(f func(float32) float32) Matrix {
	y := m.clone()
	for i, x := range y.X {
		y.X[i] = f(x)
	}
	return y
}

func (m Matrix) elements(by Matrix) Matrix {
	y := m.clone()
	for i := range y.X {
		y.X[i] *= by.X[i]
	}
	return y
}

// byRows multiplies row i by x[i].
func (m Matrix) byRows(x []float32) Matrix {
	y := m.clone()
	for i := range y.X {
		y.X[i] *= x[i/m.Cols]
	}
	return y
}

func (m Matrix) scaled(by float32) Matrix {
	return m.each(func(x float32) float32 { return x * by })
}

// plus returns m + factor x.
func (m Matrix) plus(x Matrix, factor float32) Matrix {
	y := m.clone()
	y.add(x, factor)
	return y
}

// strict returns the part below the diagonal.
func (m Matrix) strict() Matrix {
	y := m.clone()
	for i := range y.X {
		if i%m.Cols >= i/m.Cols {
			y.X[i] = 0
		}
	}
	return y
}

type rounding func(Matrix) Matrix

func bf16s(m Matrix) Matrix { return m.each(array.RoundBF16) }

func asIs(m Matrix) Matrix { return m }

// tf32s rounds to ten bits of mantissa.
func tf32s(m Matrix) Matrix {
	return m.each(func(x float32) float32 {
		u := math.Float32bits(x)
		return math.Float32frombits((u + u>>13&1 + 0xfff) &^ 0x1fff)
	})
}

// product returns a b of rounded operands.
func (r rounding) product(a, b Matrix) Matrix { return r(a).times(r(b)) }

// substituted returns (I + a)^-1 by blocks of 16 rows: exact substitution inside, products of rounded operands with the rows above.
func (r rounding) substituted(a Matrix) Matrix {
	n := a.Rows
	x := New(n, n)
	for first := 0; first < n; first += leaf {
		rows := min(leaf, n-first)
		block := New(rows, n)
		for i := range rows {
			block.X[i*n+first+i] = 1
		}
		if first > 0 {
			block.add(r.product(a.block(first, 0, rows, first), x.block(0, 0, first, n)), -1)
		}
		for i := range rows {
			for j := range i {
				by := a.X[(first+i)*n+first+j]
				for m := range n {
					block.X[i*n+m] -= by * block.X[j*n+m]
				}
			}
		}
		copy(x.X[first*n:], block.X)
	}
	return x
}

// onePass has all products in one bf16 pass: tokamax 0.1.1, causal_conv1d_gated_delta_rule.
func onePass(t tile) (o, state Matrix) {
	one := rounding(bf16s)
	q, kb := t.Q.scaled(float32(t.Scale)), t.K.byRows(t.beta)
	x := one.substituted(t.d.elements(one.product(kb, t.K.turned())).strict())
	u, w := one.product(x, t.V.byRows(t.beta)), one.product(x, kb.byRows(t.expG))
	v := u.plus(one.product(w, t.Initial), -1)
	o = one.product(q.byRows(t.expG), t.Initial)
	o.add(one.product(one.product(q, t.K.turned()).elements(t.d), v), 1)
	return o, t.Initial.scaled(t.all).plus(one.product(t.K.byRows(t.tail).turned(), v), 1)
}

// f32Inside has the inverse, its products and P V' in float32, and one bf16 pass for products with keys or the state: the arithmetic of
// ragged_gated_delta_rule v2 of tpu-inference.
func f32Inside(t tile) (o, state Matrix) {
	one, full := rounding(bf16s), rounding(asIs)
	q, kb := t.Q.scaled(float32(t.Scale)), t.K.byRows(t.beta)
	x := full.substituted(t.d.elements(one.product(kb, t.K.turned())).strict())
	u, w := x.times(t.V.byRows(t.beta)), x.times(kb.byRows(t.expG))
	v := u.plus(one.product(w, t.Initial), -1)
	o = one.product(q.byRows(t.expG), t.Initial)
	o.add(one.product(q, t.K.turned()).elements(t.d).times(v), 1)
	return o, t.Initial.scaled(t.all).plus(one.product(t.K.byRows(t.tail).turned(), v), 1)
}

// maxText has tensors in bf16 between ops: beta, keys times beta, A as it is kept, U and W; and the inverse of what A then is.
func (t tile) maxText(kept rounding) (o, state Matrix) {
	one := rounding(bf16s)
	beta := make([]float32, len(t.beta))
	for i, x := range t.beta {
		beta[i] = array.RoundBF16(x)
	}
	q, kb := bf16s(t.Q.scaled(array.RoundBF16(float32(t.Scale)))), bf16s(t.K.byRows(beta))
	x := rounding(asIs).substituted(kept(kb.times(t.K.turned())).elements(t.d).strict())
	u, w := bf16s(x.times(bf16s(t.V.byRows(beta)))), bf16s(x.times(kb.byRows(t.expG)))
	v := u.plus(one.product(w, t.Initial), -1)
	o = one.product(q.byRows(t.expG), t.Initial)
	o.add(one.product(one.product(q, t.K.turned()).elements(t.d), v), 1)
	return o, t.Initial.scaled(t.all).plus(one.product(t.K.byRows(t.tail).turned(), v), 1)
}

// flashLinearAttention has the merges of the inverse in tf32, and X, U, W and V' in bf16; decay and scale are applied to results of products.
func flashLinearAttention(t tile) (o, state Matrix) {
	one := rounding(bf16s)
	a := t.d.elements(one.product(t.K, t.K.turned())).byRows(t.beta).strict()
	x := bf16s(rounding(tf32s).substituted(a))
	u, w := bf16s(one.product(x, t.V.byRows(t.beta))), bf16s(one.product(x, t.K.byRows(t.beta).byRows(t.expG)))
	v := u.plus(one.product(w, t.Initial), -1)
	o = one.product(t.Q, t.Initial).byRows(t.expG)
	o.add(one.product(one.product(t.Q, t.K.turned()).elements(t.d), bf16s(v)), 1)
	return o.scaled(float32(t.Scale)), t.Initial.scaled(t.all).plus(one.product(t.K.turned(), v.byRows(t.tail)), 1)
}
