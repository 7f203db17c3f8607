// Package published reads the config.json of published models: which layers use a rule of this project, and every field that
// affects the numbers of such a layer. The GoMLX layer and the models of tune, mfu and profile all use it.
//
//	c, err := published.Read(data)   // Qwen3-Next, Qwen3.5, OLMo-hybrid, Kimi Linear, Kimi-K3, GLM-5, and two of flash-linear-attention
//
// Unknown model types, and field values that no layer here supports, are errors that list the supported ones.
package published
