package pjrt

import (
	"fmt"
	"time"
)

// BenchOptions says how Bench measures a program: like a kernel benchmark, with fresh copies of the arguments for each execution and,
// with Flush, with cold caches.
type BenchOptions struct {
	Warmup     int           // executions before the first timed one
	Iterations int           // timed executions; at least 1
	Limit      time.Duration // ends the iterations early, but not before LeastIterations, and the warm-up after half of it; 0: no limit
	Flush      *Flush        // runs before each timed execution; nil: caches stay warm
}

// LeastIterations is the number of executions that are timed even if they exceed the limit.
const LeastIterations = 3

func (o BenchOptions) check() error {
	if o.Warmup < 0 || o.Iterations < 1 || o.Limit < 0 {
		return fmt.Errorf("pjrt: warm-up %d and limit %v must not be negative, iterations %d at least 1", o.Warmup, o.Limit, o.Iterations)
	}
	return nil
}

// flushModule returns a program that reads and writes so many bytes in place.
func flushModule(bytes int) string {
	t := fmt.Sprintf("tensor<%dxf32>", max(1, bytes/4))
	return fmt.Sprintf("module @flush {\n  func.func public @main(%%x: %[1]s {tf.aliasing_output = 0 : i32}) -> (%[1]s) {\n    %%0 = stablehlo.negate %%x : %[1]s\n    return %%0 : %[1]s\n  }\n}\n", t)
}

// Mean returns the mean of all trials; 0 without trials.
func (t Timing) Mean() time.Duration {
	var sum time.Duration
	for _, d := range t.All {
		sum += d
	}
	return sum / time.Duration(max(1, len(t.All)))
}
