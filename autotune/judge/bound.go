package judge

import (
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/ir/target"
)

// beats is the cycles from which on a candidate can not be better than another: its score; or the bound of the objective, where the score
// within it is an error.
func (w *Work) beats(c *journal.Cost) int64 {
	if w.Objective.Meets(c) {
		return int64(w.most())
	}
	return c.Score
}

// Traffic is the weighed sum of the least scores of shapes by main memory: each input is read once, and each output written once, whatever the
// program.
func Traffic(shapes []Shape, t *target.Target) (sum float64) {
	for _, s := range shapes {
		sum += s.Weight * float64(measure.Score(0, 0, s.Spec, t))
	}
	return sum
}

// bound is the weighed sum of the least scores of the shapes. A program of its own is bound by its traffic alone.
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
