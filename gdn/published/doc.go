// Package published reads the config.json of published models: which layers of them mix tokens by a rule of this project, and everything
// that changes the numbers of such a layer. The layer for GoMLX and the models of tune, mfu and profile both read by it.
//
//	c, err := published.Read(data)   // Qwen3-Next, Qwen3.5, OLMo-hybrid, Kimi Linear, Kimi-K3, GLM-5, and two of flash-linear-attention
//
// A type of model that is not in the table, and a value of a field that no layer here computes, are errors that name what is known.
package published
