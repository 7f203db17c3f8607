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

// beam tries the seeds, and then changes of the best cells. Each proposal is an iteration of its
// own: the options are all single moves of each of the best cells, and what several moves that
// gained apart may gain together; each has an expected gain and a risk, and the best of the
// shortlist is proposed. A cell that is behind the best must expect to gain that much more.
type beam struct {
	space Space
	width int
}

func (b *beam) Close() error { return nil }

// handicap is how many times what it is behind a cell must expect to gain, perCell how much more
// for each better one.
const (
	handicap = 2
	perCell  = .03
)

// tie is how much the order drawn from the seed weighs: below what any two expectations of
// different grounds differ by.
const tie = 1e-3

func (b *beam) choose(_ context.Context, k *knowledge) *Proposal {
	parents := champions(k.View, b.width)
	if len(parents) == 0 {
		return nil
	}
	r := newRecord(k.View)
	target := k.Header().Targets[0]
	var l []option
	for i, e := range parents {
		behind, _ := loss(k.Header().Targets, e, parents[0])
		for _, o := range b.singles(e, i, r, target, k.tried) {
			o.value -= handicap*behind + perCell*float64(i)
			l = append(l, o)
		}
	}
	l = append(l, b.joined(parents[0], r, target, k.tried)...)
	if len(l) == 0 {
		return leftover(b.space, parents, k.tried)
	}
	rank(l)
	o := l[0]
	why := fmt.Sprintf("%s may suit candidate %d", o.text(), o.parent.ID)
	switch {
	case o.scalar:
		why = fmt.Sprintf("tune %s within the cell", o.text())
	case o.needed:
		why = fmt.Sprintf("%s, with what it needs, may suit candidate %d, whose hot spots are %s", o.text(), o.parent.ID, hot(o.parent, target))
	case len(o.moves) > 1:
		why = fmt.Sprintf("%s: what gains apart may gain together", o.text())
	case len(o.moves) == 1:
		why = fmt.Sprintf("%s may suit candidate %d, whose hot spots are %s", doc(o.moves[0]), o.parent.ID, hot(o.parent, target))
	}
	return propose(l, why)
}

func hot(c *journal.Candidate, target string) string {
	if k := c.Cost(target); k != nil && len(k.Stages) > 0 {
		return strings.Join(k.Hot(), " and ")
	}
	return "not known"
}

// estimated is how many of the best cells are worth estimates.
const estimated = 2

// guess is the logarithm of what an estimate says that w saves against v, which is of the i-th best
// cell; NaN where there are no estimates.
func (b *beam) guess(v, w gdn.Variant, i int) float64 {
	switch {
	case b.space.Estimate == nil:
		return math.NaN()
	case i >= estimated:
		return 0
	}
	had, now := b.space.cycles(v), b.space.cycles(w)
	if had <= 0 || now <= 0 {
		return math.NaN()
	}
	return math.Log(had / now)
}

// singles are the options of one move from the candidate of the i-th best cell. Numbers move by one
// step of their axis at a time.
func (b *beam) singles(e *journal.Candidate, i int, r *record, target string, tried func(gdn.Variant) bool) []option {
	v, err := gdn.ParseVariant(e.Variant)
	if err != nil {
		return nil
	}
	all := b.space.singles(v)
	if i < estimated {
		b.space.prepareSingles(all)
	}
	cell := v.Fit(b.space.Spec).Cell()
	var l []option
	seen := map[gdn.Variant]bool{}
	for _, x := range all {
		f := x.v.Fit(b.space.Spec)
		if tried(x.v) || !b.space.admits(x.v) || seen[f] {
			continue
		}
		seen[f] = true
		a, err := gdn.LookupAxis(x.Axis)
		if err != nil {
			continue
		}
		o := option{v: x.v, parent: e, moves: []Move{x.Move}, scalar: f.Cell() == cell}
		if x.needed {
			o.moves, o.needed = applied(changed(v, x.v), x.v), true
		}
		o.gain, o.risk = r.expect(x.Move, a.Get(&v), e, target, func() float64 { return b.guess(v, x.v, i) })
		o.value = o.gain*(1-o.risk) + tie*key(b.space.Seed, v, x.v)
		l = append(l, o)
		l = append(l, b.unlocked(o, v, i, r, tried)...)
	}
	return l
}

// unlocked makes options of a move and of the choices that it makes possible, and of what these
// make possible in turn, by estimate the best of each. Any of them alone may be worth nothing.
func (b *beam) unlocked(o option, v gdn.Variant, i int, r *record, tried func(gdn.Variant) bool) (l []option) {
	alone := b.guess(v, o.v, i)
	if math.IsNaN(alone) || i >= estimated {
		return nil
	}
	for _, first := range opened(b.space, v, o.v) {
		w, moves := first.v, append(slices.Clone(o.moves), first.moves...)
		bridged := false
		for before := o.v; ; {
			next, most := option{}, noticeable
			for _, x := range opened(b.space, before, w) {
				if guess := b.guess(w, x.v, i); guess > most {
					next, most = x, guess
				}
			}
			if next.moves == nil && !bridged {
				next, bridged = b.bridge(w, moves, i), true
			}
			if next.moves == nil {
				break
			}
			before, w, moves = w, next.v, append(moves, next.moves...)
		}
		guess := b.guess(v, w, i)
		if guess <= alone+noticeable || tried(w) || r.made[strings.Join(texts(moves), ",")] {
			continue
		}
		u := option{v: w, parent: o.parent, moves: moves, gain: guessed*guess + blind*priorGain*float64(len(moves)), risk: .2}
		u.value = u.gain * (1 - u.risk)
		l = append(l, u)
	}
	return l
}

// bridge is a move of an axis that is not moved yet which makes another possible, and that one, of
// which both together save most by estimate.
func (b *beam) bridge(w gdn.Variant, moved []Move, i int) (best option) {
	most := noticeable
	for _, a := range gdn.Axes {
		if a.Sets != nil || !b.space.walks(a.Name) || slices.ContainsFunc(moved, func(m Move) bool { return m.Axis == a.Name }) {
			continue
		}
		for _, value := range a.Values {
			x, err := w.With(a.Name, value)
			if err != nil || x == w || !b.space.admits(x) {
				continue
			}
			for _, y := range opened(b.space, w, x) {
				if guess := b.guess(w, y.v, i); guess > most {
					most = guess
					best = option{v: y.v, moves: []Move{{a.Name, value}, y.moves[0]}}
				}
			}
		}
	}
	return best
}

// opened are the choices of axes that apply to w and did not to v.
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

// steps are the values of an axis that one move from v leads to: those beside it where they are
// numbers, or all.
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
	if a.Values[0] == "0" && i > 1 { // 0 is none or all
		l = append(l, "0")
	}
	return l
}

// joined are options of several moves from the best candidate: all that gained where they were made
// alone, or would by an estimate, the best value of each axis; where that was tried, the half of
// them that gained most, and so on. What had no rank, or gained nothing, is not made again
// elsewhere.
func (b *beam) joined(best *journal.Candidate, r *record, target string, tried func(gdn.Variant) bool) []option {
	v, err := gdn.ParseVariant(best.Variant)
	if err != nil {
		return nil
	}
	type gain struct {
		Move
		worth float64
	}
	var gains []gain
	for _, a := range gdn.Axes {
		best := gain{}
		for _, value := range a.Values {
			m := Move{a.Name, value}
			if !b.space.walks(a.Name) {
				continue
			}
			worth, ok := r.level(m, a.Get(&v))
			if w, err := v.With(a.Name, value); !ok && err == nil && w != v && b.space.Estimate != nil && b.space.admits(w) && slices.Contains(steps(a, v), value) {
				if worth = guessed * b.guess(v, w, 0); !(worth > 0) || r.failed(m) {
					continue
				}
				ok = true
			}
			if ok && worth > max(certain, best.worth) {
				best = gain{m, worth}
			}
		}
		if best.worth > 0 {
			gains = append(gains, best)
		}
	}
	slices.SortStableFunc(gains, func(x, y gain) int { return cmp.Compare(y.worth, x.worth) })
	worth := map[Move]float64{}
	var moves []Move
	for _, g := range gains {
		moves, worth[g.Move] = append(moves, g.Move), g.worth
	}
	var l []option
	for n := len(moves); n >= 2; n = (n + 1) / 2 {
		w, made := b.together(v, moves[:n])
		if len(made) > 1 && !tried(w) && b.space.admits(w) && !r.made[strings.Join(texts(made), ",")] {
			o := option{v: w, parent: best, moves: made, risk: .1}
			for _, m := range made {
				o.gain += mergedGain * worth[m]
			}
			if guess := b.guess(v, w, 0); !math.IsNaN(guess) {
				o.gain = min(o.gain, guessed*guess)
			}
			o.value = o.gain * (1 - o.risk)
			l = append(l, o)
		}
		if n == 2 {
			break
		}
	}
	return l
}

// together makes moves one after another; where there are estimates, those alone that save
// something after the ones before.
func (b *beam) together(v gdn.Variant, moves []Move) (gdn.Variant, []Move) {
	if b.space.Estimate == nil {
		return apply(v, moves)
	}
	var made []Move
	for _, m := range moves {
		w, done := apply(v, append(slices.Clone(made), m))
		before, _ := apply(v, made)
		if guess := b.guess(before, w, 0); len(done) > len(made) && (math.IsNaN(guess) || guess > -noticeable) {
			made = done
		}
	}
	w, made := apply(v, made)
	return w, made
}

// leftover proposes two moves at once, drawn at random, where no single one is left.
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

// champions gives the best candidate of each of the best n cells, best first, by the mean over the
// targets of its score against the best on each.
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
