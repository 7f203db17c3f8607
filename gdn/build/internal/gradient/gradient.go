// Package gradient takes chunks of tokens backwards, from the last to the first, tiles in and tiles out.
package gradient

import (
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/ir"
)

// BetaFloor keeps the logarithm of beta and the division by it finite; everything that beta multiplies stays in its column.
const BetaFloor = 1e-20

// Step takes chunks backwards in the body of a grid step.
type Step struct {
	chunkwise.Rule
	State *ir.Value // [batch x heads, K, V] f32: dS, the gradient of the state after a chunk, and once that is taken of the state before it
	Loads Loads
}

// Loads bring what the forward pass had of a chunk, each where it is first needed: instructions stand in the order in which they are made. What
// the forward pass did not keep is nil, and made again.
type Loads struct {
	State   func() *ir.Value                 // S before the chunk
	Inverse func() *ir.Value                 // T^T
	Written func() *ir.Value                 // U, or W where nothing is rounded (Step.Exact)
	Values  func() *ir.Value                 // V as it lies
	Weighed func(values *ir.Value) *ir.Value // V in float32, times the write gate of a rule that has one
}

// Gradients are those of a chunk, [N, C, .] or [N, C].
type Gradients struct {
	Q, K, V     *ir.Value
	Decay, Beta *ir.Value // of the log decay, and of beta; nil where the rule has none
	Reads       *ir.Value // of a rule that erases and writes apart: that of b K
}
