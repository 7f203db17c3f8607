// Package channel computes per-channel decays in a chunk: the products K K^T and Q K^T of pairs of tokens
// with the decay between them, and their gradients.
//
// With L the sums of the log decay along a chunk,
//
//	A_ij = beta_i sum_c k_ic k_jc e^(L_ic - L_jc)   P_ij = scale sum_c q_ic k_jc e^(L_ic - L_jc)
//
// Unlike a per-head decay, this one lies between the two factors of each term, so it cannot be a weight of a product. It is split at a boundary between
// j and i: the decay before it multiplies K at j, the decay after it K and Q at i. Both factors are at most 1, for any decay, and
// tokens after i do not enter them. Pairs that share a boundary are a level: tokens of the second half of a block with tokens of
// the first half, for blocks of 2, 4, 8 tokens and so on. No token is in both halves, so rows and columns of a level share one array of factors.
//
// Blocks of a span use one product for all of their pairs. With L_0 the sum before the block, the factors are e^(L_i - L_0 - m) and e^(L_0 - L_j + m),
// where m is half of the lowest log decay of a block. Both are finite for any token of the block, so the decay must be bounded. The bound is the
// spec's; or -40, below which float32 keeps nothing, if one bf16 pass hides the errors of such sums.
//
// Example: in a chunk of 64 with span=16 the pair (40, 20) is in the level of 64, split at 32; (40, 35) is in the span that starts at 32.
package channel

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Tools are the helpers for the body of a grid. Values have N interleaved entries: [N, rows, lanes].
type Tools struct {
	*ir.Builder
	Variant gdn.Variant
	Bound   float64 // of the log decay; 0: none
	Chunk   int

	Dot   func(x, y *ir.Value, tx, ty bool, p ir.Precision) *ir.Value // products at a precision; tx and ty as in ir.MatMul
	Store func(x *ir.Value) *ir.Value                                 // converts a value to its stored form between stages
	Split func(x *ir.Value, n int) []*ir.Value                        // x as n bf16 parts
	Iota  func(rows, lanes, axis int) *ir.Value
	// Concat joins values along an axis, with their stored parts; Moved applies f, which moves elements, to a value and to its parts.
	Concat func(axis int, xs ...*ir.Value) *ir.Value
	Moved  func(x *ir.Value, f func(*ir.Value) *ir.Value) *ir.Value
	// Masked zeroes x [N, rows, lanes] where keep, of the i32 indices of rows and lanes, does not hold, and stores it.
	Masked func(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value
}

// Decay holds the decays of the chunks in flight.
type Decay struct {
	Tools
	Log         *ir.Value // [N, C, K] log decay, in the base of the sums
	Risen, Rest *ir.Value // [N, C, K]: decay from the state before the chunk to each token, and from each token to the chunk's end
	Total       *ir.Value // [N, 1, K]: decay of the state over the whole chunk
	levels      []level
}

// level is the pairs of a boundary: all pairs of each block, or pairs between its two halves (wide).
type level struct {
	rows, columns *ir.Value // [N, C, K] factors of K and Q at i, and of K at j; nil for ones
	block         int
	wide          bool
}

// Nat returns the logarithm of e in the base of a variant's sums: 1, or log2(e).
func Nat(v gdn.Variant) float64 {
	if v.Algo == gdn.AlgoChunk && v.Decay == gdn.DecayBase2 {
		return math.Log2E
	}
	return 1
}

// Cut computes the factors from the log decays. Sums stay inside blocks of up to sumBlock tokens, or of a span, so that no difference of sums loses small
// decays next to strong ones. Factors of wider blocks are products of the factors of their halves.
//
//	C = 64, span = 16     pairs i, j                              factors at i, and at j
//	span                  both in 0-15, 16-31, 32-47 or 48-63     from ofSpan
//	level of 32           16-31 with 0-15, 48-63 with 32-47       upto, and after, of blocks of 16
//	level of 64           32-63 with 0-31                         upto, and after, of blocks of 32: products of those of 16
func (d *Decay) Cut() {
	g, c := d.Log, d.Chunk
	// At least the floor, so that a span has a lowest decay and thus a boundary.
	if d.Bound == 0 {
		g = d.Max(g, d.Like(g, tile.ResetFloor*Nat(d.Variant)))
	}
	block := min(d.Variant.Span, c)
	upto, after := d.ofSpan(g, block)
	for ; block < c; block *= 2 {
		wide := level{block: 2 * block, wide: true}
		if 2*block <= sumBlock {
			wide.rows = d.across(g, 2*block)
			wide.columns = wide.rows
			if 2*block == min(c, sumBlock) {
				upto, after = d.exp(d.blockSums(g, 2*block, upTo)), d.exp(d.blockSums(g, 2*block, beyond))
			}
		} else {
			wide.rows, wide.columns = upto, after
			if 2*block == c { // a separate row: the transposed part is not the whole
				d.Total = d.Mul(d.rowOf(upto, block-1), d.rowOf(upto, c-1))
			}
			upto, after = d.doubled(upto, after, block)
		}
		d.levels = append(d.levels, wide)
	}
	d.Risen, d.Rest = upto, after
	if d.Total == nil {
		d.Total = d.rowOf(upto, c-1)
	}
}

// ofSpan makes the level of the narrowest blocks, and their decays from the block's start up to and including each token, and after it to the block's end.
// The boundary is half of the lowest decay of a block, so that both factors have the same range.
//
// With a bound of -5 and a span of 32 sums of log2 go from 0 to -231, and middle is 115. Factors are from 2^-116 to 2^115; float32
// and bf16 range from 2^-126 to 2^128. A boundary at an end would need 2^231.
func (d *Decay) ofSpan(g *ir.Value, block int) (upto, after *ir.Value) {
	own := level{block: block}
	if block == 1 { // pairs of a token with itself
		d.levels = append(d.levels, own)
		return nil, nil
	}
	lowest := -float64(tile.ResetFloor)
	if d.Bound != 0 {
		lowest = -d.Bound
	}
	// Keys without decay (g = 0) are multiplied by 2^115, which is exact. With 115.4 they would be rounded again: inputs of
	// class identical then exceed their limit of bias, 2.2e-3 against 1.3e-3.
	middle := math.Round(lowest * Nat(d.Variant) * float64(block) / 2) // a power of two in base 2, which rounds no key
	sum := d.blockSums(g, block, upTo)
	own.rows, own.columns = d.exp(d.Add(sum, d.Like(sum, middle))), d.exp(d.Sub(d.Like(sum, -middle), sum))
	d.levels = append(d.levels, own)
	// The decays of states multiply over chunks, so the boundary must not round them. The decay after a token is used once.
	if d.onePass() {
		// e^(-m - L_j) e^(L_end + m) = e^(L_end - L_j) saves an exponential.
		return d.exp(sum), d.Mul(own.columns, d.fromBlock(own.rows, block, block-1))
	}
	return d.exp(sum), d.exp(d.Sub(d.fromBlock(sum, block, block-1), sum))
}

// onePass reports whether products round their operands to bf16.
func (d *Decay) onePass() bool { return d.Variant.Precision() == ir.PrecBF16x1 }

// across returns the decays between each token and the middle of its block, for rows in second halves and columns in first ones.
//
//	a block of 4, middle between 1 and 2, exponents:   token 0: g1   1: 0   2: g2   3: g2+g3
//	pair (3, 0):   (g2+g3) + g1 = L_3 - L_0
func (d *Decay) across(g *ir.Value, block int) *ir.Value {
	return d.exp(d.blockSums(g, block, halfwise(block, upTo, beyond)))
}

func (d *Decay) rowOf(x *ir.Value, i int) *ir.Value { return d.SliceAxis(x, 1, i, i+1) }

// sumBlock is the widest block with decays from sums of logarithms: 16 rows, so that the halves of wider blocks are whole bf16 registers.
const sumBlock = 2 * target.Sublanes

// exp returns the exponential in the base of the sums.
func (d *Decay) exp(x *ir.Value) *ir.Value {
	if d.Variant.Decay == gdn.DecayBase2 {
		return d.Unary(ir.OpExp2, x)
	}
	return d.Exp(x)
}

// sumParts returns the number of bf16 parts in sums.
// Three parts of 8 bits have all 24 bits of a float32. Two have 16, enough if factors are rounded to 8.
func (d *Decay) sumParts() int {
	if d.onePass() {
		return 2
	}
	return 3
}

// A pairing reports whether the sum at token i includes token l of its block.
type pairing func(b *ir.Builder, i, l *ir.Value) *ir.Value

func upTo(b *ir.Builder, i, l *ir.Value) *ir.Value   { return b.Compare(ir.GE, i, l) }
func beyond(b *ir.Builder, i, l *ir.Value) *ir.Value { return b.Compare(ir.LT, i, l) }

// halfwise includes only tokens in the same half as i: by second in second halves of blocks, by first in first halves.
//
//	halfwise(4, upTo, beyond)   l = 0 1 2 3
//	                    i = 0       . 1 . .
//	                    i = 1       . . . .
//	                    i = 2       . . 1 .
//	                    i = 3       . . 1 1
func halfwise(block int, second, first pairing) pairing {
	return func(b *ir.Builder, i, l *ir.Value) *ir.Value {
		half, one := b.Like(i, float64(block/2)), b.Like(i, 1)
		t := ir.T(ir.I32, i.Type.Shape...)
		number := func(x *ir.Value) *ir.Value { return b.Select(x, b.Const(t, 1), b.Const(t, 0)) }
		later := b.Compare(ir.EQ, b.And(b.Div(i, half), one), one)
		chosen := b.Select(later, number(second(b, i, l)), number(first(b, i, l)))
		return b.And(b.Compare(ir.EQ, b.Div(i, half), b.Div(l, half)), b.Compare(ir.EQ, chosen, one))
	}
}

// summed is a value [N, C, K] to sum inside blocks over a pairing, in bf16 if it may be rounded.
type summed struct {
	x      *ir.Value
	block  int
	wanted pairing
}

// blockSums sums g, for each token i, over the tokens l of its block for which wanted holds.
func (d *Decay) blockSums(g *ir.Value, block int, wanted pairing) *ir.Value {
	return d.sums(summed{g, block, wanted})
}

// sums adds several block sums.
//
// All terms and their parts are one product with a long contracted dimension, so the MXU adds them in
// float32. With M and N the matrices of ones of two pairings and x = x1 + x2,
//
//	M x + N y = [M M N] [x1; x2; y]     [C, 3C] [3C, K]
func (d *Decay) sums(terms ...summed) *ir.Value {
	var left, right []*ir.Value
	dtype, prec := ir.F32, ir.PrecF32
	for _, term := range terms {
		parts := []*ir.Value{d.Convert(term.x, ir.F32)}
		if d.Variant.Decay == gdn.DecayBase2 {
			parts, dtype, prec = d.Split(term.x, d.sumParts()), ir.BF16, ir.PrecBF16x1
		}
		t := ir.T(dtype, d.Chunk, d.Chunk)
		ones := d.Select(d.taken(term), d.Const(t, 1), d.Const(t, 0))
		for _, part := range parts {
			left, right = append(left, ones), append(right, part)
		}
	}
	return d.MatMul(d.over(right[0].Type.Shape[0], d.Concat(1, left...)), d.Concat(1, right...), false, false, prec)
}

// taken returns the [C, C] matrix of which tokens l each token i includes.
func (d *Decay) taken(term summed) *ir.Value {
	of := term.wanted(d.Builder, d.Iota(d.Chunk, d.Chunk, 0), d.Iota(d.Chunk, d.Chunk, 1))
	if term.block < d.Chunk {
		of = d.And(d.inBlock(term.block), of)
	}
	return of
}

// inBlock returns which pairs of tokens [C, C] are in one block.
func (d *Decay) inBlock(block int) *ir.Value {
	c := d.Chunk
	ri, ci := d.Iota(c, c, 0), d.Iota(c, c, 1)
	size := d.Like(ri, float64(block))
	return d.Compare(ir.EQ, d.Div(ri, size), d.Div(ci, size))
}

// over repeats a [R, L] tile over N entries.
func (d *Decay) over(n int, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return d.Broadcast(x, []int{n, s[0], s[1]}, 1, 2)
}

// row broadcasts [N, K] over rows.
func (d *Decay) row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return d.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// fromBlock broadcasts one row of each block of x [N, C, K] over the block.
// Example: block 4, row 3: 3 3 3 3 7 7 7 7.
func (d *Decay) fromBlock(x *ir.Value, block, row int) *ir.Value {
	s := x.Type.Shape
	var parts []*ir.Value
	for at := 0; at < s[1]; at += block {
		own := d.Reshape(d.SliceAxis(x, 1, at+row, at+row+1), s[0], s[2])
		parts = append(parts, d.row(own, block))
	}
	return d.Concat(1, parts...)
}

// doubled returns the decays for blocks of twice the size: in second halves upto times the whole decay of the first half,
// in first halves after times the whole decay of the second.
//
//	           first half                   second half
//	upto       upto_i                       upto_i  upto_end of the first
//	after      after_j  upto_end of the second     after_j
func (d *Decay) doubled(upto, after *ir.Value, block int) (*ir.Value, *ir.Value) {
	b, h := d.Builder, halves(block)
	first, second := h.first(b, upto), h.second(b, upto)
	total := func(x *ir.Value) *ir.Value { return d.fromBlock(x, block, block-1) }
	return h.join(b, first, b.Mul(second, total(first))), h.join(b, b.Mul(h.first(b, after), total(second)), h.second(b, after))
}

// Products returns R K^T and Q K^T [N, C, C] with the decay of each pair, for rows R, q and k [N, C, K]; elements above the diagonal are undefined.
// R is K, or the key that reads the state. Either of q and rows may be nil.
func (d *Decay) Products(q, k, rows *ir.Value) (kk, qk *ir.Value) {
	b := d.Builder
	var wanted []*ir.Value
	if rows != nil {
		wanted = append(wanted, rows)
	}
	if q != nil {
		wanted = append(wanted, q)
	}
	made := make([]*ir.Value, len(wanted))
	for _, l := range d.levels {
		h := l.halves()
		var left []*ir.Value
		for _, x := range wanted {
			times := d.OfKeys
			if x == q {
				times = d.Times
			}
			left = append(left, times(h.second(b, x), h.second(b, l.rows)))
		}
		columns := d.columns(l, k, left[0])
		n := left[0].Type.Shape[1]
		// Both use the same columns, which are loaded into the MXU once.
		if d.Variant.KQ == gdn.JointJoined && len(left) == 2 {
			both := d.Dot(b.Concat(1, left...), columns, false, true, d.Variant.Numerics.PrecIntra)
			left = []*ir.Value{b.SliceAxis(both, 1, 0, n), b.SliceAxis(both, 1, n, 2*n)}
		} else {
			for i, x := range left {
				left[i] = d.Dot(x, columns, false, true, d.Variant.Numerics.PrecIntra)
			}
		}
		for i, x := range left {
			made[i] = d.ofLevel(l, x, made[i])
		}
	}
	if rows != nil {
		kk = made[0]
	}
	if q != nil {
		qk = made[len(made)-1]
	}
	return kk, qk
}

// columns returns K of all tokens times the level's factors at j. Second halves are not part of the level and get rest.
// Any finite numbers would do there, since ofLevel ignores them and gradients multiply them by zeros. rest exists already, while zeros
// would need work.
func (d *Decay) columns(l level, k, rest *ir.Value) *ir.Value {
	h := l.halves()
	return h.join(d.Builder, d.OfKeys(h.first(d.Builder, k), h.first(d.Builder, l.columns)), rest)
}

// Times returns x times a factor, nil for ones, as an operand of products. OfKeys is Times for keys that are multiplied with keys and queries. Their rounding
// enters the inverse and through it all later tokens: with decay_bf16=rows their factors and products are not rounded.
func (d *Decay) Times(x, factor *ir.Value) *ir.Value { return d.times(x, factor, gdn.DecayBF16Rows) }

func (d *Decay) OfKeys(k, factor *ir.Value) *ir.Value {
	return d.times(k, factor, gdn.DecayBF16Operands)
}

func (d *Decay) times(x, factor *ir.Value, from gdn.DecayBF16) *ir.Value {
	if factor != nil {
		x = d.Mul(d.element(x, from), d.element(factor, from))
	}
	return d.Store(x)
}

// element converts an operand of a product with decay to the product's type: bf16 from a level of decay_bf16 on.
func (d *Decay) element(x *ir.Value, from gdn.DecayBF16) *ir.Value {
	if d.Variant.Numerics.DecayBF16 >= from {
		return d.Convert(x, ir.BF16)
	}
	return d.Convert(x, ir.F32)
}

// ofLevel writes the pairs of a level over the narrower levels; x has the rows of second halves, or all rows.
//
//	C = 64, level of 64:   narrower   a .     x, of rows 32-63   x ?     result   a .
//	                                  . d                                         x d
func (d *Decay) ofLevel(l level, x, narrower *ir.Value) *ir.Value {
	if narrower == nil {
		return x
	}
	b, h := d.Builder, l.halves()
	own := h.second(b, narrower)
	of := l.pairs(b, d.Iota(x.Type.Shape[1], d.Chunk, 0), d.Iota(x.Type.Shape[1], d.Chunk, 1))
	x = b.Select(d.over(x.Type.Shape[0], of), x, own)
	if h == 0 {
		return x
	}
	return h.join(b, h.first(b, narrower), x)
}

// pairs returns which pairs of rows i (of second halves, or all) and lanes j belong to a wide level.
//
// Of halves 0 1 2 3 these are rows of 1 with lanes of 0, and rows of 3 with lanes of 2. Rows of 2 with lanes of 1 are neighbours too, but in two blocks.
// So with all rows, the half of the lanes must be even. With second halves only, halves 1 and 3 are row blocks 0 and 1, so row block r pairs with
// lanes of 2r.
func (l level) pairs(b *ir.Builder, ri, ci *ir.Value) *ir.Value {
	half := b.Like(ri, float64(l.block/2))
	ri, ci = b.Div(ri, half), b.Div(ci, half) // indices of halves of blocks
	one := b.Like(ri, 1)
	of := b.Compare(ir.EQ, b.Add(ci, one), ri)
	if l.halves() > 0 {
		of = b.Compare(ir.EQ, ci, b.Add(ri, ri))
	} else {
		two := b.Add(one, one)
		of = b.And(of, b.Compare(ir.EQ, b.Mul(b.Div(ci, two), two), ci))
	}
	return of
}
