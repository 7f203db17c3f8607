package vector

import "golang.org/x/sys/cpu"

var avx = cpu.X86.HasAVX

// columns is the number of float64 columns per AVX loop.
const columns = 16

func multiply(p *Panel, x, y []float32) {
	if !avx {
		multiplyLoop(p, x, y)
		return
	}
	multiplyAVX(&p[0], &x[0], &y[0], len(x)/PanelRows)
}

// decayedSum processes the columns in full blocks, and returns their number.
func decayedSum(sum, m, k []float64, decay float64) int {
	width := len(sum)
	done := blocks(width, len(k))
	if done > 0 {
		m = m[:len(k)*width]
	}
	for j := 0; j < done; j += columns {
		decayedSumAVX(&sum[j], &m[j], &k[0], len(k), width, decay)
	}
	return done
}

// updatedSum processes the columns in full blocks, and returns their number.
func updatedSum(sum, m, k, q, u []float64) int {
	width := len(sum)
	done := blocks(width, len(k))
	if done > 0 {
		m, q, u = m[:len(k)*width], q[:len(k)], u[:width]
	}
	for j := 0; j < done; j += columns {
		updatedSumAVX(&sum[j], &m[j], &k[0], &q[0], &u[j], len(k), width)
	}
	return done
}

// blocks returns the number of columns of a matrix for the AVX loops.
func blocks(width, rows int) int {
	if !avx || rows == 0 {
		return 0
	}
	return width / columns * columns
}

// multiplyAVX writes 4 x 16 products: x is [k, 4], y is [k, 16].
//
//go:noescape
func multiplyAVX(c, x, y *float32, k int)

// decayedSumAVX does 16 columns of DecayedSum; rows of m are stride elements apart.
//
//go:noescape
func decayedSumAVX(sum, m, k *float64, rows, stride int, decay float64)

// updatedSumAVX does 16 columns of UpdatedSum; rows of m are stride elements apart.
//
//go:noescape
func updatedSumAVX(sum, m, k, q, u *float64, rows, stride int)
