package main

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gdngen/gdngen/gdn/layer"
)

// size is that of a model.
type size struct {
	symbols, width, blocks, heads, dim int
}

func (z size) config() layer.Config {
	return layer.Config{Hidden: z.width, HeadsK: z.heads, HeadsV: z.heads, KeyDim: z.dim, ValueDim: z.dim, ConvWidth: 4, NormEps: 1e-6}
}

// model gives the logits of the next symbol for x, int32 [batch, tokens, 1]: blocks of a Gated DeltaNet layer and a gated
// feed-forward layer, each on a norm and with a residual. Caches, one a block, may be nil; remember asks for those after x.
func (z size) model(scope *model.Scope, x *Node, caches []*layer.Cache, remember bool) (logits *Node, next []*layer.Cache) {
	h := layers.Embedding(scope.In("embed"), x, dtypes.Float32, z.symbols, z.width)
	for i := range z.blocks {
		set := func(b *layer.Builder) {
			b.With(z.config()).InitGain(1)
			if caches != nil {
				b.Cache(caches[i])
			}
		}
		scope := scope.In("block_%d", i)
		if !remember {
			h = layer.Block(scope, h, 2*z.width, set)
			continue
		}
		var k *layer.Cache
		h, k = layer.BlockWithCache(scope, h, 2*z.width, set)
		next = append(next, k)
	}
	return layer.Linear(scope.In("logits"), layer.RMSNorm(scope.In("norm"), h), z.symbols), next
}
