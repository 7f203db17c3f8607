//go:build !amd64

package vector

func multiply(p *Panel, x, y []float32) { multiplyLoop(p, x, y) }

// No AVX: no columns are done.
func decayedSum(sum, m, k []float64, decay float64) int { return 0 }
func updatedSum(sum, m, k, q, u []float64) int          { return 0 }
