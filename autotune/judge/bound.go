package judge

import (
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/ir/target"
)

// beats returns the cycles that a new candidate must stay below to be better than c: its score; or the objective's
// bound, if c is within it and its score measures an error.
func (w *Work) beats(c *journal.Cost) int64 {
	if w.Objective.Meets(c) {
		return int64(w.most())
	}
	return c.Score
}

// Traffic returns a lower bound in cycles on t: for each shape, the bytes of its inputs and outputs, each moved once at
// t.HBM, times its weight, summed.
func Traffic(shapes []Shape, t *target.Target) (sum float64) {
	for _, s := range shapes {
		sum += s.Weight * float64(measure.Score(0, 0, s.Spec, t))
	}
	return sum
}

// bound returns the least possible score of the shapes, summed by weight. For the text of a program it is the traffic alone.
func (w *Work) bound(t *target.Target) int64 {
	if w.Text != "" {
		return int64(Traffic(w.Shapes, t))
	}
	var sum float64
	for _, s := range w.Shapes {
		sum += s.Weight * float64(measure.Least(s.Spec, w.Variant, t))
	}
	return int64(sum)
}
