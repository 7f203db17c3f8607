package autotune

import (
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
)

// hbmCycles is the time, in core cycles, that some main memory traffic takes at least.
func hbmCycles(bytes int64, t *codegen.Target) int64 {
	return int64(float64(bytes) / t.HBM * t.Clock)
}

// What the vector unit of every target does in a cycle at most: float32 operations.
const vectorRate = 4 * 8 * 128

// bound is the weighed sum of the bounds of the shapes. A program of its own is bound by its traffic alone.
func (w *Work) bound(t *codegen.Target) int64 {
	var sum float64
	for _, s := range w.Shapes {
		b := hbmCycles(s.Spec.NecessaryBytes(), t)
		if w.Text == "" {
			b = bound(s.Spec, w.Variant, t)
		}
		sum += s.Weight * float64(b)
	}
	return int64(sum)
}

// bound is a score that no program of the variant can be below: the necessary traffic, and the arithmetic.
//
// For the chunkwise form that is its matrix products on full matrix units in single passes, the inverse left out. Products
// computed once for several value heads count once, so it holds for every variant of the same chunk. For the token
// recurrence it is the decay and the update of each element of the float32 state at each token, which no matrix unit does.
func bound(s gdn.Spec, v gdn.Variant, t *codegen.Target) int64 {
	f := v.Fit(s)
	work := s.Flops(f.Chunk) / t.PeakFlops()
	if f.Algo == gdn.AlgoToken {
		work = 2 * float64(s.Batch) * float64(s.Tokens) * float64(s.HeadsV) * float64(s.K) * float64(s.V) / vectorRate
	}
	return max(hbmCycles(s.NecessaryBytes(), t), int64(work))
}
