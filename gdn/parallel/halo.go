package parallel

import (
	"fmt"

	"github.com/gdngen/gdngen/ir"
)

// Convolution has the sizes of the short convolution before the rule: each channel of x [B, T, channels] by its own taps, then SiLU, all in
// float32.
type Convolution struct{ Batch, Tokens, Channels, Taps int }

// BuildConvolution returns the module of the convolution of one part. Forward inputs: x; halo [B, taps-1, channels], the last inputs of the previous part or
// zeros; taps [taps, channels], the current token's last. Results: y, and next, the halo of the next part. Backward (back) has two more inputs: dy, and
// dnext, which is dhalo of the next part, or zeros for the last one. Results: dx, dhalo, and dtaps, to be summed over the parts.
func BuildConvolution(c Convolution, back bool) (*ir.Module, error) {
	n := c.Taps - 1
	if c.Taps < 2 || c.Tokens < n || c.Batch < 1 || c.Channels < 1 {
		return nil, fmt.Errorf("parallel: a convolution of %d taps over parts of %d tokens: want at least 2 taps, and parts of taps-1 tokens", c.Taps, c.Tokens)
	}
	m, b := ir.NewModule("convolution")
	b.Stage("convolution")
	tokens := ir.T(ir.F32, c.Batch, c.Tokens, c.Channels)
	edge := ir.T(ir.F32, c.Batch, n, c.Channels)
	x, halo, taps := b.Param("x", tokens), b.Param("halo", edge), b.Param("taps", ir.T(ir.F32, c.Taps, c.Channels))
	all := b.Concat(1, halo, x)
	tap := func(j int) *ir.Value {
		return b.Broadcast(b.Reshape(b.SliceAxis(taps, 0, j, j+1), c.Channels), tokens.Shape, 2)
	}
	seen := func(j int) *ir.Value { return b.SliceAxis(all, 1, j, j+c.Tokens) } // inputs of tap j
	var sum *ir.Value
	for j := range c.Taps {
		term := b.Mul(seen(j), tap(j))
		if sum == nil {
			sum = term
		} else {
			sum = b.Add(sum, term)
		}
	}
	sigmoid := b.Unary(ir.OpLogistic, sum)
	if !back {
		return m, b.Finish(m, []string{"y", "next"}, []*ir.Value{b.Mul(sum, sigmoid), b.SliceAxis(x, 1, c.Tokens-n, c.Tokens)})
	}
	dy, dnext := b.Param("dy", tokens), b.Param("dnext", edge)
	// The slope of silu is sigmoid (1 + x (1 - sigmoid)).
	slope := b.Mul(sigmoid, b.Add(b.Like(sum, 1), b.Mul(sum, b.Sub(b.Like(sum, 1), sigmoid))))
	ds := b.Mul(dy, slope)
	dall := b.Pad(dnext, 0, []int{0, c.Tokens, 0}, []int{0, 0, 0})
	var dtaps []*ir.Value
	for j := range c.Taps {
		dall = b.Add(dall, b.Pad(b.Mul(ds, tap(j)), 0, []int{0, j, 0}, []int{0, n - j, 0}))
		dtaps = append(dtaps, b.Reshape(b.Sum(b.Mul(ds, seen(j)), 0, 1), 1, c.Channels))
	}
	return m, b.Finish(m, []string{"dx", "dhalo", "dtaps"},
		[]*ir.Value{b.SliceAxis(dall, 1, n, n+c.Tokens), b.SliceAxis(dall, 1, 0, n), b.Concat(0, dtaps...)})
}
