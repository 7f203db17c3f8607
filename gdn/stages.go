package gdn

import (
	"cmp"
	"math"

	"github.com/gdngen/gdngen/ir"
)

// gen emits one grid's body. Values of N entries are ordered chunk in flight, batch row, head.
type gen struct {
	*plan
	b      *ir.Builder
	in     *operands
	blocks map[*operand]*ir.Value
	state  *ir.Value // [batch x heads, K, V] f32; nil where the grid has none
	iotas  map[[3]int]*ir.Value
	parts  map[*ir.Value][]*ir.Value // bf16 parts that are kept instead of a value

	ready *gates // where not nil, the gates and sums of the chunks in flight

	valueFirst bool                             // states are [V, K]
	enter      func(chunk int) *ir.Value        // where not nil, the state before a chunk in flight
	leave      func(chunk int, state *ir.Value) // and what takes the state after it

	before, values []*ir.Value // of the chunks in flight, as they are taken through the state: the state before each, and U
	inverted       *ir.Value   // T of all of them
}

func newGen(p *plan, b *ir.Builder, in *operands) *gen {
	return &gen{plan: p, b: b, in: in, blocks: map[*operand]*ir.Value{}, iotas: map[[3]int]*ir.Value{}, parts: map[*ir.Value][]*ir.Value{}}
}

// loadRows brings a window of tokens to [N, C, D].
func (e *gen) loadRows(o *operand) *ir.Value {
	b, v := e.b, e.v
	x := e.blocks[o]
	d := x.Type.Shape[x.Type.Rank()-1]
	if v.Layout == HeadsInner || v.Layout == HeadsLanes {
		d = cmp.Or(o.width, d)
		h := x.Type.Size() / (v.Batch * v.Chunks * e.c * d)
		if v.Batch*v.Chunks == 1 {
			return b.Transpose(b.Reshape(x, e.c, h, d), 1, 0, 2)
		}
		x = b.Transpose(b.Reshape(x, v.Batch*v.Chunks, e.c, h, d), 0, 2, 1, 3)
		return e.chunksFirst(b.Reshape(x, v.Batch, v.Chunks, h, e.c, d))
	}
	if v.Layout == HeadsTurned {
		d = x.Type.Size() / (v.Chunks * e.c * e.blockHeads(o))
		x = b.Reshape(x, e.blockHeads(o), d, v.Chunks*e.c)
		var chunks []*ir.Value
		for i := range v.Chunks {
			chunks = append(chunks, b.Transpose(b.SliceAxis(x, 2, i*e.c, (i+1)*e.c), 0, 2, 1))
		}
		return b.Concat(0, chunks...)
	}
	n := x.Type.Size() / (v.Chunks * e.c * d)
	return e.chunksFirst(b.Reshape(x, n, v.Chunks, e.c, d))
}

// blockHeads is the batch rows x heads of a window with heads before tokens.
func (e *gen) blockHeads(o *operand) int {
	n := 1
	for _, k := range o.block[:len(o.block)-2] {
		n *= k
	}
	return n
}

// chunksFirst swaps the leading dimension with the chunks after it, and joins all leading dimensions of the two last.
func (e *gen) chunksFirst(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	if s[0] > 1 && s[1] > 1 {
		perm := []int{1, 0}
		for i := 2; i < len(s); i++ {
			perm = append(perm, i)
		}
		x = e.b.Transpose(x, perm...)
	}
	r, l := s[len(s)-2], s[len(s)-1]
	return e.b.Reshape(x, x.Type.Size()/(r*l), r, l)
}

// loadGate brings a window of a gate to [N, C].
func (e *gen) loadGate(o *operand) *ir.Value { return e.b.Reshape(e.blocks[o], e.entries(), e.c) }

// loadMade brings a window of what an earlier grid made to [N, C, D].
func (e *gen) loadMade(o *operand) *ir.Value {
	s := o.shape
	r, l := s[len(s)-2], s[len(s)-1]
	return e.chunksFirst(e.b.Reshape(e.blocks[o], e.v.Batch, e.v.Chunks, e.v.Heads, r, l))
}

// made describes [N, R, L] as an output of this grid for a later one.
func (e *gen) made(x *ir.Value) blockOut {
	v, s := e.v, x.Type.Shape
	x = e.b.Reshape(x, v.Chunks, v.Batch, v.Heads, s[1], s[2])
	if v.Chunks > 1 && v.Batch > 1 {
		x = e.b.Transpose(x, 1, 0, 2, 3, 4)
	}
	o := &operand{
		dtype: x.Type.DType,
		shape: join([]int{e.s.Batch, e.nc}, e.valueHeads(), s[1:]),
		axes:  join([]axis{axisBatch, axisChunk}, e.headAxes(), []axis{axisNone, axisNone}),
		block: join([]int{v.Batch, v.Chunks}, e.headBlock(), s[1:]),
	}
	return blockOut{e.b.Reshape(x, o.block...), o}
}

// output describes the outputs [batch x heads, C, V] of the chunks in flight as the grid's output of tokens.
func (e *gen) output(chunks []*ir.Value) blockOut { return e.tokenRows(chunks, e.in.v, e.s.Out) }

// tokenRows describes [batch x heads, C, D] of each chunk in flight as an output of tokens that lies as an operand does.
func (e *gen) tokenRows(chunks []*ir.Value, like *operand, d ir.DType) blockOut {
	b, v := e.b, e.v
	o := &operand{dtype: d, axes: like.axes, block: like.block, shape: like.value.Type.Shape}
	if v.Layout == HeadsTurned {
		for i, x := range chunks {
			chunks[i] = b.Transpose(b.Convert(x, d), 0, 2, 1)
		}
		return blockOut{b.Reshape(b.Concat(2, chunks...), o.block...), o}
	}
	order := []int{1, 0, 3, 2, 4} // of [chunks, batch, heads, C, D]
	if v.Layout == HeadsOuter {
		order = []int{1, 2, 0, 3, 4}
	}
	x := b.Convert(b.Concat(0, chunks...), d)
	s := x.Type.Shape
	x = b.Reshape(x, len(chunks), v.Batch, s[0]/(len(chunks)*v.Batch), s[1], s[2])
	return blockOut{b.Reshape(b.Transpose(x, order...), o.block...), o}
}

// gateRows describes [N, C] as an output that lies as the gates do.
func (e *gen) gateRows(x *ir.Value) blockOut {
	like := e.in.g
	return blockOut{e.b.Reshape(x, like.block...), &operand{dtype: ir.F32, axes: like.axes, block: like.block, shape: like.value.Type.Shape}}
}

// iota is the i32 index along an axis of a [rows, lanes] tile.
func (e *gen) iota(rows, lanes, axis int) *ir.Value {
	key := [3]int{rows, lanes, axis}
	if e.iotas[key] == nil {
		e.iotas[key] = e.b.Iota(ir.T(ir.I32, rows, lanes), axis)
	}
	return e.iotas[key]
}

// over repeats a [R, L] tile over N entries.
func (e *gen) over(n int, x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{n, s[0], s[1]}, 1, 2)
}

// column spreads [N, C] over lanes to [N, C, lanes]; row spreads it over rows to [N, rows, C].
func (e *gen) column(x *ir.Value, lanes int) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{s[0], s[1], lanes}, 0, 1)
}

func (e *gen) row(x *ir.Value, rows int) *ir.Value {
	s := x.Type.Shape
	return e.b.Broadcast(x, []int{s[0], rows, s[1]}, 0, 2)
}

// scalar spreads lane i of [N, C] over [N, rows, lanes].
func (e *gen) scalar(x *ir.Value, i, rows, lanes int) *ir.Value {
	n := x.Type.Shape[0]
	x = e.b.Broadcast(e.b.SliceAxis(x, 1, i, i+1), []int{n, lanes}, 0, 1)
	return e.row(x, rows)
}

// perValue repeats what belongs to key heads for each value head of the program.
func (e *gen) perValue(x *ir.Value) *ir.Value {
	if e.gb == 1 {
		return x
	}
	s := x.Type.Shape
	x = e.b.Broadcast(x, []int{s[0], e.gb, s[1], s[2]}, 0, 2, 3)
	return e.b.Reshape(x, s[0]*e.gb, s[1], s[2])
}

// dot multiplies [N, ., .] by [N, ., .] at a precision; tx and ty as in ir.MatMul.
func (e *gen) dot(x, y *ir.Value, tx, ty bool, p ir.Precision) *ir.Value {
	if p == ir.PrecBF16x3 && e.v.Parts == PartsKept {
		return e.dotParts(x, y, tx, ty)
	}
	if p == ir.PrecBF16x1 && e.v.Parts == PartsKept {
		return e.b.MatMul(e.cut(x)[0], e.cut(y)[0], tx, ty, p)
	}
	d := ir.F32
	bx, by := x.Type.DType == ir.BF16, y.Type.DType == ir.BF16
	switch {
	case p == ir.PrecBF16x1 && (e.v.Store == ir.BF16 || bx || by):
		d = ir.BF16
	case p != ir.PrecF32 && bx && by:
		d, p = ir.BF16, ir.PrecBF16x1 // exact
	}
	return e.b.MatMul(e.b.Convert(x, d), e.b.Convert(y, d), tx, ty, p)
}

// store rounds what is kept between stages, or cuts it into the parts that are kept.
func (e *gen) store(x *ir.Value) *ir.Value {
	x = e.b.Convert(x, e.v.Store)
	if e.v.Parts == PartsKept {
		e.cut(x)
	}
	return x
}

// storeValues is store for V' [N, C, V]. Where keys are alike, what rounding adds to V' is summed over the tokens. So each of a
// number of blocks of rows takes what rounding left of the one before: in the sum only what it left of the last remains.
//
// Where the kernel normalizes keys, unit and length are 1/|k| and |k| in all lanes, and V' is stored times the first.
func (e *gen) storeValues(x, unit, length *ir.Value) *ir.Value {
	b, n := e.b, e.v.Feedback
	for n > 1 && e.c%(n*rowsOfWords) != 0 {
		n /= 2
	}
	if n < 2 {
		return e.store(e.by(x, unit))
	}
	var blocks []*ir.Value
	var left *ir.Value
	for i := range n {
		part := func(x *ir.Value) *ir.Value {
			if x == nil {
				return nil
			}
			return b.SliceAxis(x, 1, i*e.c/n, (i+1)*e.c/n)
		}
		own := part(x)
		if left != nil {
			own = b.Add(own, left)
		}
		low := e.store(e.by(own, part(unit)))
		blocks, left = append(blocks, low), b.Sub(own, e.by(b.Convert(low, ir.F32), part(length)))
	}
	return b.Concat(1, blocks...)
}

// rowsOfWords is the number of bf16 rows in a register.
const rowsOfWords = 16

// gates are the gates of N entries, each [N, C] f32.
type gates struct {
	g, beta *ir.Value   // log decay, clamped where the variant says so
	parts   []*ir.Value // inclusive prefix sums of the parts that g is split into
	sum     *ir.Value   // inclusive prefix sums of g
	left    *ir.Value   // sum of g after each token
}

// each is what f makes of each of them.
func (w gates) each(f func(*ir.Value) *ir.Value) *gates {
	to := gates{g: f(w.g), beta: f(w.beta), sum: f(w.sum), left: f(w.left)}
	for _, x := range w.parts {
		to.parts = append(to.parts, f(x))
	}
	return &to
}

// loadGates loads the gates, computing them from their raw form where that is the kernel's task.
func (e *gen) loadGates() gates {
	b := e.b.Stage("gates")
	var w gates
	w.g = e.loadGate(e.in.g)
	if o := e.in.beta; e.blocks[o] != nil {
		w.beta = e.loadGate(o)
	}
	if e.in.aLog != nil {
		w.g = decayGate(b, w.g, e.loadGate(e.in.aLog), e.loadGate(e.in.dt))
		if w.beta != nil {
			w.beta = betaGate(b, w.beta, e.s.NegEigval)
		}
	}
	if e.s.Direction != Forward && w.beta != nil {
		w.beta = b.Max(w.beta, b.Like(w.beta, betaFloor))
	}
	return w
}

// coarse is the step of the coarse part of a split decay: its sums over a chunk are exact in float32, and those of the
// rest are below 1.
const coarse = 1.0 / 256

// sums fills the sums by products with triangles of ones; a suffix is summed by itself, so nothing cancels.
func (e *gen) sums(w *gates) {
	b, c := e.b, e.c
	if e.v.Decay != DecaySegment {
		w.g = b.Max(w.g, b.Like(w.g, resetFloor))
	}
	if e.v.Decay == DecayBase2 {
		e.base2Sums(w)
		return
	}
	times := func(g *ir.Value, cmp ir.Cmp) *ir.Value {
		t := ir.T(ir.F32, c, c)
		ones := b.Select(b.Compare(cmp, e.iota(c, c, 0), e.iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
		return b.MatMul(g, ones, false, false, ir.PrecF32)
	}
	parts := []*ir.Value{w.g}
	if e.v.Decay == DecaySplit {
		steps := b.Convert(b.Convert(b.Scale(w.g, 1/coarse), ir.I32), ir.F32)
		most := b.Scale(steps, coarse)
		parts = []*ir.Value{most, b.Sub(w.g, most)}
	}
	for _, g := range parts {
		g = times(g, ir.LE)
		w.parts = append(w.parts, g)
		if w.sum == nil {
			w.sum = g
		} else {
			w.sum = b.Add(w.sum, g)
		}
	}
	w.left = times(w.g, ir.GT)
}

// base2Sums are the sums of g log2(e), as bf16 parts of g by a triangle of ones: two, or the three that are all of a float32
// where the label is above bf16x1.
func (e *gen) base2Sums(w *gates) {
	b, c := e.b, e.c
	w.g = b.Scale(w.g, math.Log2E)
	t := ir.T(ir.BF16, c, c)
	ones := b.Select(b.Compare(ir.LE, e.iota(c, c, 0), e.iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
	n := 3
	if e.v.Precision() == ir.PrecBF16x1 {
		n = 2
	}
	for _, part := range e.split(w.g, n) {
		part = b.MatMul(part, ones, false, false, ir.PrecBF16x1)
		if w.sum == nil {
			w.sum = part
		} else {
			w.sum = b.Add(w.sum, part)
		}
	}
	w.parts = []*ir.Value{w.sum}
	w.left = b.Sub(b.Broadcast(b.SliceAxis(w.sum, 1, c-1, c), w.sum.Type.Shape, 0, 1), w.sum)
}

// exp is the exponential in the base of the sums; log its inverse.
func (e *gen) exp(x *ir.Value) *ir.Value {
	if e.v.Decay == DecayBase2 {
		return e.b.Unary(ir.OpExp2, x)
	}
	return e.b.Exp(x)
}

func (e *gen) log(x *ir.Value) *ir.Value {
	if e.v.Decay == DecayBase2 {
		return e.b.Unary(ir.OpLog2, x)
	}
	return e.b.Unary(ir.OpLog, x)
}

// decay is exp of the sum of g after token j up to token i, at [N, i, j], times beta of j where that is in the exponent (the
// logarithm of 0 is -Inf, whose exponential is 0); for
// j after i it is 0, or anything where masks are on words.
func (e *gen) decay(w gates) *ir.Value {
	b, c := e.b.Stage("decay"), e.c
	n := w.g.Type.Shape[0]
	cube := []int{n, c, c}
	ri, ci := e.iota(c, c, 0), e.iota(c, c, 1)
	var d *ir.Value
	if e.v.Decay == DecaySegment {
		t := ir.T(ir.F32, c, c)
		upto := b.Select(b.Compare(ir.GE, ri, ci), b.Const(t, 1), b.Const(t, 0))
		after := e.over(n, b.Compare(ir.GT, ri, ci))
		g := e.column(w.g, c)
		d = b.MatMul(e.over(n, upto), b.Select(after, g, b.Like(g, 0)), false, false, ir.PrecF32)
		if e.v.Beta == BetaExponent {
			d = b.Add(d, e.row(e.log(w.beta), c))
		}
	} else {
		for i, g := range w.parts {
			after := g
			if i == 0 && e.v.Beta == BetaExponent {
				after = b.Sub(g, e.log(w.beta))
			}
			own := e.column(g, c)
			if e.v.Spread == SpreadTurned {
				own = b.Transpose(e.row(g, c), 0, 2, 1)
			}
			part := b.Sub(own, e.row(after, c))
			if d == nil {
				d = part
			} else {
				d = b.Add(d, part)
			}
		}
	}
	if e.v.Mask == MaskWords {
		return e.exp(d)
	}
	seen := b.Broadcast(b.Compare(ir.GE, ri, ci), cube, 1, 2)
	return e.exp(b.Select(seen, d, b.Like(d, masked)))
}

// masked is a log decay that is zero after exp.
const masked = -1e30

// productKey brings keys or queries of the chunks in flight, [N of key heads, C, K], as products take them.
func (e *gen) productKey(o *operand) *ir.Value {
	if e.normalizes() {
		return e.plainKey(o)
	}
	return e.loadKey(o)
}

// normalizes says whether products take queries and keys that the kernel is to normalize as they are.
func (e *gen) normalizes() bool { return e.s.L2Norm && e.v.Fuse == PlaceKernel && chunked(e.v) }

// norms takes the lengths of queries and keys that products take as they are, so that no key is rounded anew. With n = 1/|k| and
// D the decay,
//
//	A_ij = D_ij n_i (K K^T)_ij n_j   V' = T(V - n e^G K S)   X = n V'
//	O = (e^G Q S + (D . Q K^T) X) / |q|   S <- e^G S + (K e^(G_C - G))^T X
//
// From K K^T [N, C, C], for key heads or for value heads, it makes that of keys of length 1; nil where there is none.
func (e *gen) norms(w *work, kk *ir.Value) *ir.Value {
	b := e.b
	squared := squares(b, w.k)
	w.inverse = b.Unary(ir.OpRsqrt, squared)
	w.length = b.Mul(squared, w.inverse)
	if w.q != nil {
		w.query = b.Unary(ir.OpRsqrt, squares(b, w.q))
		if e.v.Scale == ScaleOutput {
			w.query = b.Scale(w.query, e.s.EffectiveScale())
		}
	}
	if kk == nil {
		return nil
	}
	// The squares of the columns stand on the diagonal.
	across := e.diagonal(kk)
	across = b.Unary(ir.OpRsqrt, b.Add(across, b.Like(across, l2Eps)))
	along := e.column(w.inverse, e.c)
	if !e.v.Share {
		along = e.perValue(along)
	}
	return b.Mul(b.Mul(kk, e.row(across, e.c)), along)
}

// loadKey brings keys or queries of the chunks in flight, [N of key heads, C, K].
func (e *gen) loadKey(o *operand) *ir.Value {
	if e.s.L2Norm && e.v.Fuse == PlaceKernel {
		b := e.b.Stage("load")
		return normRows(b, e.loadRows(o))
	}
	return e.plainKey(o)
}

// plainKey is loadKey without normalization.
func (e *gen) plainKey(o *operand) *ir.Value {
	b := e.b.Stage("load")
	x := e.loadRows(o)
	low := e.s.DType == ir.BF16 && (e.v.PrecIntra != ir.PrecF32 || e.v.PrecState != ir.PrecF32)
	if !low {
		x = b.Convert(x, ir.F32)
	}
	return x
}

// products are K K^T, and scale Q K^T where there is a q, for each value head.
func (e *gen) products(q, k *ir.Value) (kk, qk *ir.Value) {
	b := e.b.Stage("products")
	if !e.v.Share {
		k = e.perValue(k)
		if q != nil {
			q = e.perValue(q)
		}
	}
	switch {
	case q == nil:
		kk = e.dot(k, k, false, true, e.v.PrecIntra)
	case e.v.KQ == JointJoined:
		if q.Type.DType != k.Type.DType {
			q, k = b.Convert(q, ir.F32), b.Convert(k, ir.F32)
		}
		both := e.dot(b.Concat(1, k, q), k, false, true, e.v.PrecIntra)
		kk, qk = b.SliceAxis(both, 1, 0, e.c), b.SliceAxis(both, 1, e.c, 2*e.c)
	default:
		kk = e.dot(k, k, false, true, e.v.PrecIntra)
		qk = e.dot(q, k, false, true, e.v.PrecIntra)
	}
	if qk != nil {
		qk = e.scaled(qk)
		if e.v.Share {
			qk = e.perValue(qk)
		}
	}
	return kk, qk
}

// negated is -K K^T for each value head, of keys at their length.
func (e *gen) negated(w *work, kk *ir.Value) *ir.Value {
	if e.normalizes() {
		kk = e.norms(w, kk)
	}
	kk = e.b.Neg(kk)
	if e.v.Share {
		return e.perValue(kk)
	}
	return kk
}

// scaled is what is made of q, times the scale unless the output takes it.
func (e *gen) scaled(x *ir.Value) *ir.Value {
	if e.v.Scale == ScaleOutput {
		return x
	}
	return e.b.Scale(x, e.s.EffectiveScale())
}

// weights are -A, strictly lower triangular, and P, from the products and the decay. With beta=right both carry beta of
// their column.
func (e *gen) weights(negKK, qk, d *ir.Value, w gates) (negA, p *ir.Value) {
	b, c := e.b.Stage("decay"), e.c
	n := d.Type.Shape[0]
	inner := d
	if e.v.Beta == BetaRight {
		d = b.Mul(d, e.row(w.beta, c))
		inner = d
	} else if e.v.Beta == BetaLeft && negKK != nil {
		inner = b.Mul(d, e.column(w.beta, c))
	}
	times := func(x, d *ir.Value) *ir.Value { return b.Mul(e.element(x, LowAll), e.element(d, LowAll)) }
	if e.v.Mask == MaskWords {
		if negKK != nil {
			negA = times(negKK, inner)
		}
		if qk != nil {
			p = e.lower(times(qk, d))
		}
		return negA, p
	}
	if negKK != nil {
		strict := e.over(n, b.Compare(ir.GT, e.iota(c, c, 0), e.iota(c, c, 1)))
		negA = b.Convert(times(negKK, inner), ir.F32)
		negA = b.Select(strict, negA, b.Like(negA, 0))
	}
	if qk != nil {
		p = e.store(times(qk, d))
	}
	return negA, p
}

// element rounds an operand of a product with decay to the type in which those are formed: bf16 from a level of low on.
func (e *gen) element(x *ir.Value, from Low) *ir.Value {
	if e.v.Low >= from {
		return e.b.Convert(x, ir.BF16)
	}
	return e.b.Convert(x, ir.F32)
}

// byRows multiplies row i of x [N, C, D] by g [N, C] at i.
func (e *gen) byRows(x, g *ir.Value) *ir.Value {
	b, s := e.b, x.Type.Shape
	if e.v.Low == LowNone {
		return b.Mul(e.element(x, LowRows), e.column(g, s[2]))
	}
	// A column of words is spread over half the registers.
	t := b.Words(b.Convert(b.Transpose(g, 1, 0), ir.BF16))
	col := b.Broadcast(b.Transpose(t, 1, 0), []int{s[0], s[1] / 2, s[2]}, 0, 1)
	return b.Mul(e.element(x, LowRows), b.Halves(col))
}

// byLanes multiplies lane j of x [N, D, C] by g [N, C] at j.
func (e *gen) byLanes(x, g *ir.Value) *ir.Value {
	b, s := e.b, x.Type.Shape
	g = e.element(b.Reshape(g, s[0], 1, s[2]), LowOperands)
	return b.Mul(e.element(x, LowOperands), b.Broadcast(g, s, 0, 1, 2))
}

// work is what the state step of the chunks in flight needs, each of N entries.
type work struct {
	q, k *ir.Value // of key heads
	v    *ir.Value
	t, p *ir.Value
	u, w *ir.Value // form uw
	// What meets the state, of value heads: K and Q, with exp(G) where folded, and K as its update needs it.
	stateK, stateQ, restK *ir.Value
	grown                 *ir.Value // exp(G) [N, C]
	// Where the kernel normalizes keys: 1/|k|, |k|, and 1/|q| with a scale that the output takes, [N of key heads, C].
	inverse, length, query *ir.Value
	gates
}

// stateFree does the work that needs no state; what an earlier grid made is loaded.
func (e *gen) stateFree() *work {
	w := &work{}
	if e.blocks[e.in.q] != nil {
		w.q = e.productKey(e.in.q)
	}
	w.k = e.productKey(e.in.k)
	if e.blocks[e.in.v] != nil {
		w.v = e.b.Convert(e.loadRows(e.in.v), ir.F32)
	}
	if e.ready != nil {
		w.gates = *e.ready
	} else {
		w.gates = e.loadGates()
		e.sums(&w.gates)
	}
	has := func(o *operand) bool { return o != nil && e.blocks[o] != nil }
	needT := !has(e.in.t) && !has(e.in.u)
	needP := w.q != nil && !has(e.in.p)
	if needT || needP {
		var q, negKK, qk *ir.Value
		if needP {
			q = w.q
		}
		if needT {
			var kk *ir.Value
			kk, qk = e.products(q, w.k)
			negKK = e.negated(w, kk)
		} else {
			qk = e.queryProducts(q, w.k)
		}
		negA, p := e.weights(negKK, qk, e.decay(w.gates), w.gates)
		w.p = p
		if needT {
			if e.v.Mask == MaskWords {
				w.t = e.solveWords(negA)
			} else {
				w.t = e.store(e.solve(negA))
			}
		}
	}
	e.b.Stage("load")
	if e.normalizes() && w.inverse == nil {
		e.norms(w, nil)
	}
	for _, l := range []struct {
		o  *operand
		to **ir.Value
	}{{e.in.t, &w.t}, {e.in.p, &w.p}, {e.in.u, &w.u}, {e.in.w, &w.w}} {
		if has(l.o) {
			*l.to = e.loadMade(l.o)
		}
	}
	if e.state != nil {
		e.stateOperands(w)
	}
	if e.v.Form == FormUW && w.u == nil && w.v != nil {
		e.explicit(w)
	}
	return w
}

// stateOperands makes what meets the state.
func (e *gen) stateOperands(w *work) {
	e.b.Stage("operands")
	w.grown = e.exp(w.sum)
	w.restK = e.rest(w)
	w.stateK = e.perValue(w.k)
	if e.v.Fold {
		w.stateK = e.store(e.byRows(w.stateK, w.grown))
	}
	if w.q == nil {
		return
	}
	if w.stateQ = e.perValue(w.q); e.v.Fold {
		w.stateQ = e.store(e.byRows(w.stateQ, e.scaled(w.grown)))
	}
}

// queryProducts is scale Q K^T for each value head.
func (e *gen) queryProducts(q, k *ir.Value) *ir.Value {
	e.b.Stage("products")
	return e.perValue(e.scaled(e.dot(q, k, false, true, e.v.PrecIntra)))
}

// explicit makes U = T beta V and W = T beta exp(G) K, beta being in T's columns already where it is on the right.
func (e *gen) explicit(w *work) {
	b := e.b.Stage("uw")
	ku, kw := w.v, b.Mul(b.Convert(e.perValue(w.k), ir.F32), e.column(e.exp(w.sum), e.s.K))
	if e.v.Beta == BetaLeft {
		ku = b.Mul(ku, e.column(w.beta, e.s.V))
		kw = b.Mul(kw, e.column(w.beta, e.s.K))
	}
	if w.inverse != nil {
		kw = b.Mul(kw, e.perValue(e.column(w.inverse, e.s.K)))
	}
	w.u = e.store(e.dot(w.t, e.store(ku), false, false, e.v.apply()))
	w.w = e.store(e.dot(w.t, e.store(kw), false, false, e.v.apply()))
}

// fused does everything in one grid, or everything but the inverse.
func (e *gen) fused() []blockOut { return e.steps(e.stateFree()) }

// scan takes what intra made through the states.
func (e *gen) scan() []blockOut { return e.steps(e.stateFree()) }

// intra makes T and P, or U, W and P.
func (e *gen) intra() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	if e.v.Form == FormUW {
		return []blockOut{e.made(w.u), e.made(w.w), e.made(w.p)}
	}
	return []blockOut{e.made(w.t), e.made(w.p)}
}

// inverse makes T alone.
func (e *gen) inverse() []blockOut {
	w := e.stateFree()
	e.b.Stage("keep")
	return []blockOut{e.made(w.t)}
}

// steps takes the chunks in flight through the state, in order.
func (e *gen) steps(w *work) []blockOut {
	b := e.b.Stage("state")
	grown := e.exp(w.sum)
	k, q, shared := w.k, w.q, e.sharesState()
	var restK *ir.Value
	if !shared {
		restK, k = e.rest(w), e.perValue(k)
		if q != nil {
			q = e.perValue(q)
		}
	}
	if e.v.Fold {
		k = e.store(e.byRows(k, grown))
		if q != nil {
			q = e.store(e.byRows(q, e.scaled(grown)))
		}
	}
	var turnedK, left *ir.Value // for an update in which K is as it is
	switch {
	case e.v.update() != e.v.PrecState:
		turnedK, left = e.perValue(e.turned(w.k)), e.remains(w)
	case e.v.Rest == RestValue:
		left = e.remains(w)
	}
	unit, length, share := e.normColumns(w)
	var outs []*ir.Value
	for c := range e.v.Chunks {
		b.At(ir.Loc{Stage: "state", Chunk: c, Head: -1})
		at := func(x *ir.Value) *ir.Value { return e.ofChunk(x, c) }
		grow := func(x, by *ir.Value) *ir.Value {
			if e.v.Fold {
				return x
			}
			return b.Mul(e.column(by, e.s.V), x)
		}
		if e.enter != nil {
			e.state = e.enter(c)
		}
		state := e.state
		up := at(grown)
		kS, qS := e.stateProducts(at(k), at(q), state)
		var u *ir.Value
		if e.v.Form == FormUW {
			u = b.Sub(b.Convert(at(w.u), ir.F32), e.dot(at(w.w), state, false, false, e.v.PrecState))
		} else {
			r := b.Sub(at(w.v), e.by(grow(kS, up), at(unit)))
			if e.v.Beta == BetaLeft {
				r = b.Mul(r, e.column(at(w.beta), e.s.V))
			}
			u = e.dot(at(w.t), e.store(r), false, false, e.v.apply())
		}
		exact := u
		u = e.storeValues(u, at(unit), at(length))
		kept := u
		if unit != nil {
			kept = e.store(exact)
		}
		e.before, e.inverted, e.values = append(e.before, state), w.t, append(e.values, kept)
		weighed := u // V' as it meets restK
		if e.v.Rest == RestValue {
			weighed = e.store(b.Mul(e.by(exact, at(unit)), e.column(at(left), e.s.V)))
		}
		var added *ir.Value // K^T V'
		switch {
		case q == nil:
			// There is no output: states alone are wanted.
		case e.v.Out == OutShared && e.v.update() == e.v.PrecState:
			both := e.dot(e.concat(1, at(w.p), at(restK)), u, false, false, e.v.PrecState)
			own := b.SliceAxis(both, 1, 0, e.c)
			outs = append(outs, b.Add(grow(qS, e.scaled(up)), own))
			added = b.SliceAxis(both, 1, e.c, e.c+e.s.K)
		case e.v.Out == OutJoined:
			left, right := e.concat(2, at(q), at(w.p)), e.concat(1, e.store(state), u)
			outs = append(outs, e.dot(left, right, false, false, e.v.PrecState))
		default:
			own := e.dot(at(w.p), u, false, false, e.v.PrecIntra)
			outs = append(outs, b.Add(grow(qS, e.scaled(up)), own))
		}
		switch {
		case shared: // the rest of the decay goes to V'
			rest := b.Transpose(e.store(e.byRows(u, at(e.remains(w)))), 0, 2, 1)
			added = e.dot(e.sideBySide(rest), at(k), false, false, e.v.PrecState)
		case e.valueFirst:
			added = e.dot(weighed, at(restK), true, false, e.v.PrecState)
		case added != nil:
		case e.v.update() != e.v.PrecState: // K is exact, V' is in parts: the rest of the decay goes to V'
			added = e.dot(at(turnedK), e.store(e.byRows(u, at(left))), false, false, e.v.update())
		default:
			added = e.dot(at(restK), weighed, e.v.Turn == TurnValue, false, e.v.PrecState)
		}
		e.state = b.Add(b.Mul(state, e.stateDecay(up, state)), added)
		if e.leave != nil {
			e.leave(c, e.state)
		}
	}
	b.Stage("output")
	for i, x := range outs {
		outs[i] = e.leaving(x, e.ofChunk(share, i))
	}
	if q == nil {
		return nil
	}
	return []blockOut{e.output(outs)}
}

// ofChunk is what of x belongs to a chunk in flight; nil of nil.
func (e *gen) ofChunk(x *ir.Value, chunk int) *ir.Value {
	if x == nil || e.v.Chunks == 1 {
		return x
	}
	n := x.Type.Shape[0] / e.v.Chunks
	return e.sliced(x, chunk*n, (chunk+1)*n)
}

// normColumns are what norms has taken, in all lanes [N, C, V]; nil where the kernel does not normalize keys.
func (e *gen) normColumns(w *work) (unit, length, query *ir.Value) {
	if w.inverse == nil {
		return nil, nil, nil
	}
	over := func(x *ir.Value) *ir.Value { return e.perValue(e.column(x, e.s.V)) }
	if w.query != nil {
		query = over(w.query)
	}
	return over(w.inverse), over(w.length), query
}

// by is the product of elements, or x where there is nothing to multiply it by.
func (e *gen) by(x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return e.b.Mul(x, y)
}

// leaving is an output with what its products left out: the share of normColumns, or the scale.
func (e *gen) leaving(x, share *ir.Value) *ir.Value {
	switch {
	case share != nil:
		return e.b.Mul(x, share)
	case e.v.Scale == ScaleOutput:
		return e.b.Scale(x, e.s.EffectiveScale())
	}
	return x
}

// rest is what K turns into for the state's update: its rows by the decay that is left after each token, and by beta where
// that is not in V' yet, unless V' takes both. It is [N, C, K], or [N, K, C] where it is turned before.
func (e *gen) rest(w *work) *ir.Value {
	b := e.b
	if e.v.Rest == RestValue {
		if e.v.Turn == TurnKey {
			return e.perValue(e.turned(w.k))
		}
		return e.perValue(w.k)
	}
	left := e.remains(w)
	if e.v.Turn == TurnKey {
		return e.store(e.byLanes(e.perValue(b.Transpose(w.k, 0, 2, 1)), left))
	}
	return e.store(e.byRows(e.perValue(w.k), left))
}

// remains [N, C] is the decay that is left after each token, times beta where that is not in V' yet.
func (e *gen) remains(w *work) *ir.Value {
	left := e.exp(w.left)
	if e.v.Beta != BetaLeft {
		left = e.b.Mul(left, w.beta)
	}
	return left
}

// stateDecay spreads what is left of the state before a chunk over its elements.
func (e *gen) stateDecay(grown, state *ir.Value) *ir.Value {
	s := state.Type.Shape
	rows := s[0] * s[1] / grown.Type.Shape[0]
	return e.b.Reshape(e.scalar(grown, e.c-1, rows, s[2]), s...)
}

// sharesState says whether the value heads of a key head meet K and Q in one product: their states [V, K] lie one below the other,
// [N of key heads, heads V, K].
func (e *gen) sharesState() bool { return e.valueFirst && e.v.Share && !e.v.Fold && e.gb > 1 }

// sideBySide joins what belongs to the value heads of a key head: [N of value heads, R, L] to [N of key heads, heads R, L].
func (e *gen) sideBySide(x *ir.Value) *ir.Value {
	s := x.Type.Shape
	return e.b.Reshape(x, s[0]/e.gb, e.gb*s[1], s[2])
}

// meet is rows [N, C, K] by the state, and apart brings that, or some rows of it, to [N of value heads, C, V].
func (e *gen) meet(rows, state *ir.Value) *ir.Value {
	return e.dot(rows, state, false, e.valueFirst, e.v.PrecState)
}

func (e *gen) apart(x *ir.Value) *ir.Value {
	if !e.sharesState() {
		return x
	}
	b, s := e.b, x.Type.Shape
	x = b.Transpose(b.Reshape(x, s[0], s[1], e.gb, e.s.V), 0, 2, 1, 3)
	return b.Reshape(x, s[0]*e.gb, s[1], e.s.V)
}

// stateProducts are K S and Q S, where the form needs them.
func (e *gen) stateProducts(k, q, state *ir.Value) (kS, qS *ir.Value) {
	b := e.b
	needK, needQ := e.v.Form != FormUW, e.v.Out != OutJoined && q != nil
	switch {
	case !needK && !needQ:
		return nil, nil
	case !needK:
		return nil, e.apart(e.meet(q, state))
	case !needQ:
		return e.apart(e.meet(k, state)), nil
	case e.v.KQ == JointJoined:
		if q.Type.DType != k.Type.DType {
			q, k = b.Convert(q, ir.F32), b.Convert(k, ir.F32)
		}
		both := e.meet(e.concat(1, k, q), state)
		return e.apart(b.SliceAxis(both, 1, 0, e.c)), e.apart(b.SliceAxis(both, 1, e.c, 2*e.c))
	}
	return e.apart(e.meet(k, state)), e.apart(e.meet(q, state))
}
