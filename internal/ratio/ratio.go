// Package ratio summarizes ratios of paired measurements.
package ratio

import (
	"math"
	"slices"
)

// Median returns the middle value, or the mean of the two middle ones. It panics on an empty list.
func Median(l []float64) float64 {
	s := slices.Sorted(slices.Values(l))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Interval returns a 95 % confidence interval of the median by ranks: the k-th smallest and largest value, by the binomial's two tails. Fewer
// than six values are too few: then it is their range. For eight values k is 1, since 2 (1/2)^8 is below 5 % and 2 (1+8) (1/2)^8 is not.
func Interval(l []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(l))
	n, k := len(s), 0
	term := math.Pow(.5, float64(n)) // C(n, k) / 2^n
	for tail := term; 2*tail <= .05 && k < n/2; tail += term {
		k++
		term *= float64(n-k+1) / float64(k)
	}
	k = max(0, k-1)
	return s[k], s[n-1-k]
}
