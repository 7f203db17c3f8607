package lm

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
)

// The graph of a model. Caches are two nodes a layer: of the rule its convolution and state, of attention its keys and values,
// [batch, key heads, capacity, head width].

type builder struct {
	c     Config
	scope *model.Scope
	begin *Node // int32 scalar: tokens before the first of this call
}

func (b *builder) weight(scope *model.Scope, name string, g *Graph) *Node {
	return scope.GetVariable(name).NodeValue(g)
}

// logits are those of each token: tokens int32 [batch, tokens].
func (b *builder) logits(tokens *Node, caches []*Node) (logits *Node, next []*Node) {
	g := tokens.Graph()
	embedding := b.weight(b.scope, "embed_tokens", g)
	x := ConvertDType(Gather(embedding, InsertAxes(tokens, -1)), dtypes.Float32)
	for i, attention := range b.c.Attention {
		s := b.scope.At("layer_%d", i)
		n := b.norm(x, s, "input_layernorm")
		var y *Node
		if attention {
			var k, v *Node
			y, k, v = b.attention(s, n, caches[2*i], caches[2*i+1])
			next = append(next, k, v)
		} else {
			var cache *layer.Cache
			y, cache = layer.New(s.At("gdn"), n).With(b.c.Layer).Cache(&layer.Cache{Conv: caches[2*i], State: caches[2*i+1]}).DoneWithCache()
			next = append(next, cache.Conv, cache.State)
		}
		x = Add(x, y)
		n = b.norm(x, s, "post_attention_layernorm")
		gate, up := b.linear(s, "gate_proj", n), b.linear(s, "up_proj", n)
		x = Add(x, b.linear(s, "down_proj", Mul(Mul(gate, Sigmoid(gate)), up)))
	}
	x = b.norm(x, b.scope, "norm")
	head := "lm_head"
	if b.c.Tied {
		head = "embed_tokens"
	}
	return b.linear(b.scope, head, x), next
}

// linear multiplies the features of x by a matrix [out, in].
func (b *builder) linear(s *model.Scope, name string, x *Node) *Node {
	return DotGeneral(x, []int{x.Rank() - 1}, nil, ConvertDType(b.weight(s, name, x.Graph()), dtypes.Float32), []int{1}, nil)
}

// norm divides the last axis by its root mean square and scales it by one and a weight.
func (b *builder) norm(x *Node, s *model.Scope, name string) *Node {
	y := Div(x, Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, -1), b.c.Eps)))
	w := AddScalar(ConvertDType(b.weight(s, name, x.Graph()), dtypes.Float32), 1)
	return Mul(y, ExpandLeftToRank(w, y.Rank()))
}

// attention is gated attention of x over the tokens in its cache and itself.
func (b *builder) attention(s *model.Scope, x, keys, values *Node) (y, nextKeys, nextValues *Node) {
	c, g := b.c, x.Graph()
	batch, tokens := x.Shape().Dim(0), x.Shape().Dim(1)
	both := Reshape(b.linear(s, "q_proj", x), batch, tokens, c.Heads, 2*c.HeadDim) // of each head: query | gate
	q, gate := SliceAxis(both, -1, AxisRange(0, c.HeadDim)), SliceAxis(both, -1, AxisRangeToEnd(c.HeadDim))
	k := Reshape(b.linear(s, "k_proj", x), batch, tokens, c.KVHeads, c.HeadDim)
	v := Reshape(b.linear(s, "v_proj", x), batch, tokens, c.KVHeads, c.HeadDim)
	q, k = b.rope(b.norm(q, s, "q_norm")), b.rope(b.norm(k, s, "k_norm"))
	keys, values = b.put(keys, k), b.put(values, v)

	group := c.Heads / c.KVHeads
	q = Reshape(q, batch, tokens, c.KVHeads, group, c.HeadDim)
	score := DotGeneral(q, []int{4}, []int{0, 2}, keys, []int{3}, []int{0, 1}) // [batch, key heads, tokens, group, capacity]
	score = MulScalar(score, 1/math.Sqrt(float64(c.HeadDim)))
	place := shapes.Make(dtypes.Int32, score.Shape().Dimensions...)
	seen := LessOrEqual(Iota(g, place, 4), Add(Iota(g, place, 2), BroadcastToDims(b.begin, place.Dimensions...)))
	score = Where(seen, score, FillScalar(g, score.Shape(), -1e30))
	y = DotGeneral(Softmax(score, -1), []int{4}, []int{0, 1}, values, []int{2}, []int{0, 1}) // [batch, key heads, tokens, group, width]
	y = Reshape(TransposeAllAxes(y, 0, 2, 1, 3, 4), batch, tokens, c.Heads*c.HeadDim)
	y = Mul(y, Sigmoid(Reshape(gate, batch, tokens, c.Heads*c.HeadDim)))
	return b.linear(s, "o_proj", y), keys, values
}

// rope turns the first channels of each head, [batch, tokens, heads, width], by the place of its token.
func (b *builder) rope(x *Node) *Node {
	g, half := x.Graph(), b.c.Rotary/2
	tokens := x.Shape().Dim(1)
	place := shapes.Make(dtypes.Float32, 1, tokens, 1, half)
	at := Add(Iota(g, place, 1), BroadcastToDims(ConvertDType(b.begin, dtypes.Float32), place.Dimensions...))
	rates := make([]float32, half)
	for i := range rates {
		rates[i] = float32(1 / math.Pow(b.c.Theta, float64(2*i)/float64(b.c.Rotary)))
	}
	angle := Mul(at, BroadcastToDims(Reshape(Const(g, rates), 1, 1, 1, half), place.Dimensions...))
	dims := []int{x.Shape().Dim(0), tokens, x.Shape().Dim(2), half}
	cos, sin := BroadcastToDims(Cos(angle), dims...), BroadcastToDims(Sin(angle), dims...)
	left, right := SliceAxis(x, -1, AxisRange(0, half)), SliceAxis(x, -1, AxisRange(half, 2*half))
	parts := []*Node{Sub(Mul(left, cos), Mul(right, sin)), Add(Mul(right, cos), Mul(left, sin))}
	if b.c.Rotary < b.c.HeadDim {
		parts = append(parts, SliceAxis(x, -1, AxisRangeToEnd(b.c.Rotary)))
	}
	return Concatenate(parts, -1)
}

// put writes x, [batch, tokens, heads, width], into a cache at the first token of this call. Not every backend writes at run time, so each row
// of the cache is selected: by a product with ones and zeros, which is exact.
func (b *builder) put(cache, x *Node) *Node {
	g, capacity, tokens := x.Graph(), cache.Shape().Dim(2), x.Shape().Dim(1)
	grid := shapes.Make(dtypes.Int32, capacity, tokens)
	hit := Equal(Iota(g, grid, 0), Add(Iota(g, grid, 1), BroadcastToDims(b.begin, capacity, tokens)))
	pick := ConvertDType(hit, x.DType())
	spread := TransposeAllAxes(DotGeneral(pick, []int{1}, nil, x, []int{1}, nil), 1, 2, 0, 3)
	row := Iota(g, shapes.Make(dtypes.Int32, cache.Shape().Dimensions...), 2)
	first := BroadcastToDims(b.begin, cache.Shape().Dimensions...)
	written := LogicalAnd(GreaterOrEqual(row, first), LessThan(row, AddScalar(first, tokens)))
	return Where(written, spread, cache)
}
