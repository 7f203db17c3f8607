package pjrt

import (
	"fmt"
	"time"
)

// BenchOptions says how a program is measured: like a benchmark of kernels, with the arguments copied anew for each execution
// and, with Flush, out of the caches.
type BenchOptions struct {
	Warmup     int           // executions before the first timed one
	Iterations int           // timed executions; at least 1
	Limit      time.Duration // ends the iterations early, but not before LeastIterations, and the warm-up at half of it; 0: no limit
	Flush      *Program      // executed before each timed execution; see FlushModule
}

// LeastIterations are timed even where the first of them exceeds the limit.
const LeastIterations = 3

func (o BenchOptions) check() error {
	if o.Warmup < 0 || o.Iterations < 1 || o.Limit < 0 {
		return fmt.Errorf("pjrt: warm-up %d and limit %v must not be negative, iterations %d at least 1", o.Warmup, o.Limit, o.Iterations)
	}
	return nil
}

// FlushModule is a program without arguments that writes as many bytes: executed between two executions of another it leaves
// nothing of the first in caches of half the size.
func FlushModule(bytes int) string {
	n := max(1, bytes/4)
	return fmt.Sprintf("module @flush {\n  func.func @main() -> tensor<%[1]dxf32> {\n    %%0 = stablehlo.iota dim = 0 : tensor<%[1]dxf32>\n    return %%0 : tensor<%[1]dxf32>\n  }\n}\n", n)
}

// Mean is the mean of all trials.
func (t Timing) Mean() time.Duration {
	var sum time.Duration
	for _, d := range t.All {
		sum += d
	}
	return sum / time.Duration(max(1, len(t.All)))
}
