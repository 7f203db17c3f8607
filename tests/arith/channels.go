package arith

import "math"

// A decay a channel is between the factors of each term of K K^T and Q K^T, so each pair of tokens is cut at a boundary between the two:
// what decays before it is taken by the earlier token's key, what decays after it by the later token's row. Tokens of the second half of a
// block are cut from those of the first at its middle, for blocks of 2, 4, 8 tokens and so on. All factors are at most 1, and each is the
// exponential of a sum of its own: nothing overflows, and nothing cancels.
//
// Where decays are bounded, tokens of a span share one boundary, half of the lowest log decay that the span can have, and a pair's two
// factors are as far from 1 as float32 holds. Then operands of all pairs are rounded, those of a token with itself too.

// decays returns exp of the sum of the log decays of tokens first to last-1, for each channel.
func (c class) decays(g Matrix, first, last int) []float32 {
	d := make([]float32, g.Cols)
	for t := first; t < last; t++ {
		for i, x := range g.X[t*g.Cols:][:g.Cols] {
			d[i] += x
		}
	}
	for i, x := range d {
		d[i] = float32(math.Exp(float64(x)))
	}
	return d
}

// byChannels multiplies row i by factors of its channels, rounded as operands of products.
func (m Matrix) byChannels(i int, by []float32, c class) {
	row := m.X[i*m.Cols:][:m.Cols]
	for j := range row {
		row[j] = c.factor(row[j] * c.factor(by[j]))
	}
}

// reach bounds the exponent of a factor, in absolute value.
const reach = 80

// span returns the widest block of tokens whose decays stay in reach of a boundary in its middle.
func span(bound float64) int {
	n := 1
	for bound != 0 && -bound*float64(2*n)/2 <= reach {
		n *= 2
	}
	return n
}

// pairs returns rows K^T of tokens i and j, with the decay between them, for all i >= j.
func (c class) pairs(rows, k, g Matrix, bound float64) Matrix {
	n, block := k.Rows, span(bound)
	x := New(n, n)
	for first := 0; first < n; first += block {
		c.ownPairs(x, rows, k, g, first, min(first+block, n), -bound*float64(block)/2)
	}
	for half := block; half < n; half *= 2 {
		for first := 0; first+half < n; first += 2 * half {
			middle, end := first+half, min(first+2*half, n)
			later, earlier := rows.rows(middle, end-middle).clone(), k.rows(first, half).clone()
			for i := range later.Rows {
				later.byChannels(i, c.decays(g, middle, middle+i+1), c)
			}
			for j := range earlier.Rows {
				earlier.byChannels(j, c.decays(g, first+j+1, middle), c)
			}
			part := c.product(later, earlier.turned())
			for i := range later.Rows {
				copy(x.X[(middle+i)*n+first:][:half], part.X[i*half:])
			}
		}
	}
	return x
}

// ownPairs computes the pairs within a span; a token with itself has no decay.
func (c class) ownPairs(x, rows, k, g Matrix, first, end int, middle float64) {
	later, earlier := rows.rows(first, end-first).clone(), k.rows(first, end-first).clone()
	sum := make([]float32, g.Cols)
	for i := 0; i < end-first && middle != 0; i++ {
		up, down := make([]float32, g.Cols), make([]float32, g.Cols)
		for j, at := range g.X[(first+i)*g.Cols:][:g.Cols] {
			sum[j] += at
			up[j], down[j] = float32(math.Exp(float64(sum[j])+middle)), float32(math.Exp(-middle-float64(sum[j])))
		}
		later.byChannels(i, up, c)
		earlier.byChannels(i, down, c)
	}
	part := c.product(later, earlier.turned())
	for i := range later.Rows {
		copy(x.X[(first+i)*x.Cols+first:][:i+1], part.X[i*part.Cols:])
	}
}

// channelChunk is chunk with a decay per channel.
func (c class) channelChunk(h Head) (o, state Matrix) {
	n, g := h.K.Rows, h.Channels
	kk, qk := c.pairs(h.K, h.K, g, h.Bound), c.pairs(h.Q, h.K, g, h.Bound)
	p := chunkParts{keys: h.K.clone(), queries: h.Q.clone(), rest: h.K.clone(), a: New(n, n), p: New(n, n), expG: c.decays(g, 0, n)}
	for i := range n {
		for j := range i + 1 {
			beta := float32(h.Beta[j])
			p.p.X[i*n+j] = c.factor(qk.X[i*n+j] * beta)
			if j < i {
				p.a.X[i*n+j] = c.factor(kk.X[i*n+j] * beta)
			}
		}
		risen := c.decays(g, 0, i+1)
		p.keys.byChannels(i, risen, c)
		p.queries.byChannels(i, risen, c)
		p.rest.byChannels(i, c.decays(g, i+1, n), c)
		p.rest.scaleRow(i, c.factor(float32(h.Beta[i])), c)
	}
	return c.through(h, p)
}
