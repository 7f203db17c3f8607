package model

import "fmt"

// attentionBlock is the block of queries and of keys, in tokens, and attentionDim the width of a head, that attentionCycles are for.
const attentionBlock, attentionDim = 1024, 128

// attentionCycles are the static cycles of the splash attention kernel of JAX 0.10.2 for one block of queries x keys of one head in bf16, forward
// and backward (fused, with its reductions), in blocks of 1024: those of 6 heads, 4096 tokens and no mask by libtpu 0.0.51, over 96 blocks.
var attentionCycles = map[string][2]float64{
	"v4":    {7280, 12475},
	"v5e":   {5582, 11246},
	"v6e":   {3503, 6119},
	"tpu7x": {3505, 6067},
}

// AttentionCycles is the cost of the core of causal attention in one layer: a public kernel, its blocks on or below the diagonal counted whole.
// Heads wider than 128 are counted as several.
func AttentionCycles(c Config, target string, backward bool) (float64, error) {
	per, ok := attentionCycles[target]
	if !ok {
		return 0, fmt.Errorf("model: the cost of attention on %s is not known: leave the target out, or set attention_every to 0", target)
	}
	blocks := float64((c.Tokens + attentionBlock - 1) / attentionBlock)
	wide := float64((c.Attention.Dim + attentionDim - 1) / attentionDim)
	cost := per[0]
	if backward {
		cost = per[1]
	}
	return float64(c.Batch*c.Attention.Heads) * wide * blocks * (blocks + 1) / 2 * cost, nil
}
