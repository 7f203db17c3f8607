package vector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// values are random, with a zero, an infinity and a NaN where there is room.
func values(r *rand.Rand, n int) []float64 {
	l := make([]float64, n)
	for i := range l {
		l[i] = r.NormFloat64()
	}
	for _, x := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), 5e-324} {
		if n > 40 && r.IntN(4) == 0 {
			l[r.IntN(n)] = x
		}
	}
	return l
}

// same reports whether two numbers are the same to the bit; of what is not a number the bits are of no account.
func same(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
}

// A panel is the sums in the order of the contracted index, to the bit.
func TestMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	narrow := func(l []float64) []float32 {
		out := make([]float32, len(l))
		for i, x := range l {
			out[i] = float32(x)
		}
		return out
	}
	for k := range 130 {
		x, y := narrow(values(r, k*PanelRows)), narrow(values(r, k*PanelColumns))
		var got, loop Panel
		got[3] = 7
		got.Multiply(x, y)
		multiplyLoop(&loop, x, y)
		for i := range PanelRows {
			for j := range PanelColumns {
				var sum float32
				for c := range k {
					sum += float32(x[c*PanelRows+i] * y[c*PanelColumns+j])
				}
				at := i*PanelColumns + j
				require.True(t, same(float64(sum), float64(got[at])), "k %d, (%d, %d): %v, want %v", k, i, j, got[at], sum)
				require.True(t, same(float64(sum), float64(loop[at])), "k %d, (%d, %d): %v, want %v", k, i, j, loop[at], sum)
			}
		}
	}
}

// Both sums and what they leave in the matrix are those of the plain loops, to the bit, whatever the width.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		rows, width := r.IntN(40), r.IntN(70)
		m, k, q, u := values(r, rows*width), values(r, rows), values(r, rows), values(r, width)
		decay := r.Float64()
		want := append([]float64{}, m...)
		first, second := make([]float64, width), make([]float64, width)
		for i := range rows {
			for j := range width {
				want[i*width+j] *= decay
				first[j] += float64(k[i] * want[i*width+j])
			}
		}
		for i := range rows {
			for j := range width {
				want[i*width+j] += float64(k[i] * u[j])
				second[j] += float64(q[i] * want[i*width+j])
			}
		}
		got, later := values(r, width), values(r, width)
		DecayedSum(got, m, k, decay)
		UpdatedSum(later, m, k, q, u)
		for _, pair := range [][2][]float64{{first, got}, {second, later}, {want, m}} {
			for i := range pair[0] {
				require.True(t, same(pair[0][i], pair[1][i]), "%d x %d at %d: %v, want %v", rows, width, i, pair[1][i], pair[0][i])
			}
		}
	}
}
