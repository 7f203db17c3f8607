package build

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// channels are the decays of the chunks in flight where each channel of the key has one. With L the sums of the log decay along a chunk,
//
//	A_ij = beta_i sum_c k_ic k_jc e^(L_ic - L_jc)   P_ij = scale sum_c q_ic k_jc e^(L_ic - L_jc)
//
// has no decay of a pair beside a product, as a decay a head has: it stands between the two factors of each term. So it is cut at a
// boundary between j and i: what decays before it goes to K at j, what decays after it to K and Q at i. Both factors are at most 1, for any
// decay, and nothing after i has a part in them. Pairs of one boundary are a level: tokens of the second half of a block, with those of
// the first, for blocks of 2, 4, 8 tokens and so on. Blocks of a span have one product for all of their pairs, whose boundary is the first
// token: there the factor of K at j is the inverse of a decay, at most e^(-bound (span-1)), so the spec must bound the decay.
//
// Example: in a chunk of 64 with span=16 the pair (40, 20) is of the level of 64, cut at 32; (40, 35) is of the span from 32 on.
type channels struct {
	log         *ir.Value // [N, C, K] log decay, in the base of sums
	risen, rest *ir.Value // [N, C, K]: what is left of the state before the chunk at each token, and of each token after the chunk
	total       *ir.Value // [N, 1, K]: what is left of the state before the chunk after it
	levels      []level
}

// level is the pairs of a boundary: of each block all, or those of its two halves (wide).
type level struct {
	rows, columns *ir.Value // [N, C, K] the factors of K and Q at i, and of K at j; nil for ones
	block         int
	wide          bool
}

// channelwise says whether each channel of the key has a decay.
func (e *gated) channelwise() bool { return e.s.Rule.Channels() }

// loadChannels loads the log decays of channels [N, C, K] f32, in the base of sums, computing them from their raw form where that is the kernel's
// task.
func (e *gated) loadChannels() *ir.Value {
	b, base := e.b.Stage("gates"), e.nat()
	g := b.Convert(e.loadRows(e.in.g), ir.F32)
	if e.in.aLog != nil {
		head := func(o *operand) *ir.Value { return e.row(b.Reshape(e.blocks[o], e.entries(), e.s.K), e.c) }
		g = decayGate(b, g, head(e.in.aLog), head(e.in.dt), e.s.Bound*base)
		if e.s.Bound != 0 {
			return g
		}
	}
	if base != 1 {
		g = b.Scale(g, base)
	}
	return g
}

// nat is the logarithm of e in the base of sums.
func (e *gated) nat() float64 {
	if e.v.Algo == gdn.AlgoChunk && e.v.Decay == gdn.DecayBase2 {
		return math.Log2E
	}
	return 1
}

// headChannels describes [Hv, K], or [Hv] for all channels, to the grids as [Hv/heads, N, K].
func (p *plan) headChannels(x *ir.Value) *operand {
	b, v, s := p.b, p.v, p.s
	programs := s.HeadsV / v.Heads
	if x.Type.Rank() == 1 {
		x = b.Broadcast(x, []int{s.HeadsV, s.K}, 0)
	}
	x = b.Broadcast(b.Reshape(x, programs, v.Heads, s.K), []int{programs, v.Chunks * v.Batch, v.Heads, s.K}, 0, 2, 3)
	lead, at := p.headPrograms()
	return &operand{
		value: b.Reshape(x, join(lead, []int{p.entries(), s.K})...),
		axes:  join(at, []axis{axisNone, axisNone}),
		block: join(ones(len(lead)), []int{p.entries(), s.K}),
	}
}

// channelDecay makes the factors from the log decays. Sums are taken inside blocks of up to sumBlock tokens, each by itself, so that no
// difference of sums loses what a strong decay leaves; factors of wider blocks are products of those of their halves.
func (e *gated) channelDecay(w *channels) {
	b, g := e.b.Stage("decay"), w.log
	if e.s.Bound == 0 {
		g = b.Max(g, b.Like(g, resetFloor*e.nat()))
	}
	block := min(e.v.Span, e.c)
	own := level{block: block}
	var upto, after *ir.Value
	if block == 1 {
		upto, after = e.blockDecays(g, block)
	} else { // the bound keeps differences of sums exact
		sum := e.blockSums(g, block, ir.GE)
		upto, after = e.exp(sum), e.exp(b.Sub(e.fromBlock(sum, block, block-1), sum))
		sum = b.Sub(sum, e.fromBlock(sum, block, 0))
		own.rows, own.columns = e.exp(sum), e.exp(b.Neg(sum))
	}
	w.levels = append(w.levels, own)
	for ; block < e.c; block *= 2 {
		w.levels = append(w.levels, level{rows: upto, columns: after, block: 2 * block, wide: true})
		if 2*block <= sumBlock {
			upto, after = e.blockDecays(g, 2*block)
		} else {
			if 2*block == e.c { // a row of its own: what is turned is not the whole
				w.total = b.Mul(e.rowOf(upto, block-1), e.rowOf(upto, e.c-1))
			}
			upto, after = e.doubled(upto, after, block)
		}
	}
	w.risen, w.rest = upto, after
	if w.total == nil {
		w.total = e.rowOf(upto, e.c-1)
	}
}

func (e *gated) rowOf(x *ir.Value, i int) *ir.Value { return e.b.SliceAxis(x, 1, i, i+1) }

// sumBlock is the widest block whose decays are sums of logarithms: rows of words of bf16, so that the halves of wider ones are registers.
const sumBlock = rowsOfWords

// blockDecays are the decays from the start of a block of tokens up to each, with its own, and those after it up to the end.
func (e *gated) blockDecays(g *ir.Value, block int) (upto, after *ir.Value) {
	if block == 1 {
		return e.exp(g), nil
	}
	return e.exp(e.blockSums(g, block, ir.GE)), e.exp(e.blockSums(g, block, ir.LT))
}

// blockSums sums g over the tokens l of the block of each token i for which i cmp l.
func (e *gated) blockSums(g *ir.Value, block int, cmp ir.Cmp) *ir.Value {
	b, c, n := e.b, e.c, g.Type.Shape[0]
	of := e.inBlock(block)
	if block < c {
		of = b.And(of, b.Compare(cmp, e.iota(c, c, 0), e.iota(c, c, 1)))
	} else {
		of = b.Compare(cmp, e.iota(c, c, 0), e.iota(c, c, 1))
	}
	low := e.v.Decay == gdn.DecayBase2
	parts, dtype, prec := []*ir.Value{g}, ir.F32, ir.PrecF32
	if low {
		parts, dtype, prec = e.split(g, e.sumParts()), ir.BF16, ir.PrecBF16x1
	}
	t := ir.T(dtype, c, c)
	ones := e.over(n, b.Select(of, b.Const(t, 1), b.Const(t, 0)))
	var sum *ir.Value
	for _, part := range parts {
		x := b.MatMul(ones, part, false, false, prec)
		if sum != nil {
			x = b.Add(sum, x)
		}
		sum = x
	}
	return sum
}

// inBlock says which pairs of tokens [C, C] are of one block.
func (e *gated) inBlock(block int) *ir.Value {
	b, c := e.b, e.c
	ri, ci := e.iota(c, c, 0), e.iota(c, c, 1)
	size := b.Like(ri, float64(block))
	return b.Compare(ir.EQ, b.Div(ri, size), b.Div(ci, size))
}

// fromBlock spreads a row of each block of x [N, C, K] over the block.
func (e *gated) fromBlock(x *ir.Value, block, row int) *ir.Value {
	b, s := e.b, x.Type.Shape
	var parts []*ir.Value
	for at := 0; at < s[1]; at += block {
		own := b.Reshape(b.SliceAxis(x, 1, at+row, at+row+1), s[0], s[2])
		parts = append(parts, e.row(own, block))
	}
	return b.Concat(1, parts...)
}

// doubled are the decays of blockDecays for blocks of two: those of the second half times what is left after the first, and those of
// the first times what is left after the second.
func (e *gated) doubled(upto, after *ir.Value, block int) (*ir.Value, *ir.Value) {
	b, h := e.b, halves(block)
	first, second := h.first(b, upto), h.second(b, upto)
	total := func(x *ir.Value) *ir.Value { return e.fromBlock(x, block, block-1) }
	return h.join(b, first, b.Mul(second, total(first))), h.join(b, b.Mul(h.first(b, after), total(second)), h.second(b, after))
}

// channelProducts are K K^T and scale Q K^T with the decay of each pair, for each value head; what stands above the diagonal has no meaning. Either
// of q and rows may be missing: rows says whether K K^T is wanted.
func (e *gated) channelProducts(w *channels, q, k *ir.Value, rows bool) (kk, qk *ir.Value) {
	b := e.b.Stage("products")
	k = e.perValue(k)
	var wanted []*ir.Value
	if rows {
		wanted = append(wanted, k)
	}
	if q != nil {
		wanted = append(wanted, e.perValue(q))
	}
	made := make([]*ir.Value, len(wanted))
	for _, l := range w.levels {
		h := l.halves()
		columns := e.decayed(h.first(b, k), h.first(b, l.columns))
		if h > 0 { // K of the second halves has no part in the level
			columns = h.join(b, columns, e.store(h.second(b, k)))
		}
		var left []*ir.Value
		for _, x := range wanted {
			left = append(left, e.decayed(h.second(b, x), h.second(b, l.rows)))
		}
		n := left[0].Type.Shape[1]
		if e.v.KQ == gdn.JointJoined && len(left) == 2 {
			both := e.dot(b.Concat(1, left...), columns, false, true, e.v.PrecIntra)
			left = []*ir.Value{b.SliceAxis(both, 1, 0, n), b.SliceAxis(both, 1, n, 2*n)}
		} else {
			for i, x := range left {
				left[i] = e.dot(x, columns, false, true, e.v.PrecIntra)
			}
		}
		for i, x := range left {
			made[i] = e.ofLevel(l, x, made[i])
		}
	}
	if rows {
		kk = made[0]
	}
	if q != nil {
		qk = e.scaled(made[len(made)-1])
	}
	return kk, qk
}

// decayed is x times the factor of a level, as products take it.
func (e *gated) decayed(x, factor *ir.Value) *ir.Value {
	if factor != nil {
		x = e.b.Mul(e.element(x, gdn.LowRows), e.element(factor, gdn.LowRows))
	}
	return e.store(x)
}

// ofLevel puts the pairs of a level over those of the narrower ones: x has the rows of its second halves, or all of them.
func (e *gated) ofLevel(l level, x, narrower *ir.Value) *ir.Value {
	if narrower == nil {
		return x
	}
	b, h := e.b, l.halves()
	own := h.second(b, narrower)
	rows := x.Type.Shape[1]
	ri, ci := e.iota(rows, e.c, 0), e.iota(rows, e.c, 1)
	half := b.Like(ri, float64(l.block/2))
	ri, ci = b.Div(ri, half), b.Div(ci, half) // halves of blocks
	one := b.Like(ri, 1)
	of := b.Compare(ir.EQ, b.Add(ci, one), ri)
	if h > 0 {
		of = b.Compare(ir.EQ, ci, b.Add(ri, ri))
	} else {
		two := b.Add(one, one)
		of = b.And(of, b.Compare(ir.EQ, b.Mul(b.Div(ci, two), two), ci))
	}
	x = b.Select(e.over(x.Type.Shape[0], of), x, own)
	return h.join(b, h.first(b, narrower), x)
}

// halves are the rows of each half of the blocks of a level, where they are whole registers; 0 elsewhere: all rows stay together.
type halves int

func (l level) halves() halves {
	if n := l.block / 2; l.wide && n >= rowsOfWords {
		return halves(n)
	}
	return 0
}

// first and second are the rows of the first halves of x [N, C, D], one below the other, and those of the second; nil of nil.
func (h halves) first(b *ir.Builder, x *ir.Value) *ir.Value  { return h.rows(b, x, 0) }
func (h halves) second(b *ir.Builder, x *ir.Value) *ir.Value { return h.rows(b, x, 1) }

func (h halves) rows(b *ir.Builder, x *ir.Value, half int) *ir.Value {
	if h == 0 || x == nil {
		return x
	}
	var parts []*ir.Value
	for at := half * int(h); at < x.Type.Shape[1]; at += 2 * int(h) {
		parts = append(parts, b.SliceAxis(x, 1, at, at+int(h)))
	}
	return b.Concat(1, parts...)
}

// join is x whose halves are first and second.
func (h halves) join(b *ir.Builder, first, second *ir.Value) *ir.Value {
	if h == 0 {
		return second
	}
	var parts []*ir.Value
	for at := 0; at < first.Type.Shape[1]; at += int(h) {
		parts = append(parts, b.SliceAxis(first, 1, at, at+int(h)), b.SliceAxis(second, 1, at, at+int(h)))
	}
	return b.Concat(1, parts...)
}
