package report

import (
	"math"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Member is one candidate of the portfolio.
type Member struct {
	Row
	Targets []string       `json:"targets"` // targets to use it on
	Ratios  journal.Figure `json:"worst"`   // its largest ratio to the best on these targets
}

// portfolio returns the smallest set of candidates that contains, for every target, one within a share of the best.
func portfolio(v journal.View) []Member {
	members, use := v.Portfolio(journal.PortfolioWithin)
	var l []Member
	for _, c := range members {
		m := Member{Row: row(c, nil)}
		for _, t := range v.Header().Targets {
			if use[t] == c {
				m.Targets = append(m.Targets, t)
				best := math.Inf(1)
				for _, x := range v.Candidates() {
					if cost := x.Cost(t); cost != nil && x.Verdict.Ranked() {
						best = min(best, float64(cost.Score))
					}
				}
				m.Ratios = max(m.Ratios, journal.Figure(float64(c.Cost(t).Score)/best))
			}
		}
		l = append(l, m)
	}
	return l
}

// AxisFact summarizes a run's information about one axis.
type AxisFact struct {
	Axis   string      `json:"axis"`
	Moves  int         `json:"moves"`  // candidates that differ from their parent only in this axis
	Same   int         `json:"same"`   // those with the program or the schedule of another candidate
	Dead   bool        `json:"dead"`   // moved, but it never changed a schedule
	Values []ValueFact `json:"values"` // values of candidates with a cost, in the order of the axis
}

// ValueFact summarizes a run's information about one value of an axis.
type ValueFact struct {
	Value string         `json:"value"`
	Count int            `json:"count"` // ranked candidates with it
	Best  journal.Figure `json:"best"`  // least score per token and value head on the first target
	ID    int            `json:"id"`    // the candidate with it
}

// deadAfter is the number of moves without effect that make an axis dead.
const deadAfter = 2

// axisFacts collects the facts of all axes that have any.
func axisFacts(v journal.View) []AxisFact {
	target := v.Header().Targets[0]
	var l []AxisFact
	for _, a := range gdn.Axes {
		f := AxisFact{Axis: a.Name}
		values := map[string]*ValueFact{}
		for _, c := range v.Candidates() {
			x, err := gdn.ParseVariant(c.Variant)
			if err != nil || c.Variant == "" {
				continue
			}
			if parent := v.Candidate(c.Parent); parent != nil && len(c.Change) == 1 && changes(c.Change[0], a.Name) {
				f.Moves++
				if c.Verdict == journal.Duplicate {
					f.Same++
				}
			}
			cost := c.Cost(target)
			if cost == nil || !c.Verdict.Ranked() || a.Applies != nil && !a.Applies(x) || a.Name == "prec" {
				continue
			}
			value := a.Get(&x)
			if values[value] == nil {
				values[value] = &ValueFact{Value: value}
			}
			w := values[value]
			w.Count++
			if w.ID == 0 || cost.PerToken < w.Best {
				w.Best, w.ID = cost.PerToken, c.ID
			}
		}
		for _, value := range a.Values {
			if values[value] != nil {
				f.Values = append(f.Values, *values[value])
			}
		}
		f.Dead = f.Moves >= deadAfter && f.Same == f.Moves
		if f.Moves > 0 || len(f.Values) > 1 {
			l = append(l, f)
		}
	}
	return l
}

func changes(move, axis string) bool {
	return len(move) > len(axis) && move[:len(axis)] == axis && move[len(axis)] == '='
}

// pair returns the two axes of which most pairs of values have a candidate near the best; of equals, those whose pairs differ most.
func pair(v journal.View, facts []AxisFact) (x, y string) {
	type values struct{ x, y string }
	target := v.Header().Targets[0]
	champion := v.Champion(target)
	if champion == nil {
		return "", ""
	}
	near := pale * float64(champion.Cost(target).Score)
	var variants []gdn.Variant
	var scores []float64
	for _, c := range v.Candidates() {
		w, err := gdn.ParseVariant(c.Variant)
		if cost := c.Cost(target); err == nil && c.Variant != "" && cost != nil && c.Verdict.Ranked() && float64(cost.Score) <= near {
			variants, scores = append(variants, w), append(scores, float64(cost.Score))
		}
	}
	most, spread := 0, 0.
	for i, f := range facts {
		for _, g := range facts[i+1:] {
			a, errA := gdn.LookupAxis(f.Axis)
			b, errB := gdn.LookupAxis(g.Axis)
			if errA != nil || errB != nil || len(f.Values) < 2 || len(g.Values) < 2 {
				continue
			}
			best := map[values]float64{}
			for k, w := range variants {
				at := values{a.Get(&w), b.Get(&w)}
				if had, ok := best[at]; !ok || scores[k] < had {
					best[at] = scores[k]
				}
			}
			hi := 0.
			for _, score := range best {
				hi = max(hi, score)
			}
			if len(best) > most || len(best) == most && hi > spread {
				most, spread, x, y = len(best), hi, f.Axis, g.Axis
			}
		}
	}
	return x, y
}

// Point is a candidate of a run in a curve.
type Point struct {
	ID        int
	Iteration int
	Seconds   float64 // of drivers at work
	Score     float64 // per token and value head
	Best      float64 // of all so far
	Verdict   journal.Verdict
}

// curve returns the scores of the ranked candidates on a target, and the best so far.
func curve(s *journal.State, target string) []Point {
	times := s.Times()
	var l []Point
	iteration, best, seconds := 0, math.Inf(1), 0.
	for i, c := range s.Now().Candidates() {
		if !c.Scalar {
			iteration++
		}
		if i > 0 { // without pauses of the run
			seconds += min(max(0, times[i].At.Sub(times[i-1].At).Seconds()), 600)
		}
		if cost := c.Cost(target); cost != nil && cost.PerToken > 0 && c.Verdict.Ranked() {
			best = min(best, float64(cost.PerToken))
			l = append(l, Point{c.ID, iteration, seconds, float64(cost.PerToken), best, c.Verdict})
		}
	}
	return l
}

// seedOf returns the candidate that champions are compared with: the first with a cost on the target.
func seedOf(v journal.View, target string) *journal.Candidate {
	for _, c := range v.Candidates() {
		if c.Cost(target) != nil && c.Verdict.Ranked() {
			return c
		}
	}
	return nil
}
