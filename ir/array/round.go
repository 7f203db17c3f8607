package array

import (
	"math"

	"github.com/gdngen/gdngen/ir"
)

// RoundBF16 rounds to the nearest bfloat16, ties to even; NaN stays NaN.
func RoundBF16(x float32) float32 { return bf16Value(bf16Bits(x)) }

// RoundF16 rounds to the nearest IEEE half, ties to even; NaN stays NaN, magnitudes of 65520 and more become infinite.
func RoundF16(x float32) float32 { return f16Value(f16Bits(x)) }

func bf16Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func bf16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40 // a quiet NaN, whatever bits are cut off
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func f16Value(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24, exact
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

func f16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 2^16 and above
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: let the addition of 0.5 round at 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0xfff + b>>13&1 // may carry into the exponent, up to infinity
	return sign | uint16((b-112<<23)>>13)
}

// roundToOdd returns the float32 next to x whose last bit is one, or x itself if it is a float32. Rounding the result
// to a type of at most 22 significant bits gives the same as rounding x.
func roundToOdd(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		b--
	}
	return math.Float32frombits(b | 1)
}

// oddFloat64 is float64(x) rounded to odd, for a later rounding to a narrower type.
func oddFloat64(x int64) float64 {
	const exact, low = 1 << 53, 1<<11 - 1
	if (x > exact || x < -exact) && x&low != 0 {
		x = x&^low | (low + 1)
	}
	return float64(x)
}

// intBounds returns the smallest and largest value of an integer type.
func intBounds(d ir.DType) (lo, hi int64) {
	switch d {
	case ir.I32:
		return math.MinInt32, math.MaxInt32
	case ir.U32:
		return 0, math.MaxUint32
	case ir.U16:
		return 0, math.MaxUint16
	}
	return math.MinInt64, math.MaxInt64
}

// truncate rounds x toward zero and saturates; NaN gives 0.
func truncate(x float64, lo, hi int64) int64 {
	switch {
	case x != x:
		return 0
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}
