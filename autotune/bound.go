package autotune

import (
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/measure"
)

// beats is the cycles from which on a candidate can not be better than another: its score; or the bound of the objective, where the score
// within it is an error.
func (w *Work) beats(c *journal.Cost) int64 {
	if w.Objective.Meets(c) {
		return int64(w.most())
	}
	return c.Score
}

// bound is the weighed sum of the least scores of the shapes. A program of its own is bound by its traffic alone.
func (w *Work) bound(t *codegen.Target) int64 {
	var sum float64
	for _, s := range w.Shapes {
		b := measure.Score(0, 0, s.Spec, t)
		if w.Text == "" {
			b = measure.Least(s.Spec, w.Variant, t)
		}
		sum += s.Weight * float64(b)
	}
	return int64(sum)
}
