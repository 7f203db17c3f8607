package layer

import (
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/ml/context"
)

// Block is a block of a model around the layer, as Qwen3-Next has it:
//
//	y = x + layer(norm(x))
//	Block = y + down(silu(gate(norm(y))) * up(norm(y)))
//
// x is [batch, tokens, features], and so is what it gives. mlp is the width of gate and up, by which the features come in; set
// configures the layer, and may be nil. The variables stand in the scopes norm_gdn, gdn, norm_mlp, gate, up and down of ctx. It panics
// with an error where something does not fit.
func Block(ctx *context.Context, x *Node, mlp int, set func(*Builder)) *Node {
	b := inBlock(ctx, x, set)
	return feedForward(ctx, Add(x, b.Done()), mlp)
}

// BlockWithCache is Block, and what its layer is to remember for the tokens that follow; set continues after a cache by Builder.Cache.
func BlockWithCache(ctx *context.Context, x *Node, mlp int, set func(*Builder)) (*Node, *Cache) {
	y, cache := inBlock(ctx, x, set).DoneWithCache()
	return feedForward(ctx, Add(x, y), mlp), cache
}

// inBlock is the layer of a block, on a norm.
func inBlock(ctx *context.Context, x *Node, set func(*Builder)) *Builder {
	b := New(ctx.In("gdn"), RMSNorm(ctx.In("norm_gdn"), x))
	if set != nil {
		set(b)
	}
	return b
}

// feedForward is SwiGLU on a norm, with a residual.
func feedForward(ctx *context.Context, x *Node, width int) *Node {
	n := RMSNorm(ctx.In("norm_mlp"), x)
	gate, up := Linear(ctx.In("gate"), n, width), Linear(ctx.In("up"), n, width)
	return Add(x, Linear(ctx.In("down"), Mul(Mul(gate, Sigmoid(gate)), up), x.Shape().Dim(-1)))
}
