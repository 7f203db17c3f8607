package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/objective"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Grounds are the settings of a run that its costs depend on.
type Grounds struct {
	Shapes    []Shape
	Targets   []*target.Target
	Objective objective.Objective
}

// Grounds returns the settings of the candidate's run.
func (w *Work) Grounds() Grounds { return Grounds{w.Shapes, w.Targets, w.Objective} }

// Faults lists the costs of a candidate that contradict its record or its stored schedules. It recomputes the score,
// the score per token and the cycles of HBM traffic. object returns the stored object of a role, or nil.
func (g Grounds) Faults(c *journal.Candidate, object func(role string) []byte) (faults []string) {
	for i := range c.Costs {
		cost := &c.Costs[i]
		if cost.Verdict != "" {
			continue
		}
		fault := g.fault(cost)
		if fault == "" {
			fault = g.counted(cost, object)
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("cost on %s: %s", cost.Target, fault))
		}
	}
	return faults
}

// fault checks a cost against its own fields.
func (g Grounds) fault(c *journal.Cost) string {
	for name, x := range map[string]int64{"cycles": c.Cycles, "in-order": c.Wall, "hbm": c.HBM, "spills": c.Spills, "stall": c.Stall, "calls": c.Calls} {
		if x < 0 {
			return fmt.Sprintf("%s %d", name, x)
		}
	}
	if c.Score <= 0 {
		return fmt.Sprintf("score %d", c.Score)
	}
	score, least := float64(c.Score), float64(max(c.Took(), c.HBM))
	var tokens, weighed float64
	for i, s := range g.Shapes {
		tokens += s.Weight * float64(s.Spec.Work())
		if i < len(c.Shapes) {
			weighed += s.Weight * float64(c.Shapes[i].Score)
		}
	}
	erring := g.Objective != (objective.Objective{}) && g.Objective.Meets(c) // then the score measures an error
	several := len(c.Shapes) == len(g.Shapes) && len(g.Shapes) > 1
	switch {
	case c.RulerName() == ruler.Modelled && c.Score != c.Cycles:
		return fmt.Sprintf("score %d, and its cycles are %d", c.Score, c.Cycles)
	case erring:
	case c.RulerName() != ruler.Modelled && !several && score != least:
		return fmt.Sprintf("score %d, and the larger of its cycles and of HBM is %.0f", c.Score, least)
	case several && math.Abs(score-weighed) > float64(len(g.Shapes)):
		return fmt.Sprintf("score %d, and its shapes weigh %.0f", c.Score, weighed)
	case several && c.RulerName() != ruler.Modelled && score < least-1:
		return fmt.Sprintf("score %d, and the larger of its cycles and of HBM is %.0f", c.Score, least)
	}
	if per := float64(c.PerToken) * tokens; !erring && !(math.Abs(per-score) <= 1+1e-6*score) {
		return fmt.Sprintf("%v cycles a token, and score %d over %.0f tokens and heads is %.6g", c.PerToken, c.Score, tokens, score/tokens)
	}
	return ""
}

// counted checks a cost against the stored schedules of its shapes. If a schedule is missing it returns "".
func (g Grounds) counted(c *journal.Cost, object func(role string) []byte) string {
	var t *target.Target
	for _, x := range g.Targets {
		if x.Name == c.Target {
			t = x
		}
	}
	if t == nil || object == nil {
		return ""
	}
	var cycles, wall, hbm float64
	for i, s := range g.Shapes {
		text := object(role("schedule/"+c.Target, i))
		if text == nil {
			return ""
		}
		r := new(llo.Report)
		if err := json.Unmarshal(text, r); err != nil {
			return "its schedule can not be read: " + firstLines(err.Error())
		}
		cycles += s.Weight * float64(r.Cycles)
		wall += s.Weight * float64(max(0, r.Wall.Cycles))
		hbm += s.Weight * float64(measure.Score(0, r.HBMBytes, s.Spec, t))
		if schedule := c.Schedule; len(g.Shapes) == 1 && r.Schedule != schedule {
			return fmt.Sprintf("schedule %s, and the one that is kept is %s", schedule, r.Schedule)
		}
	}
	for _, x := range []struct {
		name    string
		was, is float64
	}{{"cycles", float64(c.Cycles), cycles}, {"in-order", float64(c.Wall), wall}, {"hbm", float64(c.HBM), hbm}} {
		if math.Abs(x.was-x.is) > 1 {
			return fmt.Sprintf("%s %.0f, and its schedule says %.0f", x.name, x.was, x.is)
		}
	}
	return ""
}

// Confirmer is an evaluator that judges a candidate a second time before it counts as the best.
type Confirmer interface {
	// Confirm judges a candidate once more, as it was proposed, on another machine if there is one. An error names the difference.
	Confirm(ctx context.Context, proposed, judged *Work) error
}
