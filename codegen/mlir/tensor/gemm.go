package tensor

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// product32 is product by gonum. It sums in the same order, but skips terms whose left factor is zero; that is correct if all factors
// are finite.
func product32(r, x, y []float32, m, n, k int) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	if !finite(x) || !finite(y) {
		product(r, x, y, m, n, k)
		return
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
		blas32.General{Rows: m, Cols: k, Stride: k, Data: x}, blas32.General{Rows: k, Cols: n, Stride: n, Data: y},
		0, blas32.General{Rows: m, Cols: n, Stride: n, Data: r})
}

func finite(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}
