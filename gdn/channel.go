package gdn

import (
	"math"

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
// Example: in a chunk of 64 with span=16 the pair (40, 20) is of the level of 64, cut at 32; (40, 35) of that of 16, in the block from 32 on.
type channels struct {
	log         *ir.Value // [N, C, K] log decay
	risen, rest *ir.Value // [N, C, K]: what is left of the state before the chunk at each token, and of each token after the chunk
	total       *ir.Value // [N, K]: what is left of the state before the chunk after it
	levels      []level
}

// level is the pairs of a boundary: those of the two halves of each block, or in the first level all of a block.
type level struct {
	rows, columns *ir.Value // [N, C, K] the factors of K and Q at i, and of K at j; nil for ones
	block         int
}

// channelwise says whether each channel of the key has a decay.
func (e *gen) channelwise() bool { return e.s.Rule.channels() }

// loadChannels loads the log decays of channels [N, C, K] f32, computing them from their raw form where that is the kernel's task.
func (e *gen) loadChannels() *ir.Value {
	b := e.b.Stage("gates")
	g := b.Convert(e.loadRows(e.in.g), ir.F32)
	if e.in.aLog == nil {
		return g
	}
	head := func(o *operand) *ir.Value { return e.row(b.Reshape(e.blocks[o], e.entries(), e.s.K), e.c) }
	return decayGate(b, g, head(e.in.aLog), head(e.in.dt), e.s.Bound)
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
func (e *gen) channelDecay(w *channels) {
	b := e.b.Stage("decay")
	g := b.Max(w.log, b.Like(w.log, resetFloor))
	if e.v.Decay == DecayBase2 {
		g = b.Scale(g, math.Log2E)
	}
	block := min(e.v.Span, e.c)
	upto, after := e.blockDecays(g, block)
	own := level{block: block}
	if block > 1 {
		sum := e.blockSums(g, block, ir.GE)
		sum = b.Sub(sum, e.fromBlock(sum, block, 0))
		own.rows, own.columns = e.exp(sum), e.exp(b.Neg(sum))
	}
	w.levels = append(w.levels, own)
	for ; block < e.c; block *= 2 {
		w.levels = append(w.levels, level{rows: upto, columns: after, block: 2 * block})
		if 2*block <= sumBlock {
			upto, after = e.blockDecays(g, 2*block)
		} else {
			upto, after = e.doubled(upto, after, block)
		}
	}
	w.risen, w.rest = upto, after
	w.total = b.Reshape(b.SliceAxis(upto, 1, e.c-1, e.c), upto.Type.Shape[0], e.s.K)
}

// sumBlock is the widest block whose decays are sums of logarithms: rows of words of bf16, so that the halves of wider ones are registers.
const sumBlock = rowsOfWords

// blockDecays are the decays from the start of a block of tokens up to each, with its own, and those after it up to the end.
func (e *gen) blockDecays(g *ir.Value, block int) (upto, after *ir.Value) {
	if block == 1 {
		return e.exp(g), nil
	}
	return e.exp(e.blockSums(g, block, ir.GE)), e.exp(e.blockSums(g, block, ir.LT))
}

// blockSums sums g over the tokens l of the block of each token i for which i cmp l.
func (e *gen) blockSums(g *ir.Value, block int, cmp ir.Cmp) *ir.Value {
	b, c, n := e.b, e.c, g.Type.Shape[0]
	of := e.inBlock(block)
	if block < c {
		of = b.And(of, b.Compare(cmp, e.iota(c, c, 0), e.iota(c, c, 1)))
	} else {
		of = b.Compare(cmp, e.iota(c, c, 0), e.iota(c, c, 1))
	}
	low := e.v.Decay == DecayBase2
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
func (e *gen) inBlock(block int) *ir.Value {
	b, c := e.b, e.c
	ri, ci := e.iota(c, c, 0), e.iota(c, c, 1)
	size := b.Like(ri, float64(block))
	return b.Compare(ir.EQ, b.Div(ri, size), b.Div(ci, size))
}

// fromBlock spreads a row of each block of x [N, C, K] over the block.
func (e *gen) fromBlock(x *ir.Value, block, row int) *ir.Value {
	b, s := e.b, x.Type.Shape
	rows := s[0] * s[1] / block
	x = b.SliceAxis(b.Reshape(x, rows, block, s[2]), 1, row, row+1)
	return b.Reshape(b.Broadcast(b.Reshape(x, rows, s[2]), []int{rows, block, s[2]}, 0, 2), s...)
}

// doubled are the decays of blockDecays for blocks of two: those of the second half times what is left after the first, and those of
// the first times what is left after the second.
func (e *gen) doubled(upto, after *ir.Value, block int) (*ir.Value, *ir.Value) {
	b, s := e.b, upto.Type.Shape
	pairs := s[0] * s[1] / (2 * block)
	half := func(x *ir.Value, i int) *ir.Value {
		return b.SliceAxis(b.Reshape(x, pairs, 2*block, s[2]), 1, i*block, (i+1)*block)
	}
	total := func(i int) *ir.Value {
		x := b.Reshape(b.SliceAxis(half(upto, i), 1, block-1, block), pairs, s[2])
		return b.Broadcast(x, []int{pairs, block, s[2]}, 0, 2)
	}
	join := func(first, second *ir.Value) *ir.Value { return b.Reshape(b.Concat(1, first, second), s...) }
	return join(half(upto, 0), b.Mul(half(upto, 1), total(0))), join(b.Mul(half(after, 0), total(1)), half(after, 1))
}

// channelProducts are K K^T and scale Q K^T with the decay of each pair, for each value head; what stands above the diagonal has no meaning. Either
// of q and rows may be missing: rows says whether K K^T is wanted.
func (e *gen) channelProducts(w *channels, q, k *ir.Value, rows bool) (kk, qk *ir.Value) {
	b := e.b.Stage("products")
	k = e.perValue(k)
	if q != nil {
		q = e.perValue(q)
	}
	for _, l := range w.levels {
		columns := e.decayed(k, l.columns)
		var left []*ir.Value
		if rows {
			left = append(left, e.decayed(k, l.rows))
		}
		if q != nil {
			left = append(left, e.decayed(q, l.rows))
		}
		var made []*ir.Value
		if e.v.KQ == JointJoined && len(left) == 2 {
			both := e.dot(b.Concat(1, left...), columns, false, true, e.v.PrecIntra)
			made = []*ir.Value{b.SliceAxis(both, 1, 0, e.c), b.SliceAxis(both, 1, e.c, 2*e.c)}
		} else {
			for _, x := range left {
				made = append(made, e.dot(x, columns, false, true, e.v.PrecIntra))
			}
		}
		if rows {
			kk, made = e.ofLevel(l, made[0], kk), made[1:]
		}
		if q != nil {
			qk = e.ofLevel(l, made[0], qk)
		}
	}
	if qk != nil {
		qk = e.scaled(qk)
	}
	return kk, qk
}

// decayed is x times the factor of a level, as products take it.
func (e *gen) decayed(x, factor *ir.Value) *ir.Value {
	if factor != nil {
		x = e.b.Mul(e.b.Convert(x, ir.F32), factor)
	}
	return e.store(x)
}

// ofLevel puts the pairs of a level over those of the narrower ones.
func (e *gen) ofLevel(l level, x, narrower *ir.Value) *ir.Value {
	if narrower == nil {
		return x
	}
	b, c := e.b, e.c
	half := float64(l.block / 2)
	ri, ci := e.iota(c, c, 0), e.iota(c, c, 1)
	row, column := b.Div(ri, b.Like(ri, half)), b.Div(ci, b.Like(ci, half))
	of := b.And(e.inBlock(l.block), b.Compare(ir.GT, row, column))
	return b.Select(e.over(x.Type.Shape[0], of), x, narrower)
}
