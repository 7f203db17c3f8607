package journal

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// CloseWithin is how close to the best, as a ratio of scores, a candidate is close.
const CloseWithin = 1.1

// CloseText is CloseWithin as text: "within 10 %".
var CloseText = fmt.Sprintf("within %.0f %%", 100*(CloseWithin-1))

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

// Rank judges a correct candidate with costs against those in view: improved, close or worse, and the reason. A candidate
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
			return Improved, "the first on " + t, nil
		}
		had := best.Cost(t).Score
		switch why := v.s.Header.succeeds(c, best, t); why {
		case "":
			return Improved, fmt.Sprintf("%.2f %% below candidate %d on %s", 100*(1-float64(cost.Score)/float64(had)), best.ID, t), nil
		case notCheaper:
		default:
			guarded = fmt.Sprintf("%.2f %% below candidate %d on %s, but %s", 100*(1-float64(cost.Score)/float64(had)), best.ID, t, why)
		}
		if r := float64(cost.Score) / float64(had); verdict == "" || r < ratio {
			verdict, ratio = Worse, r
			reason = fmt.Sprintf("%.2f x candidate %d on %s, its best target", r, best.ID, t)
		}
	}
	switch {
	case verdict == "":
		return "", "", fmt.Errorf("candidate %d has no cost on any target", c.ID)
	case guarded != "":
		return Close, guarded, nil
	case ratio <= CloseWithin:
		return Close, reason, nil
	}
	return Worse, reason, nil
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
	members = leastCover(v.reachers(targets, within), uint(1)<<len(targets)-1)
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

// reacher is a candidate that is near the best of some targets.
type reacher struct {
	*Candidate
	reach uint    // bit i for target i
	ratio float64 // product of its ratios to the best of these
}

// reachers are the candidates that are within a share of the best of some targets: of those that reach the same targets the one with
// the least ratio. They come in the order of what they reach.
func (v View) reachers(targets []string, within float64) (list []reacher) {
	best := map[uint]reacher{}
	for _, c := range v.Candidates() {
		if !c.Verdict.Ranked() {
			continue
		}
		r := reacher{c, 0, 1}
		for i, t := range targets {
			cost := c.Cost(t)
			if cost == nil {
				continue
			}
			if ratio := float64(cost.Score) / float64(v.least(t)); ratio <= 1+within {
				r.reach |= 1 << i
				r.ratio *= ratio
			}
		}
		if had, ok := best[r.reach]; r.reach != 0 && (!ok || r.ratio < had.ratio) {
			best[r.reach] = r
		}
	}
	for _, reach := range slices.Sorted(maps.Keys(best)) {
		list = append(list, best[reach])
	}
	return list
}

// leastCover is the smallest set that together reaches all targets, bits of full; of equal sets the one with the least product of ratios.
func leastCover(list []reacher, full uint) (members []*Candidate) {
	for size := 1; size <= bits.OnesCount(full) && members == nil; size++ {
		least := math.Inf(1)
		var pick func(from int, chosen []*Candidate, reach uint, ratio float64)
		pick = func(from int, chosen []*Candidate, reach uint, ratio float64) {
			if len(chosen) < size {
				for i, r := range list[from:] {
					pick(from+i+1, append(slices.Clone(chosen), r.Candidate), reach|r.reach, ratio*r.ratio)
				}
				return
			}
			if reach == full && ratio < least {
				members, least = chosen, ratio
			}
		}
		pick(0, nil, 0, 1)
	}
	return members
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
