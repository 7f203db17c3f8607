package layer

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Block adds a decoder block around the layer, as in Qwen3-Next:
//
//	y = x + layer(norm(x))
//	Block = y + down(silu(gate(norm(y))) * up(norm(y)))
//
// x and the result are [batch, tokens, features]. mlp is the width of gate and up; set
// configures the layer, and may be nil. The variables are in the scopes norm_gdn, gdn, norm_mlp, gate, up and down of scope. It panics
// with an error for invalid sizes or options.
func Block(scope *model.Scope, x *Node, mlp int, set func(*Builder)) *Node {
	b := inBlock(scope, x, set)
	return feedForward(scope, Add(x, b.Done()), mlp)
}

// BlockWithCache is Block, and also returns the cache for later tokens; set continues from a cache by Builder.Cache.
func BlockWithCache(scope *model.Scope, x *Node, mlp int, set func(*Builder)) (*Node, *Cache) {
	y, cache := inBlock(scope, x, set).DoneWithCache()
	return feedForward(scope, Add(x, y), mlp), cache
}

// inBlock returns the layer of a block, applied to norm(x).
func inBlock(scope *model.Scope, x *Node, set func(*Builder)) *Builder {
	b := New(scope.In("gdn"), RMSNorm(scope.In("norm_gdn"), x))
	if set != nil {
		set(b)
	}
	return b
}

// feedForward returns x plus SwiGLU of norm(x).
func feedForward(scope *model.Scope, x *Node, width int) *Node {
	n := RMSNorm(scope.In("norm_mlp"), x)
	gate, up := Linear(scope.In("gate"), n, width), Linear(scope.In("up"), n, width)
	return Add(x, Linear(scope.In("down"), Mul(Mul(gate, Sigmoid(gate)), up), x.Shape().Dim(-1)))
}
