package autotune

import (
	"math"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
)

// hbmCycles is the time, in core cycles, that some main memory traffic takes at least.
func hbmCycles(bytes int64, t *codegen.Target) int64 {
	return int64(float64(bytes) / t.HBM * t.Clock)
}

// bound is a score that no program of the variant can be below: the necessary traffic, and for the chunkwise form its
// matrix products on full matrix units in single passes, the inverse left out. Products computed once for several value
// heads count once, so the bound holds for every variant of the same chunk.
func bound(s gdn.Spec, v gdn.Variant, t *codegen.Target) int64 {
	low := hbmCycles(s.NecessaryBytes(), t)
	if f := v.Fit(s); f.Algo == gdn.AlgoChunk {
		perCycle := 2 * float64(t.MXUs) * float64(t.MXUSize) * float64(t.MXUSize)
		low = max(low, int64(math.Floor(s.Flops(f.Chunk)/perCycle)))
	}
	return low
}
