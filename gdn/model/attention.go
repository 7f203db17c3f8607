package model

import (
	"fmt"

	"github.com/gdngen/gdngen/ir/target"
)

// attentionBlock is the number of queries and of keys of a block, and attentionDim the head width, of target.Attention.
const attentionBlock, attentionDim = 1024, 128

// AttentionCycles returns the cycles of causal attention in one layer, without projections: a public kernel's cost per block (target.Attention) times the
// blocks on or below the diagonal, counted whole. Heads wider than 128 count as several.
func AttentionCycles(c Config, t *target.Target, backward bool) (float64, error) {
	if t.Attention == (target.Attention{}) {
		return 0, fmt.Errorf("model: the cost of attention on %s is not known: leave the target out, or set attention_every to 0", t.Name)
	}
	blocks := float64((c.Tokens + attentionBlock - 1) / attentionBlock)
	wide := float64((c.Attention.Dim + attentionDim - 1) / attentionDim)
	cost := t.Attention.Forward
	if backward {
		cost = t.Attention.Backward
	}
	return float64(c.Batch*c.Attention.Heads) * wide * blocks * (blocks + 1) / 2 * cost, nil
}
