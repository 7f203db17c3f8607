package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// The convolution by XLA ops, for all tokens at once, and its caches (Spec.ConvState). A cache has the last inputs of a sequence, W-1 or more, unchanged,
// the oldest first. A sequence continues from it like from its state, with the same pool indices.
//
// Batch rows follow their caches along the tokens, and each tap is a slice of the result. Example with W 4 and three tokens:
//
//	rows            c0 c1 c2 x0 x1 x2
//	taps of x1      c2 x0 x1, preceded by c1
//	cache after x1  c2 x0 x1
//
// For packed sequences, an earlier token is a shift if it is in the same sequence, and otherwise a row looked up in the cache.
// All choices are selects, so NaN or infinities in one sequence, or in an unused cache, do not reach another.

// inputConvolution is the convolution of q, k or v.
type inputConvolution struct {
	*plan
	name   string
	rows   *ir.Value // [B, T, H, D]; packed sequences: [T, H, D]
	before *ir.Value // [N, R, H, D]; nil: zeros
	packed *packedTokens
}

// packedTokens has the positions of packed tokens.
type packedTokens struct {
	begin, end *ir.Value // [N] of each sequence
	seq, pos   *ir.Value // [T] the sequence of each token, and its position in it
}

// convolve replaces the inputs q, k and v by convolved ones, and makes the caches that are outputs: final_conv and convs.
func (p *plan) convolve() {
	s, b := p.s, p.b
	if s.Conv == 0 || convolving(p) || stepping(p) || convolvesFirst(p) {
		return
	}
	b.Stage("glue")
	var before *ir.Value
	if before = p.args["initial_conv"]; before != nil && s.Pool > 0 {
		before = b.GatherRows(before, p.pool().From(), 0)
	}
	var packed *packedTokens
	if p.args["cu_seqlens"] != nil {
		packed = p.packedTokens()
	}
	var parts []*inputConvolution
	first := 0
	for _, name := range []string{"q", "k", "v"} {
		x := &inputConvolution{plan: p, name: name, packed: packed}
		t := p.args[name].Type.Shape
		h, d := t[len(t)-2], t[len(t)-1]
		if packed != nil {
			x.rows = b.Reshape(p.args[name], s.Tokens, h, d)
		} else {
			x.rows = b.Reshape(p.args[name], s.Batch, s.Tokens, h, d)
		}
		if before != nil {
			x.before = b.Reshape(b.SliceAxis(before, 2, first, first+h*d), before.Type.Shape[0], s.CacheRows(), h, d)
		}
		first += h * d
		parts = append(parts, x)
	}
	if s.ConvState && s.Final {
		p.caches = append(p.caches, p.finalCaches(parts))
	}
	if s.ConvState && s.Every > 0 {
		p.caches = append(p.caches, eachCache(parts, s.Tokens/s.Every, func(x *inputConvolution, i int) *ir.Value { return x.after((i + 1) * s.Every) }))
	}
	for _, x := range parts {
		p.args[x.name] = b.Reshape(x.convolved(), p.args[x.name].Type.Shape...)
	}
}

// packedTokens returns the sequence of each token, and its position in it.
func (p *plan) packedTokens() *packedTokens {
	b := p.b
	begin, end := p.sequences()
	seq := p.packs().NotAfter(end, p.s.Tokens)
	return &packedTokens{begin: begin, end: end, seq: seq, pos: b.Sub(b.Iota(seq.Type, 0), b.GatherRows(begin, seq, 0))}
}

// convolved returns the rows after convolution and SiLU, in their type.
func (x *inputConvolution) convolved() *ir.Value {
	b, t := x.b, x.rows.Type
	w := x.args["conv_"+x.name]
	half := b.Scale(b.Convert(w, ir.F32), .5)
	taps, last := w.Type.Shape[1], t.Rank()-1
	over := func(own *ir.Value) *ir.Value { return b.Broadcast(own, t.Shape, last-1, last) }
	shifted := x.shifts()
	terms := taps
	if x.s.ConvBias {
		terms++
	}
	return b.Convert(siluOfTaps(b, terms, func(j int) *ir.Value {
		if j == taps {
			return over(b.Scale(b.Convert(x.args["bias_"+x.name], ir.F32), .5))
		}
		own := b.Reshape(b.SliceAxis(half, 1, j, j+1), w.Type.Shape[0], w.Type.Shape[2])
		return b.Mul(shifted(taps-1-j), over(own))
	}), t.DType)
}

// shifts returns a function for the rows so many tokens before each, in float32.
func (x *inputConvolution) shifts() func(back int) *ir.Value {
	b, t := x.b, x.rows.Type
	if x.packed == nil {
		rows := b.Convert(x.lying(), ir.F32)
		first := x.s.CacheRows()
		return func(back int) *ir.Value { return b.SliceAxis(rows, 1, first-back, first-back+t.Shape[1]) }
	}
	return func(back int) *ir.Value {
		if back == 0 {
			return b.Convert(x.rows, ir.F32)
		}
		y := b.SliceAxis(b.Pad(x.rows, 0, []int{back, 0, 0}, []int{0, 0, 0}), 0, 0, t.Shape[0])
		inside := b.Compare(ir.GE, x.packed.pos, b.Like(x.packed.pos, float64(back)))
		earlier := b.Like(y, 0)
		if x.before != nil {
			earlier = x.cached(x.packed.seq, b.Sub(x.packed.pos, b.Like(x.packed.pos, float64(back))), inside)
		}
		return b.Convert(b.Select(b.Broadcast(inside, t.Shape, 0), y, earlier), ir.F32)
	}
}

// cached returns rows of the caches at places before the first token of a sequence, -1 the last; zeros where without holds.
func (x *inputConvolution) cached(seq, place, without *ir.Value) *ir.Value {
	b, s := x.b, x.before.Type.Shape
	at := b.Add(b.Scale(seq, float64(s[1])), b.Add(place, b.Like(place, float64(s[1]))))
	at = b.Select(without, b.Like(at, -1), at)
	return b.GatherRows(b.Reshape(x.before, s[0]*s[1], s[2], s[3]), at, 0)
}

// lying returns batch rows [B, R + T, H, D] preceded by their caches.
func (x *inputConvolution) lying() *ir.Value {
	b, t := x.b, x.rows.Type
	if x.before != nil {
		return b.Concat(1, x.before, x.rows)
	}
	return b.Pad(x.rows, 0, []int{0, x.s.CacheRows(), 0, 0}, make([]int, t.Rank()))
}

// after returns the caches of batch rows after so many tokens, [B, 1, R, H D].
func (x *inputConvolution) after(tokens int) *ir.Value {
	y := x.b.SliceAxis(x.lying(), 1, tokens, tokens+x.s.CacheRows())
	s := y.Type.Shape
	return x.b.Reshape(y, s[0], 1, s[1], s[2]*s[3])
}

// ends returns the final caches of packed sequences, [N, 1, R, H D].
func (x *inputConvolution) ends() *ir.Value {
	b, t, w := x.b, x.rows.Type, x.s.CacheRows()
	n := x.packed.end.Type.Shape[0]
	table := []int{n, w}
	flat := func(y *ir.Value) *ir.Value { return b.Reshape(y, n*w) }
	of := func(y *ir.Value) *ir.Value { return flat(b.Broadcast(y, table, 0)) }
	row := flat(b.Iota(ir.T(ir.I32, table...), 1))
	at := b.Add(b.Sub(of(x.packed.end), b.Like(row, float64(w))), row) // position along the tokens, if the row is a token of the sequence
	inside := b.Compare(ir.GE, at, of(x.packed.begin))
	own := b.GatherRows(x.rows, b.Select(inside, at, b.Like(at, -1)), 0)
	earlier := b.Like(own, 0)
	if x.before != nil {
		earlier = x.cached(flat(b.Iota(ir.T(ir.I32, table...), 0)), b.Sub(at, of(x.packed.begin)), inside)
	}
	return b.Reshape(b.Select(b.Broadcast(inside, own.Type.Shape, 0), own, earlier), n, 1, w, t.Shape[1]*t.Shape[2])
}

// eachCache concatenates n caches of each sequence, [N, n, R, channels].
func eachCache(parts []*inputConvolution, n int, of func(x *inputConvolution, i int) *ir.Value) *ir.Value {
	b := parts[0].b
	var all []*ir.Value
	for i := range n {
		var l []*ir.Value
		for _, x := range parts {
			l = append(l, of(x, i))
		}
		all = append(all, b.Concat(3, l...))
	}
	return b.Concat(1, all...)
}

// finalCaches returns the final caches of sequences, with a window one after each token; with a pool, written into the pool's other caches.
func (p *plan) finalCaches(parts []*inputConvolution) *ir.Value {
	s, b := p.s, p.b
	var x *ir.Value
	switch {
	case parts[0].packed != nil:
		x = eachCache(parts, 1, func(x *inputConvolution, _ int) *ir.Value { return x.ends() })
		if s.Empty == gdn.EmptyZero {
			x = p.clearEmpty(x)
		}
	case s.Window:
		x = eachCache(parts, s.Tokens, func(x *inputConvolution, i int) *ir.Value { return x.after(i + 1) })
	default:
		x = eachCache(parts, 1, func(x *inputConvolution, _ int) *ir.Value { return x.after(s.Tokens) })
	}
	t := s.ConvStateType().Shape
	switch {
	case s.Pool == 0:
		return b.Reshape(x, x.Type.Shape[0], t[1], t[2])
	case !s.Window && p.v.Fuse == gdn.PlaceKernel && !p.streamed():
		return p.putCaches(b.Reshape(x, x.Type.Shape[0], t[1], t[2]))
	}
	groups := join([]int{s.Pool / s.Checkpoints()}, x.Type.Shape[1:])
	return b.Reshape(p.pool().Into(b, b.Reshape(p.args["initial_conv"], groups...), x), t...)
}

// putCaches writes caches [N, R, channels] into the pool by a kernel, in place. It neither reads nor writes other slots, so that the cost of a call does not
// depend on the pool's size. Its input windows on the pool only serve the alias.
func (p *plan) putCaches(x *ir.Value) *ir.Value {
	before := p.args["initial_conv"]
	t := before.Type
	block := []int{1, t.Shape[1], t.Shape[2]}
	at := func(first ir.Index) ir.Window {
		return ir.Window{Block: block, Index: []ir.Index{first, ir.IndexConst(0), ir.IndexConst(0)}}
	}
	slot := ir.IndexTable(0, 0)
	grid := &ir.Grid{
		Name: "caches", Dims: []ir.GridDim{{Name: "c", Size: x.Type.Shape[0], Seq: true}}, Tables: 1, Main: true, Copies: stepsAhead,
		In: []ir.Window{at(ir.IndexAxis(0)), at(slot)}, Out: []ir.Window{at(slot)}, Outs: []ir.Type{t}, Into: []int{0}, Alias: [][2]int{{0, 1}},
	}
	return p.b.Grid(grid, []*ir.Value{p.pool().Written, x, before}, func(b *ir.Builder, blocks, _ []*ir.Value) (ys, next []*ir.Value) {
		return blocks[:1], nil
	})[0]
}
