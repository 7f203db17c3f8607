package ratio

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Equal(t, 2., Median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, Median([]float64{4, 1, 3, 2}))
}

func TestInterval(t *testing.T) {
	low, high := Interval([]float64{3, 1, 2})
	require.Equal(t, [2]float64{1, 3}, [2]float64{low, high})
	var l []float64
	for i := range 20 {
		l = append(l, float64(i))
	}
	low, high = Interval(l) // P(X <= 5) = .0207, P(X <= 6) = .0577
	require.Equal(t, [2]float64{5, 14}, [2]float64{low, high})
}
