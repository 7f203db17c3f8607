package array

import (
	"fmt"
	"math"
	"slices"
)

// Stats is the difference of two arrays. If they cannot be compared (NaN is set), the three figures are
// NaN, so that a test of the form x <= tolerance fails.
type Stats struct {
	MaxAbs     float64 // largest |got - want|
	Ratio      float64 // rms(got - want) / rms(want); 0 when both are zero, +Inf when only want is
	RelMax     float64 // MaxAbs / max |want|, with the same convention
	NaN        bool    // a NaN in either, an infinity in only one of them, or different shapes
	WorstIndex int     // flat index of MaxAbs or of the first NaN or infinity; -1 for no element or different shapes
}

// String returns one line for a report.
func (s Stats) String() string {
	if s.NaN {
		if s.WorstIndex < 0 {
			return "shapes differ"
		}
		return fmt.Sprintf("not finite at element %d", s.WorstIndex)
	}
	return fmt.Sprintf("ratio %.3g, max abs %.3g, max rel %.3g at element %d", s.Ratio, s.MaxAbs, s.RelMax, s.WorstIndex)
}

// Compare returns the difference of got from want, computed in float64 for all element types.
func Compare(got, want *Array) Stats {
	incomparable := Stats{MaxAbs: math.NaN(), Ratio: math.NaN(), RelMax: math.NaN(), NaN: true, WorstIndex: -1}
	if !slices.Equal(got.Shape, want.Shape) {
		return incomparable
	}
	s := Stats{WorstIndex: -1}
	var errSquares, wantSquares, maxWant float64
	g, w := got.Float64s(), want.Float64s()
	for i := range w {
		if g[i] == w[i] && math.IsInf(w[i], 0) {
			continue
		}
		d := math.Abs(g[i] - w[i])
		if math.IsNaN(d) || math.IsInf(d, 0) {
			incomparable.WorstIndex = i
			return incomparable
		}
		if d > s.MaxAbs || s.WorstIndex < 0 {
			s.MaxAbs, s.WorstIndex = d, i
		}
		maxWant = max(maxWant, math.Abs(w[i]))
		errSquares += d * d
		wantSquares += w[i] * w[i]
	}
	s.Ratio = relative(math.Sqrt(errSquares), math.Sqrt(wantSquares))
	s.RelMax = relative(s.MaxAbs, maxWant)
	return s
}

func relative(err, size float64) float64 {
	if err == 0 {
		return 0
	}
	return err / size
}
