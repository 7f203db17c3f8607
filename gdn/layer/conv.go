package layer

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// convolve applies the depthwise causal convolution to x [batch, tokens, channels], then SiLU, in float32; the result has the type of x. With
// remember it also returns the new cache. Padding is moved after the real tokens and back, so that a real token's taps reach real
// tokens and the cache.
func (b *Builder) convolve(x *Node, remember bool) (y, cache *Node) {
	c, g := b.cfg, x.Graph()
	batch, tokens, channels, taps := x.Shape().Dim(0), x.Shape().Dim(1), c.Channels(), c.ConvWidth
	bound := 1 / math.Sqrt(float64(taps))
	w := ConvertDType(b.variable(VarConv, b.made, uniform(b.scope, -bound, bound), channels, taps), dtypes.Float32)
	var order tokenOrder
	if b.mask != nil {
		order = realFirst(b.realTokens())
		x = order.apply(x)
	}
	tap := func(j int) *Node { return Reshape(SliceAxis(w, 1, AxisElem(j)), 1, 1, channels) }

	// before has the taps inputs before the first token, the oldest first: from the cache, or zeros.
	before := Zeros(g, shapes.Make(x.DType(), batch, taps, channels))
	if b.cache != nil && b.cuSeqlens == nil {
		before = TransposeAllAxes(b.cache.Conv, 0, 2, 1)
	}
	all := Concatenate([]*Node{before, x}, 1)
	wide := ConvertDType(all, dtypes.Float32)
	var sum *Node
	for j := range taps {
		back := taps - 1 - j // the tap's distance in tokens
		shifted := SliceAxis(wide, 1, AxisRange(taps-back, taps-back+tokens))
		if b.cuSeqlens != nil && back > 0 {
			shifted = b.withinSequence(shifted, back)
		}
		if term := Mul(shifted, tap(j)); sum == nil {
			sum = term
		} else {
			sum = Add(sum, term)
		}
	}
	y = Narrow(silu(sum), x.DType())
	if b.mask != nil {
		y = order.undo(y)
	}
	if !remember {
		return y, nil
	}
	switch {
	case b.cuSeqlens != nil:
		cache = b.packedCache(x)
	case b.mask != nil:
		cache = order.lastRows(all, taps)
	default:
		cache = SliceAxis(all, 1, AxisRange(tokens, tokens+taps))
	}
	return y, TransposeAllAxes(cache, 0, 2, 1)
}

// withinSequence keeps a tap's input `back` tokens before a token if both are in one sequence. Otherwise it takes the input from the
// sequence's cache, or zero.
func (b *Builder) withinSequence(shifted *Node, back int) *Node {
	g, taps := shifted.Graph(), b.cfg.ConvWidth
	seq, pos := b.places(shifted.Shape().Dim(1))
	inside := GreaterOrEqual(pos, FillScalar(g, pos.Shape(), float64(back)))
	keep := BroadcastToDims(Reshape(inside, 1, -1, 1), shifted.Shape().Dimensions...)
	other := ZerosLike(shifted)
	if b.cache != nil {
		// Row taps-back+pos of the sequence's cache; an arbitrary row if the token needs none.
		row := Where(inside, ZerosLike(pos), AddScalar(pos, taps-back))
		rows := Reshape(TransposeAllAxes(b.cache.Conv, 0, 2, 1), -1, b.cfg.Channels())
		index := Add(MulScalar(seq, taps), row)
		other = InsertAxes(ConvertDType(Gather(rows, InsertAxes(index, -1)), shifted.DType()), 0)
	}
	return Where(keep, shifted, other)
}

// places returns, for n packed tokens, the sequence of each and its position in it, as int32.
func (b *Builder) places(n int) (seq, pos *Node) {
	g := b.x.Graph()
	cu := ConvertDType(b.cuSeqlens, dtypes.Int32)
	ends := SliceAxis(cu, 0, AxisRangeToEnd(1))
	token := Iota(g, shapes.Make(dtypes.Int32, n), 0)
	past := LessOrEqual(BroadcastToDims(Reshape(ends, 1, -1), n, ends.Shape().Dim(0)),
		BroadcastToDims(Reshape(token, -1, 1), n, ends.Shape().Dim(0)))
	seq = ReduceSum(ConvertDType(past, dtypes.Int32), 1)
	seq = MinScalar(seq, ends.Shape().Dim(0)-1)
	return seq, Sub(token, Gather(cu, InsertAxes(seq, -1)))
}

// packedCache returns the last inputs [sequences, taps, channels] of each packed sequence; a short sequence keeps inputs of its old cache.
func (b *Builder) packedCache(x *Node) *Node {
	g, taps, channels := x.Graph(), b.cfg.ConvWidth, b.cfg.Channels()
	n := b.cuSeqlens.Shape().Dim(0) - 1
	cu := ConvertDType(b.cuSeqlens, dtypes.Int32)
	begin, end := SliceAxis(cu, 0, AxisRange(0, n)), SliceAxis(cu, 0, AxisRangeToEnd(1))
	grid := func(v *Node) *Node { return BroadcastToDims(Reshape(v, n, 1), n, taps) }
	length := grid(Sub(end, begin))
	slot := Add(Iota(g, shapes.Make(dtypes.Int32, n, taps), 1), length) // in the old cache followed by the sequence
	old := LessThan(slot, FillScalar(g, slot.Shape(), float64(taps)))
	// Rows: the caches of all sequences, then the tokens.
	cached := Zeros(g, shapes.Make(x.DType(), n*taps, channels))
	if b.cache != nil {
		cached = Reshape(TransposeAllAxes(b.cache.Conv, 0, 2, 1), n*taps, channels)
	}
	rows := Concatenate([]*Node{cached, Reshape(x, -1, channels)}, 0)
	fromCache := Add(MulScalar(Iota(g, slot.Shape(), 0), taps), slot)
	fromTokens := AddScalar(Add(grid(begin), slot), (n-1)*taps) // n*taps rows precede the tokens; slot already counts taps of them
	index := Reshape(Where(old, fromCache, fromTokens), -1, 1)
	return Reshape(Gather(rows, index), n, taps, channels)
}
