// Package lm is whole language models in GoMLX, of layers of Gated DeltaNet or Kimi Delta Attention and of attention: Qwen3-Next, Qwen3.5,
// OLMo-hybrid and Kimi Linear, by the config.json and the safetensors files of their folders.
//
//	m, err := lm.Open(backend, "qwen3.5-0.8b", dtypes.Float32)
//	s := m.Session()
//	logits, err := s.Step([][]int32{prompt})      // in as many pieces as one likes
//	tokens, err := s.Generate(64)                 // greedy, from the last logits
//	other := s.Fork()                             // goes on from here by itself; going back is going on with a fork
//
// Rules:
//
//  1. Matrices stay as files have them, [out, in], and may be held in bfloat16. What is computed is float32.
//  2. A call of T tokens equals T calls of one token, up to rounding.
//  3. The cache of keys and values grows by doubling: each size is a program of its own.
//  4. What a model has that is not computed here is refused by the name of its field.
package lm
