// Package arith computes the chunkwise rule in a class of arithmetic, independently of the kernels that its results judge. At
// bf16x1 operands of products are rounded to bf16, and so are decay factors and their factors; at bf16x3 operands are two bf16
// parts, and decay and beta are one power of 2, of differences of float32 sums; at f32 only float32 rounds. Sums are float32. With
// L = tril(K K^T, -1) * decay * beta by columns and T = (I + L)^-1, a chunk of state S gives
//
//	U  = T (V - e^G K S)
//	O  = e^G Q S + (tril(Q K^T) * decay * beta) U
//	S' = e^G_C S + (K * beta e^(G_C - G))^T U
//
// so beta and the tail decay are rounded into K, as in the fastest kernels. T is computed from blocks of 16 rows by substitution,
// merged in pairs: (X11 0; -X22 L21 X11, X22).
package arith

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/ir/array"
)

// Chunk is the number of tokens per chunk.
const Chunk = 128

// Head is one head of one sequence. All rows of Q, K and V are exact in the element type of the inputs; Q is not scaled.
type Head struct {
	Q, K, V  Matrix
	G, Beta  []float64
	Channels Matrix // [T, K] log decays per channel, instead of G
	Scale    float64
	Bound    float64 // lower bound of the channels' log decays, on which arithmetic may rely; 0: none
	Initial  Matrix  // [K, V]; empty: zeros
}

// Run returns the outputs [T, V] and the final state [K, V] at a precision: f32, bf16x3 or bf16x1. Another precision is an error.
func Run(h Head, precision string) (o, state Matrix, err error) {
	c, ok := map[string]class{"f32": {}, "bf16x3": {parts: 2, powers: true}, "bf16x1": {parts: 1, low: true}}[precision]
	if !ok {
		return o, state, fmt.Errorf("no arithmetic of precision %q is known (known: f32 bf16x3 bf16x1)", precision)
	}
	t := h.Q.Rows
	o, state = New(t, h.V.Cols), New(h.K.Cols, h.V.Cols)
	copy(state.X, h.Initial.X)
	for first := 0; first < t; first += Chunk {
		n := min(Chunk, t-first)
		part := Head{Q: h.Q.rows(first, n), K: h.K.rows(first, n), V: h.V.rows(first, n), Beta: h.Beta[first:][:n], Scale: h.Scale, Initial: state}
		var rows Matrix
		if h.Channels.Rows > 0 {
			part.Channels, part.Bound = h.Channels.rows(first, n), h.Bound
			rows, state = c.channelChunk(part)
		} else {
			part.G = h.G[first:][:n]
			rows, state = c.chunk(part)
		}
		copy(o.X[first*h.V.Cols:], rows.X)
	}
	return o, state, nil
}

// class is a rounding of products and decay factors.
type class struct {
	parts  int  // bf16 parts of an operand; 0: not split
	low    bool // decay factors in bf16
	powers bool // beta and decay as one power of 2
}

// least is the smallest log decay of a token in sums of powers of 2: below it the factor is 0.
const least = -40

// chunk returns the outputs of one chunk and the state after it.
func (c class) chunk(h Head) (o, state Matrix) {
	n := h.Q.Rows
	sum, at := make([]float32, n), float32(0)
	for i, g := range h.G {
		at += float32(g)
		sum[i] = at
	}
	exp := func(x float32) float32 { return c.factor(float32(math.Exp(float64(x)))) }
	by := c.weight(h, sum)
	weights := func(x Matrix, diagonal bool) Matrix { // lower triangle by decay and beta
		w := New(n, n)
		for i := range n {
			for j := range i + 1 {
				if j < i || diagonal {
					w.X[i*n+j] = by(x.X[i*n+j], i, j)
				}
			}
		}
		return w
	}
	k := h.K.turned()
	x := chunkParts{a: weights(c.product(h.K, k), false), p: weights(c.product(h.Q, k), true), keys: h.K.clone(), queries: h.Q.clone(), rest: h.K.clone()}
	for i := range n {
		left := c.factor(float32(math.Exp(c.between(h.G, sum, i, n-1))) * float32(h.Beta[i]))
		x.keys.scaleRow(i, exp(sum[i]), c)
		x.queries.scaleRow(i, exp(sum[i]), c)
		x.rest.scaleRow(i, left, c)
	}
	for range h.K.Cols {
		x.expG = append(x.expG, float32(math.Exp(float64(sum[n-1]))))
	}
	return c.through(h, x)
}

// chunkParts are the results of decay and beta in a chunk: L and the weights of outputs, the operands applied to the
// state, and the total decay of each row of the state.
type chunkParts struct {
	a, p, keys, queries, rest Matrix
	expG                      []float32
}

// through applies the parts of a chunk to a state.
func (c class) through(h Head, x chunkParts) (o, state Matrix) {
	r := h.V.clone()
	r.add(c.product(x.keys, h.Initial), -1)
	u := c.product(c.inverse(x.a), r)
	o = c.product(x.queries, h.Initial)
	o.add(c.product(x.p, u), 1)
	for i := range o.X {
		o.X[i] *= float32(h.Scale)
	}
	state = h.Initial.clone()
	for i := range state.X {
		state.X[i] *= x.expG[i/state.Cols]
	}
	state.add(c.product(x.rest.turned(), u), 1)
	return o, state
}

// weight returns a function that multiplies a product of tokens i and j by the decay between them and beta of the earlier.
func (c class) weight(h Head, sum []float32) func(x float32, i, j int) float32 {
	if !c.powers {
		return func(x float32, i, j int) float32 {
			return c.factor(c.factor(x) * c.factor(float32(math.Exp(c.between(h.G, sum, j, i)))) * float32(h.Beta[j]))
		}
	}
	rows, columns, at := make([]float32, len(sum)), make([]float32, len(sum)), float32(0)
	for i, g := range h.G {
		at += float32(max(g, least) * math.Log2E)
		rows[i], columns[i] = at, at-float32(math.Log2(h.Beta[i]))
	}
	return func(x float32, i, j int) float32 { return x * float32(math.Exp2(float64(rows[i]-columns[j]))) }
}

// between returns the log decay from after token j to token i: the difference of two sums, or a separate sum if a reset
// makes those so large that their difference is not exact.
func (c class) between(g []float64, sum []float32, j, i int) float64 {
	if sum[i] > -60 {
		return float64(sum[i] - sum[j])
	}
	var s float32
	for _, x := range g[j+1 : i+1] {
		s += float32(x)
	}
	return float64(s)
}

// factor rounds a number of the vector unit to bf16 if the class is low.
func (c class) factor(x float32) float32 {
	if c.low {
		return array.RoundBF16(x)
	}
	return x
}

const leaf = 16

// inverse returns (I + l)^-1 for a strictly lower triangular l.
func (c class) inverse(l Matrix) Matrix {
	n := l.Rows
	if n <= leaf {
		return substitute(l)
	}
	half := leaf
	for half*2 < n {
		half *= 2
	}
	x11, x22 := c.inverse(l.block(0, 0, half, half)), c.inverse(l.block(half, half, n-half, n-half))
	x21 := c.product(x22, c.product(l.block(half, 0, n-half, half), x11))
	x := New(n, n)
	for i := range half {
		copy(x.X[i*n:], x11.X[i*half:][:half])
	}
	for i := range n - half {
		for j := range half {
			x.X[(half+i)*n+j] = -x21.X[i*half+j]
		}
		copy(x.X[(half+i)*n+half:], x22.X[i*(n-half):][:n-half])
	}
	return x
}

// substitute is forward substitution, in float32.
func substitute(l Matrix) Matrix {
	n := l.Rows
	x := New(n, n)
	for i := range n {
		x.X[i*n+i] = 1
		for j := range i {
			for m := range n {
				x.X[i*n+m] -= l.X[i*n+j] * x.X[j*n+m]
			}
		}
	}
	return x
}

// product returns a b from the class's parts: the products of parts whose ranks sum to less than their number, smallest first.
func (c class) product(a, b Matrix) Matrix {
	if c.parts == 0 {
		return a.times(b)
	}
	as, bs := a.split(c.parts), b.split(c.parts)
	sum := New(a.Rows, b.Cols)
	for rank := c.parts - 1; rank >= 0; rank-- {
		for i := range rank + 1 {
			sum.add(as[i].times(bs[rank-i]), 1)
		}
	}
	return sum
}
