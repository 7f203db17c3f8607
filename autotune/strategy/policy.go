package strategy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// PolicyVersion is the version of the rules that all strategies share: the order of seeds, the fallback if all seeds
// are refused, and escalation. A change of any strategy's proposals raises it.
const PolicyVersion = 3

// policy wraps a strategy. It proposes the seeds, handles refused seeds, and restricts the strategy to cells without a
// candidate while the search escalates.
type policy struct {
	space Space
	inner inner
	given map[string]bool // seeds, by fitted text
	seeds map[string]bool // the same, and those in reserve
}

// inner is a strategy that a policy wraps.
type inner interface {
	// choose returns a proposal that is neither judged nor pending, nor closed by the policy, or nil if it has none.
	choose(ctx context.Context, k *knowledge) *Proposal
	Close() error
}

// knowledge is the input of a proposal.
type knowledge struct {
	journal.View
	pending    []gdn.Variant
	escalation *Escalation
	known      func(fitted gdn.Variant, text string) bool // judged or pending
	visited    map[string]bool                            // cells that are closed; nil: none
	spec       gdn.Spec
}

// tried reports whether a variant is judged, pending or closed.
func (k *knowledge) tried(v gdn.Variant) bool {
	v = v.Fit(k.spec)
	return k.known(v, v.String()) || k.closed(v)
}

// closed reports whether the search wants another cell than the fitted variant's.
func (k *knowledge) closed(fitted gdn.Variant) bool {
	return k.visited != nil && k.visited[fitted.Cell()]
}

func newPolicy(s Space, i inner) *policy {
	texts := func(seeds []Seed) map[string]bool {
		m := map[string]bool{}
		for _, seed := range seeds {
			m[s.focus(seed.Variant).Fit(s.Spec).String()] = true
		}
		return m
	}
	return &policy{space: s, inner: i, given: texts(s.Seeds), seeds: texts(slices.Concat(s.Seeds, s.Reserve))}
}

func (p *policy) Close() error { return p.inner.Close() }

func (p *policy) Next(ctx context.Context, judged journal.View, pending []string) *Proposal {
	var under []gdn.Variant
	for _, text := range pending {
		if v, err := gdn.ParseVariant(text); err == nil {
			under = append(under, v)
		}
	}
	x := p.next(ctx, judged, under)
	if x != nil && x.IsVariant() {
		x.Text = TextOf(x.Variant, p.space.Spec)
	}
	return x
}

// next is Next with the pending variants.
func (p *policy) next(ctx context.Context, judged journal.View, pending []gdn.Variant) *Proposal {
	k := &knowledge{View: judged, pending: pending, known: p.space.known(judged, pending), spec: p.space.Spec}
	if x := p.space.first(p.space.Seeds, k.tried); x != nil {
		return x
	}
	if _, outside := p.inner.(*proposer); outside {
		k.escalation = p.escalation(judged, judged.Len()+len(pending)+1)
		x := p.inner.choose(ctx, k)
		if x != nil {
			x.Escalated = k.escalation != nil
		}
		return x
	}
	if e := p.escalation(judged, judged.Len()+len(pending)+1); e != nil {
		k.escalation, k.visited = e, p.cells(judged, pending)
		if x := p.inner.choose(ctx, k); x != nil {
			x.Escalated = true
			x.Hypothesis = fmt.Sprintf("%s, so a cell that nobody has visited: %s", e, x.Hypothesis)
			return x
		}
		k.escalation, k.visited = nil, nil // no such cell is left
	}
	if x := p.inner.choose(ctx, k); x != nil {
		return x
	}
	return p.lead(k)
}

// cells returns the cells of the judged or pending candidates.
func (p *policy) cells(judged journal.View, pending []gdn.Variant) map[string]bool {
	m := map[string]bool{}
	for _, c := range judged.Candidates() {
		m[c.Cell] = true
	}
	for _, v := range pending {
		m[v.Fit(p.space.Spec).Cell()] = true
	}
	return m
}

// A search escalates if the best gain of stalledAfter structural iterations is less than stalledGain of the cycles, for
// escalateFor proposals.
const (
	stalledAfter = 4
	stalledGain  = .03
	escalateFor  = 4
)

// Escalation says that a search stagnates: its last structural iterations gained little, and the hot spots did not
// change. The next proposals must be of cells without a candidate.
type Escalation struct {
	Since int            `json:"since"` // the last of those iterations
	Gain  journal.Figure `json:"gain"`  // the best among them, as a share of the cycles
	Hot   []string       `json:"hot"`   // the stages with most cycles, before and after
}

func (e *Escalation) String() string {
	hot := "the hot spots are the same"
	if len(e.Hot) > 0 {
		hot += " (" + strings.Join(e.Hot, " and ") + ")"
	}
	return fmt.Sprintf("the best gain of the last %d structural iterations is %.1f %%, and %s", stalledAfter, 100*float64(e.Gain), hot)
}

// escalation returns the escalation for candidate id; nil if the search does not escalate. Two kinds of candidates do
// not count as iterations: those proposed before the others' verdicts were known, since several are judged at a time,
// and those that escalation led to. After these, four others decide again. An example with two at a time, candidates 3
// to 6 gaining nothing:
//
//	candidate  1     2     3  4  5  6  7      8  9  10  11       12 13 14 15  16 ...
//	           seed  50 %  -  -  -  -  blind  unvisited cells    count again  blind
func (p *policy) escalation(judged journal.View, id int) *Escalation {
	h := judged.Header()
	gains, hot := progress(judged)
	first := func(e *Escalation) int { return e.Since + h.Lookahead }
	var e *Escalation
	var now []string
	best, count, ranked := 0., 0, false
	for _, c := range judged.Candidates() {
		stages, champion := hot[c.ID]
		moved := champion && !slices.Equal(stages, now)
		if champion {
			now, ranked = stages, true
		}
		if gains[c.ID] >= stalledGain || moved {
			e, best, count = nil, 0, 0
			continue
		}
		if e != nil && c.ID < first(e)+escalateFor {
			continue
		}
		if e != nil {
			e, best, count = nil, 0, 0
		}
		best = max(best, gains[c.ID])
		if ranked && p.iterates(c) {
			count++
		}
		if count == stalledAfter {
			e = &Escalation{c.ID, journal.Figure(best), now}
		}
	}
	if e == nil || id < first(e) || id >= first(e)+escalateFor {
		return nil
	}
	return e
}

// iterates reports whether a candidate is a structural iteration: no tuning, no seed, and no fault of a proposer.
func (p *policy) iterates(c *journal.Candidate) bool {
	return !c.Scalar && c.Gate != journal.GateProposal && !p.seeds[c.Fitted]
}

// progress returns, by candidate, a new champion's saving over its predecessor, the largest over the targets, and the
// hot spots of the champions of the first target.
func progress(judged journal.View) (gains map[int]float64, hot map[int][]string) {
	gains, hot = map[int]float64{}, map[int][]string{}
	for i, t := range judged.Header().Targets {
		var had float64
		for _, c := range judged.Champions(t) {
			now := float64(c.Cost(t).Score)
			gain := 1.
			if had > 0 {
				gain = 1 - now/had
			}
			gains[c.ID], had = max(gains[c.ID], gain), now
			if i == 0 {
				hot[c.ID] = c.Cost(t).Hot()
			}
		}
	}
	return gains, hot
}

// lead proposes while no candidate has a rank and the strategy, which needs a ranked one to start from, has nothing. It
// alternates between neighbours of refused seeds, the cheapest by estimate first, and reserve seeds, since the
// neighbours may be refused for the same reason.
func (p *policy) lead(k *knowledge) *Proposal {
	all := k.Candidates()
	if len(all) == 0 || slices.ContainsFunc(all, func(c *journal.Candidate) bool { return c.Verdict.Ranked() }) {
		return nil
	}
	led := len(all) + len(k.pending) - len(p.given)
	var x *Proposal
	if led%2 == 1 {
		x = p.space.first(p.space.Reserve, k.tried)
	}
	if x == nil {
		x = p.neighbour(k)
	}
	if x == nil {
		x = p.space.first(p.space.Reserve, k.tried)
	}
	if x != nil && led == 0 {
		x.Warning = fmt.Sprintf("no seed has a rank (candidate %d: %s, %s): the search goes on with their neighbours and with the default seeds", all[0].ID, all[0].Verdict, all[0].Reason)
	}
	return x
}

// neighbour proposes the next change of a refused seed.
func (p *policy) neighbour(k *knowledge) *Proposal {
	for _, c := range k.Candidates() {
		if !p.given[c.Fitted] {
			continue
		}
		for _, o := range p.space.near(c) {
			if !k.tried(o.v) {
				return &Proposal{Variant: o.v, Parent: c.ID, Moves: o.moves, Hypothesis: fmt.Sprintf("candidate %d was refused (%s): %s may not be", c.ID, c.Verdict, texts(o.moves))}
			}
		}
	}
	return nil
}

// near returns the single changes of a candidate: first the cheapest of each axis by estimate, in order of estimate.
func (s Space) near(c *journal.Candidate) []option {
	v, err := s.from(c)
	if err != nil {
		return nil
	}
	all := s.singles(v)
	s.prepareSingles(all)
	byAxis := map[string][]option{}
	for _, x := range all {
		if x.v.Fit(s.Spec) == v.Fit(s.Spec) || !s.admits(x.v) {
			continue
		}
		if c.Verdict == journal.Numerics && !Reaches(x.v.Precision().String(), v.Precision().String()) {
			continue // less precision can not correct wrong numbers
		}
		cost := s.cycles(x.v)
		if cost == 0 {
			cost = math.Inf(1)
		}
		byAxis[x.Axis] = append(byAxis[x.Axis], option{v: x.v, parent: c, moves: applied(changed(v, x.v), x.v), gain: -cost})
	}
	var best, rest []option
	for _, a := range gdn.Axes {
		l := byAxis[a.Name]
		slices.SortStableFunc(l, cheaper)
		best, rest = append(best, l[:min(len(l), 1)]...), append(rest, l[min(len(l), 1):]...)
	}
	slices.SortStableFunc(best, cheaper)
	slices.SortStableFunc(rest, cheaper)
	return append(best, rest...)
}

// cheaper orders options by estimate; options without one are last.
func cheaper(x, y option) int { return cmp.Compare(y.gain, x.gain) }
