package judge

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam/accuracy"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// most is the objective's bound on the cycles of all shapes.
func (w *Work) most() float64 {
	var tokens float64
	for _, s := range w.Shapes {
		tokens += s.Weight * float64(s.Spec.Work())
	}
	return w.Objective.Most * tokens
}

// score ranks candidates within the bound if the objective minimizes errors: bound x e / (1 + e), with e the error
// relative to flash-linear-attention's. So a score above the bound counts cycles, a score below it measures error, and
// less is better in both. Example: with a bound of 1000 cycles, errors of 1 and 3 times flash-linear-attention's have
// scores of 500 and 750, and a cost of 1200 cycles has 1200.
func score(bound, e float64) int64 { return max(1, int64(math.Round(bound*e/(1+e)))) }

// accuracy measures errors by class of inputs, as in docs/accuracy.md, of candidates near the best, if the objective
// asks for it. It follows the costs, since it takes longer than the accuracy test with one seed.
func (l *Lab) accuracy(_ context.Context, w *Work) (*Refusal, error) {
	if w.Objective == (objective.Objective{}) {
		return nil, nil
	}
	if w.Text != "" {
		return Refuse(journal.Invalid, "the text of a program is of one size, and objective %s asks for errors at others: give a variant", w.Objective), nil
	}
	if w.Objective.Class != gdn.AccuracyAny {
		if v, _, err := w.Known.Rank(w.Record); err != nil || v == journal.Worse {
			return nil, err
		}
	} else if !slices.ContainsFunc(w.Record.Costs, func(c journal.Cost) bool { return w.Objective.Meets(&c) }) {
		return nil, nil
	}
	worst, r, err := w.columns()
	if r != nil || err != nil {
		return r, err
	}
	for i := range w.Record.Costs {
		if c := &w.Record.Costs[i]; w.Objective.Meets(c) {
			c.Score = score(w.most(), worst)
		}
	}
	return nil, nil
}

// columns records the errors on each short column, against the limit of the class, or flash-linear-attention's error if there is no class.
// worst is the largest error relative to flash-linear-attention's. The refusal names the output farthest beyond its limit.
func (w *Work) columns() (worst float64, r *Refusal, err error) {
	kernels := map[gdn.Spec]*ir.Module{}
	beyond := 1.
	for _, c := range accuracy.Short() {
		s := c.Spec()
		m := kernels[s]
		if m == nil {
			if m, err = route.NewForm(s, w.Variant).Kernels(); err != nil {
				return 0, Refuse(journal.Invalid, "its errors can not be measured on %s: %v", s, err), nil
			}
			kernels[s] = m
		}
		e, err := c.Measure(func(_ gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) {
			return interp.Run(m, in, interp.Options{})
		})
		if err != nil {
			return 0, nil, err
		}
		peer, ok := accuracy.Of(accuracy.FLA, c.Name)
		if !ok {
			return 0, nil, fmt.Errorf("no errors of %s on %s are known", accuracy.FLA, c.Name)
		}
		worst = max(worst, e.Worst(peer))
		limit := peer
		if w.Objective.Class != gdn.AccuracyAny {
			if limit, err = c.Limit(w.Objective.Class); err != nil {
				return 0, nil, err
			}
		}
		x := journal.ClassError{Class: c.Name, Engine: journal.EngineAccuracy, Output: "o", Kind: "rms", Error: journal.Figure(e.O), Limit: journal.Figure(limit.O)}
		if e.State/limit.State > e.O/limit.O {
			x.Output, x.Error, x.Limit = "final_state", journal.Figure(e.State), journal.Figure(limit.State)
		}
		w.Record.Errors = append(w.Record.Errors, x)
		if use := float64(x.Error / x.Limit); w.Objective.Class != gdn.AccuracyAny && !(use <= beyond) {
			beyond = use
			r = Refuse(journal.Numerics, "%s is off by %.2g (rms) on %s, class %s allows %.2g (docs/accuracy.md)", x.Output, x.Error, c.Doc, w.Objective.Class, x.Limit)
		}
	}
	return worst, r, nil
}
