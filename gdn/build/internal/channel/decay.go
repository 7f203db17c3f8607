// Package channel computes what a decay a channel of the key does to the tokens of a chunk: the products K K^T and Q K^T of pairs of tokens
// with the decay between them, and their gradients.
//
// With L the sums of the log decay along a chunk,
//
//	A_ij = beta_i sum_c k_ic k_jc e^(L_ic - L_jc)   P_ij = scale sum_c q_ic k_jc e^(L_ic - L_jc)
//
// can not be written as a product K K^T times a decay of the pair, as with a decay a head: the decay is inside the sum. So it is cut at a
// boundary between j and i: what decays before it goes to K at j, what decays after it to K and Q at i. Both factors are at most 1, for any
// decay, and nothing after i has a part in them. Pairs of one boundary are a level: tokens of the second half of a block, with those of
// the first, for blocks of 2, 4, 8 tokens and so on. No token is in both halves, so rows and columns of a level share one array of factors.
//
// Blocks of a span have one product for all of their pairs. Their boundary is a number, m, half of the lowest log decay that a block can
// have: the factors e^(L_i - L_0 - m) and e^(L_0 - L_j + m), L_0 being that before the block, are both numbers for any token of it. So the
// decay must have a bound. It is that of the spec; or -40, since no float32 shows what is left below, where one bf16 pass hides what sums
// of such decays lose.
//
// Example: in a chunk of 64 with span=16 the pair (40, 20) is of the level of 64, cut at 32; (40, 35) is of the span from 32 on.
package channel

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Tools are the functions with which the body of a grid is written. Values have N entries interleaved: [N, rows,
// lanes].
type Tools struct {
	*ir.Builder
	Variant gdn.Variant
	Bound   float64 // of the log decay; 0 for none
	Chunk   int

	Dot   func(x, y *ir.Value, tx, ty bool, p ir.Precision) *ir.Value // products at a precision; tx and ty as in ir.MatMul
	Store func(x *ir.Value) *ir.Value                                 // what is kept between stages
	Split func(x *ir.Value, n int) []*ir.Value                        // x as n bf16 parts
	Iota  func(rows, lanes, axis int) *ir.Value
	// Concat joins values along an axis, and what is kept with them; Moved is what f makes of a value by taking elements of it, and of its parts.
	Concat func(axis int, xs ...*ir.Value) *ir.Value
	Moved  func(x *ir.Value, f func(*ir.Value) *ir.Value) *ir.Value
	// Masked clears x [N, rows, lanes] where keep, of the i32 indices of a tile's rows and lanes, does not hold, and stores it.
	Masked func(x *ir.Value, keep func(row, lane *ir.Value) *ir.Value) *ir.Value
}

// Decay has the decay of the chunks in flight, each channel with its own: the log decays as input, and the factors that
// Cut makes of them.
type Decay struct {
	Tools
	Log         *ir.Value // [N, C, K] log decay, in the base of sums
	Risen, Rest *ir.Value // [N, C, K]: what is left of the state before the chunk at each token, and of each token after the chunk
	Total       *ir.Value // [N, 1, K]: what is left of the state before the chunk after it
	levels      []level
}

// level is the pairs of a boundary: of each block all, or those of its two halves (wide).
type level struct {
	rows, columns *ir.Value // [N, C, K] the factors of K and Q at i, and of K at j; nil for ones
	block         int
	wide          bool
}

// Nat is the logarithm of e in the base of a variant's sums.
func Nat(v gdn.Variant) float64 {
	if v.Algo == gdn.AlgoChunk && v.Decay == gdn.DecayBase2 {
		return math.Log2E
	}
	return 1
}

// Cut computes the factors from the log decays. Sums stay inside blocks of up to sumBlock tokens, or of a span: a
// difference of longer sums would lose small decays next to a strong one. Factors of wider blocks are products of the
// factors of their halves.
//
//	C = 64, span = 16     pairs i, j                              factors at i, and at j
//	span                  both in 0-15, 16-31, 32-47 or 48-63     those of ofSpan
//	level of 32           16-31 with 0-15, 48-63 with 32-47       upto, and after, of blocks of 16
//	level of 64           32-63 with 0-31                         upto, and after, of blocks of 32: products of those of 16
func (d *Decay) Cut() {
	g, c := d.Log, d.Chunk
	// No lower than the floor, so that there is a lowest decay of a span, and a number for its boundary.
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
			if 2*block == c { // as one row, so that only a row is transposed, not all of upto
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

// ofSpan makes the level of the narrowest blocks, and the decays from their start up to each token, with its own, and after it up to their end.
// The boundary is half of the lowest decay that a block can have below its start, so that both factors are as far from 1 at most.
//
// With a bound of -5 and a span of 32 sums of log2 go from 0 to -231, and middle is 115. Factors are from 2^-116 to 2^115, where float32
// and bf16 end at 2^-126 and 2^128. A boundary at an end would ask for 2^231.
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
	// Keys that do not decay (g = 0) are multiplied by 2^115, and keep their digits. With 115.4 they would be rounded once more: inputs of
	// class identical then miss their limit of bias, 2.2e-3 of 1.3e-3.
	middle := math.Round(lowest * Nat(d.Variant) * float64(block) / 2) // a power of two in base 2, which rounds no key
	sum := d.blockSums(g, block, upTo)
	own.rows, own.columns = d.exp(d.Add(sum, d.Like(sum, middle))), d.exp(d.Sub(d.Like(sum, -middle), sum))
	d.levels = append(d.levels, own)
	// Chunks multiply what they leave of a state, so that is not rounded by the boundary. What is left of a token is taken once.
	if d.onePass() {
		// e^(-m - L_j) e^(L_end + m) = e^(L_end - L_j), an exponential less.
		return d.exp(sum), d.Mul(own.columns, d.fromBlock(own.rows, block, block-1))
	}
	return d.exp(sum), d.exp(d.Sub(d.fromBlock(sum, block, block-1), sum))
}

// onePass reports whether products are of operands rounded to bf16.
func (d *Decay) onePass() bool { return d.Variant.Precision() == ir.PrecBF16x1 }

// across are the decays between each token and the middle of its block: of rows in second halves, and of columns in first ones.
//
//	a block of 4, middle between 1 and 2, exponents:   token 0: g1   1: 0   2: g2   3: g2+g3
//	pair (3, 0):   (g2+g3) + g1 = L_3 - L_0
func (d *Decay) across(g *ir.Value, block int) *ir.Value {
	return d.exp(d.blockSums(g, block, halfwise(block, upTo, beyond)))
}

func (d *Decay) rowOf(x *ir.Value, i int) *ir.Value { return d.SliceAxis(x, 1, i, i+1) }

// sumBlock is the widest block whose decays are sums of logarithms: rows of words of bf16, so that the halves of wider ones are registers.
const sumBlock = 2 * target.Sublanes

// exp is the exponential in the base of the sums.
func (d *Decay) exp(x *ir.Value) *ir.Value {
	if d.Variant.Decay == gdn.DecayBase2 {
		return d.Unary(ir.OpExp2, x)
	}
	return d.Exp(x)
}

// sumParts is the number of bf16 parts that sums take.
// Three parts of 8 bits have all 24 of a float32. Two have 16, enough where factors are rounded to 8.
func (d *Decay) sumParts() int {
	if d.onePass() {
		return 2
	}
	return 3
}

// A pairing reports whether a sum at token i takes token l of its block.
type pairing func(b *ir.Builder, i, l *ir.Value) *ir.Value

func upTo(b *ir.Builder, i, l *ir.Value) *ir.Value   { return b.Compare(ir.GE, i, l) }
func beyond(b *ir.Builder, i, l *ir.Value) *ir.Value { return b.Compare(ir.LT, i, l) }

// halfwise takes tokens of the half of i alone, as second says in second halves of blocks and first in first ones.
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

// summed is what is summed inside blocks over pairings: [N, C, K], in bf16 where it may be rounded.
type summed struct {
	x      *ir.Value
	block  int
	wanted pairing
}

// blockSums sums g over the tokens l of the block of each token i that are wanted for it.
func (d *Decay) blockSums(g *ir.Value, block int, wanted pairing) *ir.Value {
	return d.sums(summed{g, block, wanted})
}

// sums adds up sums inside blocks.
//
// All terms and their parts are one product, whose contracted dimension is as long as all of them: the MXU adds them up in
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

// taken says which tokens l each token i takes [C, C].
func (d *Decay) taken(term summed) *ir.Value {
	of := term.wanted(d.Builder, d.Iota(d.Chunk, d.Chunk, 0), d.Iota(d.Chunk, d.Chunk, 1))
	if term.block < d.Chunk {
		of = d.And(d.inBlock(term.block), of)
	}
	return of
}

// inBlock says which pairs of tokens [C, C] are of one block.
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

// row spreads [N, K] over rows.
func (d *Decay) row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return d.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// fromBlock spreads a row of each block of x [N, C, K] over the block.
// Rows of block 4, row 3: 3 3 3 3 7 7 7 7.
func (d *Decay) fromBlock(x *ir.Value, block, row int) *ir.Value {
	s := x.Type.Shape
	var parts []*ir.Value
	for at := 0; at < s[1]; at += block {
		own := d.Reshape(d.SliceAxis(x, 1, at+row, at+row+1), s[0], s[2])
		parts = append(parts, d.row(own, block))
	}
	return d.Concat(1, parts...)
}

// doubled are the decays for blocks of two: those of the second half times what is left after the first, and those of
// the first times what is left after the second.
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

// Products returns kk = R K^T and qk = Q K^T [N, C, C] with the decay of each pair, for q, k and rows R [N, C, K].
// Elements above the diagonal are arbitrary. R is K, or b K in a rule with separate erase and write gates. A nil q or
// rows gives a nil product.
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
		// Both meet the same columns, which are pushed into the MXU once for the two.
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

// columns are K of all tokens as the pairs of a level take it at j. Second halves have no part in the level: rest is there.
// Any finite numbers would do there, since ofLevel leaves them out and gradients meet them with zeros: rest is made already, and zeros
// would have to be.
func (d *Decay) columns(l level, k, rest *ir.Value) *ir.Value {
	h := l.halves()
	return h.join(d.Builder, d.OfKeys(h.first(d.Builder, k), h.first(d.Builder, l.columns)), rest)
}

// Times returns x times a factor (nil: 1), in the type in which products take it. OfKeys does the same for keys that
// are multiplied by keys and queries. Rounding there affects the inverse, and through it all later tokens, so
// decay_bf16=rows does not round factors and products of OfKeys.
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

// element is an operand of a product with decay in the type in which those are formed: bf16 from a level on.
func (d *Decay) element(x *ir.Value, from gdn.DecayBF16) *ir.Value {
	if d.Variant.Numerics.DecayBF16 >= from {
		return d.Convert(x, ir.BF16)
	}
	return d.Convert(x, ir.F32)
}

// ofLevel puts the pairs of a level over those of the narrower ones: x has the rows of its second halves, or all of them.
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

// pairs says which pairs of rows i, those of second halves or all, and lanes j are of a wide level.
//
// Of halves 0 1 2 3 these are rows of 1 with lanes of 0, and of 3 with 2. Rows of 2 with lanes of 1 are neighbours too, but of two blocks:
// where all rows are there, the half of the lanes must be even. Where second halves stand alone, 1 and 3 are rows 0 and 1, so r meets
// lanes of 2r.
func (l level) pairs(b *ir.Builder, ri, ci *ir.Value) *ir.Value {
	half := b.Like(ri, float64(l.block/2))
	ri, ci = b.Div(ri, half), b.Div(ci, half) // halves of blocks
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
