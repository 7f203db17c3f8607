package journal

import (
	"fmt"
	"maps"
	"slices"
)

// HoldWithin is how close to the best, as a ratio of scores, a candidate is held.
const HoldWithin = 1.1

// notCheaper is what succeeds says of a candidate that is not cheaper than the champion.
const notCheaper = "not cheaper"

// succeeds says why c does not become the champion of a target after best, nil for none; empty where it does. It must be
// cheaper there, and on guarded targets no worse than best by more than the guard allows.
func (h *Header) succeeds(c, best *Candidate, target string) string {
	cost := c.Cost(target)
	if cost == nil {
		return "without a cost"
	}
	if best == nil {
		return ""
	}
	if cost.Score >= best.Cost(target).Score {
		return notCheaper
	}
	for _, g := range slices.Sorted(maps.Keys(h.Guards)) {
		had := best.Cost(g)
		switch now := c.Cost(g); {
		case g == target || had == nil:
		case now == nil:
			return fmt.Sprintf("no cost on the guarded target %s", g)
		case float64(now.Score) > float64(had.Score)*(1+float64(h.Guards[g])):
			return fmt.Sprintf("%.2f %% above candidate %d on the guarded target %s, %.2g %% is allowed", 100*(float64(now.Score)/float64(had.Score)-1), best.ID, g,
				100*float64(h.Guards[g]))
		}
	}
	return ""
}

// Rank judges a correct candidate with costs against those in view: keep, hold or slower, and the reason. A candidate
// without any cost has no rank.
func (v View) Rank(c *Candidate) (Verdict, string, error) {
	verdict, reason, ratio := Verdict(""), "", 0.0
	guarded := ""
	for _, t := range v.s.Header.Targets {
		cost := c.Cost(t)
		if cost == nil {
			continue
		}
		best := v.Champion(t)
		if best == nil {
			return Keep, "the first on " + t, nil
		}
		had := best.Cost(t).Score
		switch why := v.s.Header.succeeds(c, best, t); why {
		case "":
			return Keep, fmt.Sprintf("%.2f %% below candidate %d on %s", 100*(1-float64(cost.Score)/float64(had)), best.ID, t), nil
		case notCheaper:
		default:
			guarded = fmt.Sprintf("%.2f %% below candidate %d on %s, but %s", 100*(1-float64(cost.Score)/float64(had)), best.ID, t, why)
		}
		if r := float64(cost.Score) / float64(had); verdict == "" || r < ratio {
			verdict, ratio = Slower, r
			reason = fmt.Sprintf("%.2f x candidate %d on %s, its best target", r, best.ID, t)
		}
	}
	switch {
	case verdict == "":
		return "", "", fmt.Errorf("candidate %d has no cost on any target", c.ID)
	case guarded != "":
		return Hold, guarded, nil
	case ratio <= HoldWithin:
		return Hold, reason, nil
	}
	return Slower, reason, nil
}

// PortfolioWithin is how far from the best of every target the members of a portfolio stay.
const PortfolioWithin = .03

// Portfolio is the smallest set of candidates of which, on every target, one is within a share of the best there; of equal
// sets the one with the least product of ratios. Targets without any cost are left out. It lists for each target the member to use.
func (v View) Portfolio(within float64) (members []*Candidate, use map[string]*Candidate) {
	var targets []string
	for _, t := range v.s.Header.Targets {
		if v.Champion(t) != nil {
			targets = append(targets, t)
		}
	}
	// Of candidates that reach the same targets, the best by ratio is enough.
	best := map[uint]*Candidate{}
	total := map[uint]float64{}
	for _, c := range v.Candidates() {
		if !c.Verdict.Ranked() {
			continue
		}
		var reach uint
		sum := 1.0
		for i, t := range targets {
			if cost := c.Cost(t); cost != nil {
				if r := float64(cost.Score) / float64(v.least(t)); r <= 1+within {
					reach |= 1 << i
					sum *= r
				}
			}
		}
		if had, ok := total[reach]; reach != 0 && (!ok || sum < had) {
			best[reach], total[reach] = c, sum
		}
	}
	reaches := slices.Sorted(maps.Keys(best))
	full := uint(1)<<len(targets) - 1
	for size := 1; size <= len(targets) && members == nil; size++ {
		least := 0.0
		var pick func(from int, chosen []uint, covered uint, cost float64)
		pick = func(from int, chosen []uint, covered uint, cost float64) {
			if len(chosen) == size {
				if covered == full && (members == nil || cost < least) {
					members, least = nil, cost
					for _, r := range chosen {
						members = append(members, best[r])
					}
				}
				return
			}
			for i := from; i < len(reaches); i++ {
				pick(i+1, append(slices.Clone(chosen), reaches[i]), covered|reaches[i], cost*total[reaches[i]])
			}
		}
		pick(0, nil, 0, 1)
	}
	slices.SortFunc(members, func(x, y *Candidate) int { return x.ID - y.ID })
	use = map[string]*Candidate{}
	for _, t := range targets {
		for _, c := range members {
			if cost := c.Cost(t); cost != nil && (use[t] == nil || cost.Score < use[t].Cost(t).Score) {
				use[t] = c
			}
		}
	}
	return members, use
}

// least is the lowest score on a target, guards left aside.
func (v View) least(target string) int64 {
	var least int64
	for _, c := range v.Candidates() {
		if cost := c.Cost(target); cost != nil && c.Verdict.Ranked() && (least == 0 || cost.Score < least) {
			least = cost.Score
		}
	}
	return least
}
