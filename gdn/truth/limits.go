package truth

import (
	"fmt"
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// limits bound errors for each precision of the matrix products.
type limits struct{ f32, bf16x3, bf16x1 float64 }

// The limits follow the largest errors of float32 and of emulated low-precision runs of the chunkwise form: merge from 16 leaves by substitution; chunks
// of 64 and 128, K = V = 128, 512 and 2048 tokens, four seeds; chunks of 16 and 32, K = V = 16, 32 tokens, six seeds; with and without an initial state:
//
//	            f32     bf16x3  bf16x1
//	realistic   6.1e-7  1.7e-5  7.3e-3
//	adversarial 1.3e-6  5.4e-5  1.9e-2
//	u01nodecay  2.3e-6  4.9e-5  1.8e-2
//	cancelling  7.2e-6  1.4e-4  3.6e-2  outputs of nearly identical keys are a small remainder of what cancels
//	reflecting  8.1e-6  7.4e-4  7.6e-2  beta beyond 1 turns the sign of the state at each token
//
// Power series over a whole chunk exceed them by orders of magnitude.
var (
	realistic   = limits{1e-6, 2e-5, 1e-2}
	adversarial = limits{3e-6, 3e-4, 4e-2}
	cancelling  = limits{1.5e-5, 3e-4, 4e-2}
	reflecting  = limits{1.6e-5, 1.5e-3, .15}
)

// Limit returns the bound of the relative error at a precision of the matrix products (f32, bf16x6, bf16x3, bf16x1), plus the rounding of an output of
// type out. Another precision is an error.
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

// Error returns the error of output p and its limit. For forward outputs it is the largest error over the largest magnitude of the reference. For gradients
// it is rms(error) over rms(reference), as is common. If a reference is zero in a training step, as dv and dk for beta = 0, it is the absolute error. Two
// gradients may be remainders after cancellation and use a larger divisor: of the decay (remainderSize) and of A_log (channelSize).
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
		if s.Rule.SplitGates() { // whose size does not depend on the state
			partner = map[string]string{"dbeta": "dwrite", "db": "dw"}[partner]
		}
		own := want[p.Name].Float64s()
		var terms float64
		if s.Rule.Writes() {
			terms = rms(want[partner].Float64s())
		} else { // v . dv replaces the gradient of beta, for values of size 1
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

// Copied is the limit of the error of a convolution cache, relative to its largest element. A cache copies inputs, so only rounding noise of
// the comparison is allowed.
const Copied = 0x1p-40

// remainderSize returns the divisor for errors of the decay's gradient when it is a remainder after cancellation. size is the gradient's own rms, terms the
// rms of the gradient of beta (or of the write gate).
//
// If one key overwrites the whole state, the gradient is the bf16 rounding of 1 - |k|^2: at most 2^-8 of the cancelling terms, which are as large as the
// gradient of beta. Its error comes from rounding these terms, summed over the later tokens. So the divisor is terms x sqrt(tokens), and the allowed
// error at most one term. For larger gradients the divisor falls by the square of size, and from about 2^-4 of terms on the own size is used.
// In all classes dg is either above .06 or below .004 of dbeta.
//
// Example: for 80 tokens of one key dg is 7e-4 of dbeta; float32 is off by 4e-6 of dbeta, and 9e-5 is allowed.
// Example: 80 tokens of one key have 7e-4 of the gradient of beta; float32 is off by 4e-6 of it and may be by 9e-5.
func remainderSize(s gdn.Spec, limit, size, terms float64) float64 {
	share := 1.0
	if size > terms/256 {
		share = math.Pow(terms/256/size, 2)
	}
	return min(math.Sqrt(float64(s.Tokens)), 1/limit) * terms * share
}

// channelSize returns the typical size of dA_log for per-channel decays, ignoring signs; dBias is ddt_bias [Hv, K].
//
// There dA_log sums ddt_bias over the channels, with factors mostly above 1. The terms have both signs and may nearly cancel by chance, while their rounding
// errors do not. So the error is related to the root of the sum of squares, the average size of such a sum.
//
// Example: 128 channels of size .3 give 3.4. With one seed of cos.75 the sums are -.44 and .20, and one bf16 pass is off by .016; with
// other seeds they are 1.4 to 3, and it is off by .004 to .010.
func channelSize(s gdn.Spec, dBias []float64) float64 { return math.Sqrt(float64(s.K)) * rms(dBias) }

func rms(l []float64) float64 {
	sum := 0.0
	for _, x := range l {
		sum += x * x
	}
	return math.Sqrt(sum / float64(max(len(l), 1)))
}

// gradientLimit bounds rms ratios of gradients on realistic and on adversarial inputs.
type gradientLimit struct{ realistic, adversarial float64 }

// In bf16x1, realistic inputs use the limits of flash-linear-attention (FieldLimit), the same for every class. The limit on correlated keys
// comes from measurement, as for the forward pass.
var gradientLimits = map[string]gradientLimit{
	"f32": {1e-5, 1e-5}, "bf16x6": {1e-5, 1e-5}, "bf16x3": {5e-5, 5e-4}, "bf16x1": {math.Inf(1), 8e-2},
}

// FieldLimit returns flash-linear-attention's limit on rms(error) / rms(reference) of a low-precision gradient, for all inputs.
func FieldLimit(p gdn.Param) float64 {
	switch p.Name {
	case "dq", "dk", "dv", "dinitial_state":
		return 8e-3
	}
	return 2e-2
}

// GradientLimit returns the bound on rms(error) / rms(reference) of gradient p. An unknown precision is an error.
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
