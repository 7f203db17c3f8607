package truth

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// limits are the bounds at each precision of the matrix products.
type limits struct{ f32, bf16x3, bf16x1 float64 }

// The limits are set from the largest errors of float32 and of emulated low-precision runs of the chunkwise form (merge from
// a 16 leaf by substitution; chunks of 64 and 128, K = V = 128, 512 and 2048 tokens, four seeds; chunks of 16 and 32,
// K = V = 16, 32 tokens, six seeds; each with and without an initial state):
//
//	            f32     bf16x3  bf16x1
//	realistic   6.1e-7  1.7e-5  7.3e-3
//	adversarial 1.3e-6  5.4e-5  1.9e-2
//	u01nodecay  2.3e-6  4.9e-5  1.8e-2
//	cancelling  7.2e-6  1.4e-4  3.6e-2  outputs of nearly identical keys are a small remainder of what cancels
//	reflecting  8.1e-6  7.4e-4  7.6e-2  beta beyond 1 turns the sign of the state at each token
//
// Power series across a chunk miss them by orders of magnitude.
var (
	realistic   = limits{1e-6, 2e-5, 1e-2}
	adversarial = limits{3e-6, 3e-4, 4e-2}
	cancelling  = limits{1.5e-5, 3e-4, 4e-2}
	reflecting  = limits{1.6e-5, 1.5e-3, .15}
)

// Limit is the bound for a spec at a precision of the matrix products (f32, bf16x6, bf16x3, bf16x1), for an output of the
// given element type: the error of computing plus that of rounding the output once.
func (c Class) Limit(s gdn.Spec, precision string, out ir.DType) (float64, error) {
	byPrecision := map[string]float64{"f32": c.limits.f32, "bf16x6": c.limits.f32, "bf16x3": c.limits.bf16x3, "bf16x1": c.limits.bf16x1}
	limit, ok := byPrecision[precision]
	if !ok {
		return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x6 bf16x3 bf16x1)", precision)
	}
	if c.doubles && s.NegEigval {
		limit *= 2
	}
	return limit + map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11}[out], nil
}

// Error is how far an output of the spec is off, and the limit: for the outputs of the forward pass the largest error over
// the largest magnitude, for gradients the root mean square of the error over that of the reference, as in the field. What is
// zero throughout in a training step, as the gradients of v and k are where beta is, may be as large as the floor of beta makes it.
// The gradient of the decay may be a remainder of what cancels (remainderSize), that of A_log of what channels have (channelSize).
func (c Class) Error(s gdn.Spec, precision string, p gdn.Param, got, want map[string]*array.Array) (off, limit float64, err error) {
	if limit, err = c.Limit(s, precision, p.Type.DType); err != nil {
		return 0, 0, err
	}
	diff := array.Compare(got[p.Name], want[p.Name])
	if gdn.IsConvState(p.Name) {
		return diff.RelMax, Copied, nil
	}
	if s.Direction != gdn.Forward && diff.MaxAbs < 1e-15 {
		return diff.MaxAbs, limit, nil
	}
	if s.IsResult(p.Name) {
		return diff.RelMax, limit, nil
	}
	limit, err = c.GradientLimit(s, precision, p)
	if partner, ok := map[string]string{"dg": "dbeta", "da": "db", "ddt_bias": "db", "dA_log": "db"}[p.Name]; ok {
		if s.Rule.SplitGates() { // its size does not depend on what the state holds
			partner = map[string]string{"dbeta": "dwrite", "db": "dw"}[partner]
		}
		own := want[p.Name].Float64s()
		var terms float64
		if s.Rule.Writes() {
			terms = rms(want[partner].Float64s())
		} else { // v . dv stands for the gradient of a beta, of values of size 1
			terms = math.Sqrt(float64(s.V)) * rms(want["dv"].Float64s())
		}
		size := rms(own)
		if p.Name == "dA_log" && s.Rule.Channels() {
			size = max(size, channelSize(s, want["ddt_bias"].Float64s()))
		}
		for i, x := range got[p.Name].Float64s() {
			own[i] -= x
		}
		return rms(own) / max(size, remainderSize(s, limit, size, terms)), limit, err
	}
	return diff.Ratio, limit, err
}

// Copied is the largest error of a cache of the convolution, relative to its largest element: it holds inputs
// unchanged.
const Copied = 0x1p-40

// remainderSize is what an error of the gradient of the decay is measured by where that is only a remainder; size is its own, terms that of
// the gradient of beta.
//
// Where one key overwrites all that the state has, the gradient is what bf16 leaves of 1 - |k|^2, at most 2^-8 of the terms that cancel, which
// are as large as the gradient of beta, or of the write gate. The error is from rounding these terms, summed over the tokens that follow. So it is measured by
// them, times the root of the number of tokens, and may be at most as large as one of them. Above 2^-8 this falls by the square: from some 2^-4 on
// the gradient's own size counts, and nothing is granted. Of all classes dg has more than .06 of dbeta, or less than .004.
//
// Example: 80 tokens of one key have 7e-4 of the gradient of beta; float32 is off by 4e-6 of it and may be by 9e-5.
func remainderSize(s gdn.Spec, limit, size, terms float64) float64 {
	share := 1.0
	if size > terms/256 {
		share = math.Pow(terms/256/size, 2)
	}
	return min(math.Sqrt(float64(s.Tokens)), 1/limit) * terms * share
}

// channelSize is what the channels of a head amount to in dA_log, whatever their signs; dBias is [Hv, K].
//
// Where each channel has a decay, dA_log sums over them what ddt_bias holds of each, by factors that are mostly above 1. They have either
// sign: by chance little is left of them, and what rounding did to each is beyond any share of it. The root of the sum of
// squares is what such a sum is on average.
//
// Example: heads of 128 channels of .3 amount to 3.4. With one seed of cos.75 they leave -.44 and .20, and one pass is off by .016; with
// others they leave 1.4 to 3, and it is off by .004 to .010.
func channelSize(s gdn.Spec, dBias []float64) float64 { return math.Sqrt(float64(s.K)) * rms(dBias) }

func rms(l []float64) float64 {
	sum := 0.0
	for _, x := range l {
		sum += x * x
	}
	return math.Sqrt(sum / float64(max(len(l), 1)))
}

// gradientLimit bounds the ratio of gradients at a precision, on realistic and on adversarial inputs.
type gradientLimit struct{ realistic, adversarial float64 }

// In bf16x1 realistic inputs are held to the limits of flash-linear-attention, which do not depend on the class; what
// correlated keys cost in single bf16 products is bounded by measurement, as for the forward pass.
var gradientLimits = map[string]gradientLimit{
	"f32": {1e-5, 1e-5}, "bf16x6": {1e-5, 1e-5}, "bf16x3": {5e-5, 5e-4}, "bf16x1": {math.Inf(1), 8e-2},
}

// FieldLimit is the limit of flash-linear-attention on the ratio of a gradient in low precision, whatever the inputs.
func FieldLimit(p gdn.Param) float64 {
	switch p.Name {
	case "dq", "dk", "dv", "dinitial_state":
		return 8e-3
	}
	return 2e-2
}

// GradientLimit is the bound on the ratio of a gradient.
func (c Class) GradientLimit(s gdn.Spec, precision string, p gdn.Param) (float64, error) {
	l, ok := gradientLimits[precision]
	if !ok {
		return 0, fmt.Errorf("unknown precision %q (known: f32 bf16x6 bf16x3 bf16x1)", precision)
	}
	limit := min(l.realistic, FieldLimit(p))
	if c.Adversarial {
		limit = l.adversarial
	}
	if s.NegEigval && (c.doubles || c.Beyond) {
		limit *= 2
	}
	if precision != "bf16x1" {
		limit += map[ir.DType]float64{ir.BF16: 0x1p-8, ir.F16: 0x1p-11}[p.Type.DType]
	}
	return limit, nil
}
