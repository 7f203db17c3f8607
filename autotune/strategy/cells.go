package strategy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// An option's score is reduced by handicap times its cell's distance from the best (a logarithm), and by perCell for
// each better cell.
const (
	handicap = 2
	perCell  = .03
)

// tie weighs the random order drawn from the seed. It is below any difference between two expectations with different
// reasons.
const tie = 1e-3

func hot(c *journal.Candidate, target string) string {
	if k := c.Cost(target); k != nil && len(k.Stages) > 0 {
		return strings.Join(k.Hot(), " and ")
	}
	return "not known"
}

// opened returns the choices of axes that apply to w but not to v.
func opened(s Space, v, w gdn.Variant) (l []option) {
	for _, a := range gdn.Axes {
		if a.Applies == nil || a.Applies(v) || !a.Applies(w) || !s.walks(a.Name) {
			continue
		}
		for _, value := range a.Values {
			if x, err := w.With(a.Name, value); err == nil && x != w && s.admits(x) {
				l = append(l, option{v: x, moves: []Move{{a.Name, value}}})
			}
		}
	}
	return l
}

// steps returns the values of an axis that are one move from v: the neighbours if values are numbers, else all.
func steps(a gdn.Axis, v gdn.Variant) []string {
	i := slices.Index(a.Values, a.Get(&v))
	if i < 0 || len(a.Values) < 4 || !a.Number() {
		return a.Values
	}
	var l []string
	for _, j := range []int{i - 1, i + 1} {
		if j >= 0 && j < len(a.Values) {
			l = append(l, a.Values[j])
		}
	}
	if a.Values[0] == "0" && i > 1 { // 0 means none or all
		l = append(l, "0")
	}
	return l
}

// leftover proposes two random moves at once when no single one is left.
func leftover(s Space, parents []*journal.Candidate, tried func(gdn.Variant) bool) *Proposal {
	const draws = 200
	for i := range draws {
		e := parents[i%len(parents)]
		v, err := gdn.ParseVariant(e.Variant)
		if err != nil {
			continue
		}
		if w, ok := mutate(s, v, 2, draw(s.Seed, "pairs", i, v)); ok && !tried(w) && s.admits(w) {
			return propose([]option{{v: w, parent: e, moves: changed(v, w), gain: priorGain / 4, risk: .3}}, "no single change of the best cells is left: two at once")
		}
	}
	return nil
}

// champions returns the best candidate of each of the best n cells, best first, by its mean over the targets of score
// relative to the best score there.
func champions(judged journal.View, n int) []*journal.Candidate {
	type scored struct {
		c    *journal.Candidate
		loss float64
	}
	targets := judged.Header().Targets
	ideal := &journal.Candidate{}
	for _, t := range targets {
		if c := judged.Champion(t); c != nil {
			ideal.Costs = append(ideal.Costs, *c.Cost(t))
		}
	}
	best := map[string]scored{}
	for _, c := range judged.Candidates() {
		if !c.Verdict.Ranked() || c.Variant == "" {
			continue
		}
		d, _ := loss(targets, c, ideal)
		s := scored{c, d}
		if had, ok := best[c.Cell]; !ok || s.loss < had.loss {
			best[c.Cell] = s
		}
	}
	all := make([]scored, 0, len(best))
	for _, s := range best {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y scored) int { return cmp.Or(cmp.Compare(x.loss, y.loss), cmp.Compare(x.c.ID, y.c.ID)) })
	l := make([]*journal.Candidate, min(n, len(all)))
	for i := range l {
		l[i] = all[i].c
	}
	return l
}
