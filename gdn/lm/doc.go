// Package lm runs whole language models in GoMLX, with layers of Gated DeltaNet or Kimi Delta Attention and of attention: Qwen3-Next, Qwen3.5,
// OLMo-hybrid and Kimi Linear, from the config.json and safetensors files in their folders.
//
//	m, err := lm.Open(backend, "qwen3.5-0.8b", dtypes.Float32)
//	s := m.Session()
//	logits, err := s.Step([][]int32{prompt})      // in as many pieces as one likes
//	tokens, err := s.Generate(64)                 // greedy, from the last logits
//	other := s.Fork()                             // goes on from here by itself; going back is going on with a fork
//
// Rules:
//
//  1. Matrices stay in the files' layout, [out, in], and may be held in bfloat16. Computation is float32.
//  2. A call of T tokens equals T calls of one token, up to rounding.
//  3. The cache of keys and values grows by doubling: each size has its own program.
//  4. Unsupported features of a model are refused by the name of their field.
package lm
