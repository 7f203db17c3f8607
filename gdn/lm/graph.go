package lm

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"

	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
)

// The graph of a model. Each layer has two cache nodes: convolution and state of a rule; keys and values of attention,
// [batch, key heads, capacity, head width]; or latents and shared keys.

type builder struct {
	c     Config
	scope *model.Scope
	begin *Node // int32 scalar: number of tokens before this call
}

// Logits builds the graph of the logits [batch, tokens, vocab] for each of the tokens, int32 [batch, tokens], for training. It creates variables that
// are missing in scope.
func Logits(scope *model.Scope, c Config, tokens *Node) *Node {
	b := &builder{c: c, scope: scope, begin: ScalarZero(tokens.Graph(), dtypes.Int32)}
	x, _ := b.features(tokens, nil)
	return b.logits(x)
}

// weight returns a variable. In a new model it is created: matrices at random, scales so that they scale by one.
func (b *builder) weight(scope *model.Scope, name string, g *Graph, shape ...int) *Node {
	if v := scope.GetVariable(name); v != nil {
		return v.NodeValue(g)
	}
	init := initializer.One
	switch {
	case len(shape) > 1:
		init = initializer.RandomNormalFn(scope, .02)
	case b.c.offset == 1:
		init = initializer.Zero
	}
	return scope.WithInitializer(init).VariableWithShape(name, shapes.Make(dtypes.Float32, shape...)).NodeValue(g)
}

// features returns the head's inputs [batch, tokens, hidden] for tokens int32 [batch, tokens], and the new caches, or none without caches.
func (b *builder) features(tokens *Node, caches []*Node) (x *Node, next []*Node) {
	g, c := tokens.Graph(), b.c
	embedding := b.weight(b.scope, "embed_tokens", g, c.Vocabulary, c.Hidden)
	x = ConvertDType(Gather(embedding, InsertAxes(tokens, -1)), dtypes.Float32)
	for i, attention := range c.Attention {
		s := in(b.scope, i)
		var kept []*Node
		if caches != nil {
			kept = caches[2*i : 2*i+2]
		}
		mix := func(x *Node) *Node {
			var y *Node
			switch {
			case attention && c.Latent.Rank > 0:
				y, kept = b.latent(s, x, kept)
			case attention:
				y, kept = b.attention(s, x, kept)
			case kept == nil:
				if c.Compute == dtypes.BFloat16 {
					x = layer.Narrow(x, dtypes.BFloat16)
				}
				return ConvertDType(layer.New(s.At("gdn"), x).With(c.Layer).WeightType(dtypes.Float32).Done(), dtypes.Float32)
			default:
				var cache *layer.Cache
				y, cache = layer.New(s.At("gdn"), x).With(c.Layer).Cache(&layer.Cache{Conv: kept[0], State: kept[1]}).DoneWithCache()
				kept = []*Node{cache.Conv, cache.State}
			}
			return y
		}
		mlp := func(x *Node) *Node {
			if c.Sparse[i] {
				return b.experts(s, x)
			}
			return b.mlp(s, x, "", c.Width)
		}
		if attention && c.postNorm {
			x = Add(x, b.norm(mix(x), s, "post_attention_layernorm"))
			x = Add(x, b.norm(mlp(x), s, "post_feedforward_layernorm"))
		} else {
			x = Add(x, mix(b.norm(x, s, "input_layernorm")))
			x = Add(x, mlp(b.norm(x, s, "post_attention_layernorm")))
		}
		next = append(next, kept...)
	}
	return b.norm(x, b.scope, "norm"), next
}

// logits multiplies features by the head.
func (b *builder) logits(x *Node) *Node {
	if b.c.Tied {
		return b.linear(b.scope, "embed_tokens", x, b.c.Vocabulary)
	}
	return b.linear(b.scope, "lm_head", x, b.c.Vocabulary)
}

// mlp is SwiGLU.
func (b *builder) mlp(s *model.Scope, x *Node, prefix string, width int) *Node {
	gate, up := b.linear(s, prefix+"gate_proj", x, width), b.linear(s, prefix+"up_proj", x, width)
	return b.linear(s, prefix+"down_proj", Mul(silu(gate), up), x.Shape().Dim(-1))
}

func silu(x *Node) *Node { return Mul(x, Sigmoid(x)) }

// linear multiplies the features of x by a matrix [out, in].
func (b *builder) linear(s *model.Scope, name string, x *Node, out int) *Node {
	in := x.Shape().Dim(-1)
	w := b.weight(s, name, x.Graph(), out, in)
	if b.c.Compute == dtypes.BFloat16 {
		x, w = layer.Narrow(x, b.c.Compute), layer.Narrow(ConvertDType(w, dtypes.Float32), b.c.Compute)
		if irgraph.Truncates(x.Graph().Backend()) {
			x, w = ConvertDType(x, dtypes.Float32), ConvertDType(w, dtypes.Float32)
		}
		return Dot(x, w).WithAccumulatorDType(dtypes.Float32).WithOutputDType(dtypes.Float32).General([]int{x.Rank() - 1}, nil, []int{1}, nil)
	}
	if rows := x.Shape().Size() / in; w.DType() != x.DType() && rows <= fewRows && !irgraph.Truncates(x.Graph().Backend()) {
		dims := []int{rows, out, in}
		wide := BroadcastToDims(ConvertDType(InsertAxes(w, 0), x.DType()), dims...)
		y := ReduceSum(Mul(wide, BroadcastToDims(Reshape(x, rows, 1, in), dims...)), 2)
		return Reshape(y, append(slices.Clone(x.Shape().Dimensions[:x.Rank()-1]), out)...)
	}
	return DotGeneral(x, []int{x.Rank() - 1}, nil, ConvertDType(w, x.DType()), []int{1}, nil)
}

// fewRows is the largest number of rows for which a matrix of another type is multiplied and summed in one loop, which XLA fuses. A product would first
// copy the matrix in the type of x.
const fewRows = 4

// norm divides the last axis by its root mean square and scales it by a weight plus the family's offset.
func (b *builder) norm(x *Node, s *model.Scope, name string) *Node {
	return b.normed(x, s, name, b.c.Eps)
}

func (b *builder) normed(x *Node, s *model.Scope, name string, eps float64) *Node {
	y := Div(x, Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, -1), eps)))
	w := AddScalar(ConvertDType(b.weight(s, name, x.Graph(), x.Shape().Dim(-1)), dtypes.Float32), b.c.offset)
	return Mul(y, ExpandLeftToRank(w, y.Rank()))
}

// attention returns the attention of x over its own and the cached tokens, with a gate if the family has one, and the new caches.
func (b *builder) attention(s *model.Scope, x *Node, kept []*Node) (y *Node, next []*Node) {
	c := b.c
	batch, tokens := x.Shape().Dim(0), x.Shape().Dim(1)
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	width := queries
	if c.gate {
		width *= 2 // per head: query | gate
	}
	q, k, v := b.linear(s, "q_proj", x, width), b.linear(s, "k_proj", x, keys), b.linear(s, "v_proj", x, keys)
	if c.postNorm {
		q, k = b.norm(q, s, "q_norm"), b.norm(k, s, "k_norm")
	}
	q, k = Reshape(q, batch, tokens, c.Heads, -1), Reshape(k, batch, tokens, c.KVHeads, c.HeadDim)
	v = Reshape(v, batch, tokens, c.KVHeads, c.HeadDim)
	var gate *Node
	if c.gate {
		q, gate = SliceAxis(q, -1, AxisRange(0, c.HeadDim)), SliceAxis(q, -1, AxisRangeToEnd(c.HeadDim))
	}
	if !c.postNorm {
		q, k = b.norm(q, s, "q_norm"), b.norm(k, s, "k_norm")
	}
	if c.Rotary > 0 {
		q, k = b.rope(q), b.rope(k)
	}
	next = b.put(kept, k, v)
	y = Reshape(b.attend(q, next[0], next[1]), batch, tokens, queries)
	if gate != nil {
		y = Mul(y, Sigmoid(Reshape(gate, batch, tokens, queries)))
	}
	return b.linear(s, "o_proj", y, c.Hidden), next
}

// latent is attention over latents of keys and values (MLA). The latent-to-key projection is applied to the queries, and the latent-to-value projection
// after the sum. So the caches hold latents [batch, 1, capacity, rank] and the keys shared by all heads.
func (b *builder) latent(s *model.Scope, x *Node, kept []*Node) (y *Node, next []*Node) {
	c, l, g := b.c, b.c.Latent, x.Graph()
	batch, tokens := x.Shape().Dim(0), x.Shape().Dim(1)
	q := Reshape(b.linear(s, "q_proj", x, c.Heads*c.HeadDim), batch, tokens, c.Heads, c.HeadDim)
	both := b.linear(s, "kv_a_proj", x, l.Rank+l.Whole)
	latents := b.normed(SliceAxis(both, -1, AxisRange(0, l.Rank)), s, "kv_a_norm", 1e-6)
	next = b.put(kept, InsertAxes(latents, 2), InsertAxes(SliceAxis(both, -1, AxisRangeToEnd(l.Rank)), 2))
	w := Reshape(ConvertDType(b.weight(s, "kv_b_proj", g, c.Heads*(l.Key+l.Value), l.Rank), dtypes.Float32), c.Heads, l.Key+l.Value, l.Rank)
	toKeys, toValues := SliceAxis(w, 1, AxisRange(0, l.Key)), SliceAxis(w, 1, AxisRangeToEnd(l.Key))
	byLatent := DotGeneral(SliceAxis(q, -1, AxisRange(0, l.Key)), []int{3}, []int{2}, toKeys, []int{1}, []int{0}) // [heads, batch, tokens, rank]
	q = Concatenate([]*Node{TransposeAllAxes(byLatent, 1, 2, 0, 3), SliceAxis(q, -1, AxisRangeToEnd(l.Key))}, -1)
	sum := b.attend(q, Concatenate([]*Node{next[0], next[1]}, -1), next[0])                             // [batch, tokens, heads, rank]
	y = TransposeAllAxes(DotGeneral(sum, []int{3}, []int{2}, toValues, []int{2}, []int{0}), 1, 2, 0, 3) // [heads, batch, tokens, value] before
	return b.linear(s, "o_proj", Reshape(y, batch, tokens, c.Heads*l.Value), c.Hidden), next
}

// attend is causal attention: q is [batch, tokens, heads, width], keys and values
// [batch, key heads, capacity, width]. It returns [batch, tokens, heads, width of values].
func (b *builder) attend(q, keys, values *Node) *Node {
	g := q.Graph()
	batch, tokens, heads, few := q.Shape().Dim(0), q.Shape().Dim(1), q.Shape().Dim(2), keys.Shape().Dim(1)
	q = Reshape(q, batch, tokens, few, heads/few, -1)
	score := DotGeneral(q, []int{4}, []int{0, 2}, keys, []int{3}, []int{0, 1}) // [batch, key heads, tokens, group, capacity]
	score = MulScalar(score, 1/math.Sqrt(float64(b.c.HeadDim)))
	place := shapes.Make(dtypes.Int32, score.Shape().Dimensions...)
	seen := LessOrEqual(Iota(g, place, 4), Add(Iota(g, place, 2), BroadcastToDims(b.begin, place.Dimensions...)))
	score = Where(seen, score, FillScalar(g, score.Shape(), -1e30))
	y := DotGeneral(Softmax(score, -1), []int{4}, []int{0, 1}, values, []int{2}, []int{0, 1}) // [batch, key heads, tokens, group, width]
	return Reshape(TransposeAllAxes(y, 0, 2, 1, 3, 4), batch, tokens, heads, -1)
}

// rope rotates the first channels of each head of x [batch, tokens, heads, width] by the token's position.
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

// put writes keys and values [batch, tokens, heads, width] to their caches at this call's first token. Without caches it returns the tokens'
// keys and values.
func (b *builder) put(kept []*Node, keys, values *Node) []*Node {
	var next []*Node
	for i, x := range []*Node{keys, values} {
		x = TransposeAllAxes(x, 0, 2, 1, 3)
		if kept != nil {
			x = b.write(kept[i], x)
		}
		next = append(next, x)
	}
	return next
}

// write puts x [batch, heads, tokens, width] into a cache. Not every backend can write at a run-time index, so each row of the cache is selected by
// a product with ones and zeros, which is exact.
func (b *builder) write(cache, x *Node) *Node {
	g, capacity, tokens := x.Graph(), cache.Shape().Dim(2), x.Shape().Dim(2)
	if tokens > 1 {
		grid := shapes.Make(dtypes.Int32, capacity, tokens)
		hit := Equal(Iota(g, grid, 0), Add(Iota(g, grid, 1), BroadcastToDims(b.begin, capacity, tokens)))
		x = TransposeAllAxes(DotGeneral(ConvertDType(hit, x.DType()), []int{1}, nil, x, []int{2}, nil), 1, 2, 0, 3)
	} else {
		x = BroadcastToDims(x, cache.Shape().Dimensions...)
	}
	row := Iota(g, shapes.Make(dtypes.Int32, cache.Shape().Dimensions...), 2)
	first := BroadcastToDims(b.begin, cache.Shape().Dimensions...)
	return Where(LogicalAnd(GreaterOrEqual(row, first), LessThan(row, AddScalar(first, tokens))), x, cache)
}
