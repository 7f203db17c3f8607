package main

import (
	"fmt"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	mlcontext "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/layers"

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
func (z size) model(ctx *mlcontext.Context, x *Node, caches []*layer.Cache, remember bool) (logits *Node, next []*layer.Cache) {
	h := layers.Embedding(ctx.In("embed"), x, dtypes.Float32, z.symbols, z.width)
	for i := range z.blocks {
		set := func(b *layer.Builder) {
			b.With(z.config()).InitGain(1)
			if caches != nil {
				b.Cache(caches[i])
			}
		}
		ctx := ctx.In(fmt.Sprintf("block_%d", i))
		if !remember {
			h = layer.Block(ctx, h, 2*z.width, set)
			continue
		}
		var k *layer.Cache
		h, k = layer.BlockWithCache(ctx, h, 2*z.width, set)
		next = append(next, k)
	}
	return layer.Linear(ctx.In("logits"), layer.RMSNorm(ctx.In("norm"), h), z.symbols), next
}
