// Package layer is Gated DeltaNet for GoMLX, and Kimi Delta Attention: the gated delta rule as an operation with a gradient, and the whole
// layers of Qwen3-Next, Qwen3.5 and Kimi Linear with their caches and weights.
//
//	y := layer.New(scope.In("gdn"), x).Heads(4, 8).HeadDims(64, 64).Done()              // training
//	y := layer.New(scope.In("kda"), x).Heads(4, 4).HeadDims(64, 64).KDA(64, -5).Done()  // a decay a channel
//	y, cache := layer.New(scope.In("gdn"), x).With(cfg).Cache(cache).DoneWithCache()    // prompts in pieces, decoding
//	o, state := layer.Rule(q, k, v, g, beta).InitialState(s).DoneWithState()            // the rule alone
//	_, err := layer.Load(scope.In("gdn"), weights, "model.layers.0.linear_attn.", cfg, dtypes.BFloat16)
//
// Rules:
//
//  1. The rule is implemented once, in package gdn/build: its forward and backward modules become graph code by a table
//     over the ops (package irgraph), or go into the graph as generated programs (package kernels). So every
//     variant that computes a spec computes it here too.
//  2. Gradients come from the generated backward module, on every backend. GoMLX never differentiates the rule itself.
//  3. x is float32 or bfloat16. Gates, the state, the inverse within a chunk and norms are float32 always.
//  4. A call with a cache and T tokens equals T calls of one token, up to rounding.
//  5. Errors name the wrong tensor and the expected shape. Functions that build graphs panic with
//     the error, as GoMLX's do, and Exec returns it.
//
// Gated Delta Networks: Improving Mamba2 with Delta Rule, https://arxiv.org/abs/2412.06464. Kimi Linear, https://arxiv.org/abs/2510.26692.
package layer
