package strategy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// model tries the seeds. Then it compiles the variant with the largest expected improvement over the best, by a
// surrogate, for the time of its compile. Options are, from each of a few good candidates that differ in at least
// minDistance axes (elites): all single moves; a move with the choices that it makes possible; moves that each promise
// a gain, combined one by one; and, applied to the best, another elite's choices in one group of axes. If a class of
// accuracy is asked for, moves from candidates that would be best but for their errors (misses) are options too.
//
// The score of an option x, which decides the next compile, is
//
//	expected improvement (surrogate) * (1 - risk)^caution * P(errors in class) / size^effort
//
// Scoring is cheap and compiling is not: a proposal scores some thousands of variants by estimates, and compiles one of
// them for half a minute. So the walk may be wide, and its order matters.
type model struct {
	space Space
	width int
}

func (s *model) Close() error { return nil }

// minDistance is the least number of axes in which elites differ.
const minDistance = 3

// noticeable is the least promised gain, as a logarithm, of a move to be combined with others.
const noticeable = 2e-3

// joinedMost is the largest number of combined moves.
const joinedMost = 8

// caution is the exponent of the probability of a rank in a score: a choice that failed once also fails in
// combinations.
const caution = 2

// effort is the exponent of a program's size in a score: larger programs compile longer.
const effort = .5

// idle is the factor on the score of a move that once gave the same program or schedule as its parent: elsewhere it may
// have an effect, but seldom.
const idle = .1

// idleMoves returns the moves that alone gave the program or the schedule of their parent.
func idleMoves(judged journal.View) map[Move]bool {
	l := map[Move]bool{}
	for _, c := range judged.Candidates() {
		if c.Verdict == journal.Duplicate && c.Of == c.Parent && len(c.Change) == 1 {
			l[parseMove(c.Change[0])] = true
		}
	}
	return l
}

// choose learns a surrogate from all judged candidates, and scores options from each origin. Only the best is walked
// deep, in rounds; from the others one round of single moves is enough to find a better neighbour.
func (s *model) choose(_ context.Context, k *knowledge) *Proposal {
	parents := elitesOf(k.View, s.width)
	if len(parents) == 0 {
		return nil
	}
	w := &weighing{Space: s.space, surrogate: s.space.learn(k.View, k.pending), tried: k.tried, idle: idleMoves(k.View), seen: map[gdn.Variant]bool{}}
	var origins []origin
	for _, e := range parents {
		if o, ok := w.origin(e); ok {
			w.descend(o, len(origins) == 0)
			origins = append(origins, o)
		}
	}
	for _, o := range origins[min(1, len(origins)):] {
		w.cross(origins[0], o)
	}
	for _, e := range missesOf(k.View, parents[0]) {
		if o, ok := w.origin(e); ok {
			o.miss = true
			w.descend(o, false)
		}
	}
	l := w.options
	if len(l) == 0 {
		return leftover(s.space, parents, k.tried)
	}
	rank(l)
	return propose(l, l[0].why(k.Header().Targets[0]))
}

// weighing holds the options of one proposal.
type weighing struct {
	Space
	surrogate *surrogate
	tried     func(gdn.Variant) bool
	idle      map[Move]bool
	seen      map[gdn.Variant]bool
	options   []option
}

// origin is a candidate from which options are weighed.
type origin struct {
	*journal.Candidate
	v        gdn.Variant
	expected forecast
	miss     bool // it has no rank because of its errors
}

// origin forecasts a candidate; ok is false if there is no forecast. Gains are differences of two forecasts, its own
// and a variant's, rather than of a forecast and its measured cost: so errors of the surrogate common to both cancel.
func (w *weighing) origin(c *journal.Candidate) (o origin, ok bool) {
	v, err := w.from(c)
	if err != nil {
		return o, false
	}
	f, ok := w.surrogate.forecast(v)
	return origin{Candidate: c, v: v, expected: f}, ok
}

// step is a variant reached from an origin, and its promised saving as a logarithm.
type step struct {
	v    gdn.Variant
	gain float64
}

// weigh makes an option of a variant, and returns its promised saving; ok is false if it is outside this space, or has
// no forecast.
func (w *weighing) weigh(o origin, v gdn.Variant) (s step, ok bool) {
	if v == o.v || !w.admits(v) || !o.miss && morePasses(o.v, v) {
		return s, false
	}
	f, ok := w.surrogate.forecast(v)
	if !ok {
		return s, false
	}
	s = step{v, f.against(o.expected)}
	fitted := v.Fit(w.Spec)
	// Several origins lead to the same variants, and equal fitted variants are one program.
	if w.seen[fitted] || w.tried(v) {
		return s, true
	}
	w.seen[fitted] = true
	x := option{v: v, parent: o.Candidate, moves: applied(changed(o.v, v), v), scalar: fitted.Cell() == o.Cell, gain: s.gain, risk: 1 - (1-f.risk)*(1-f.beyond)}
	x.value = w.surrogate.improvement(f) * math.Pow(1-f.risk, caution) * (1 - f.beyond) * (1 + tie*key(w.Seed, v))
	if e := w.estimate(v); e != nil {
		x.value /= math.Pow(e.Size, effort)
	}
	if len(x.moves) == 1 && w.idle[x.moves[0]] {
		x.value *= idle
	}
	w.options = append(w.options, x)
	return s, true
}

// morePasses reports whether some products of w take more passes of the MXU than v's, which saves nothing. A
// precision that refers to another axis counts as the lowest.
func morePasses(v, w gdn.Variant) bool {
	taken := func(v gdn.Variant, a gdn.Axis) float64 {
		if n := passes[a.Get(&v)]; n > 0 {
			return n
		}
		return min(passes[v.Numerics.PrecInv.String()], passes[v.Numerics.PrecIntra.String()], passes[v.Numerics.PrecState.String()])
	}
	return slices.ContainsFunc(gdn.Axes, func(a gdn.Axis) bool {
		return precise(a) && taken(w, a) > taken(v, a)
	})
}

// precise reports whether the values of an axis are precisions of products.
func precise(a gdn.Axis) bool {
	return slices.Contains(a.Values, ir.PrecBF16x3.String())
}

// applied returns the moves of axes that apply to v. If all parts of an axis have one value, the whole axis is moved
// instead.
func applied(moves []Move, v gdn.Variant) (l []Move) {
	set := map[Move]int{} // parts that moves of whole axes would set
	for _, m := range moves {
		if a, err := gdn.LookupAxis(m.Axis); err == nil && a.Part() != "" {
			set[Move{a.Part(), m.Value}]++
		}
	}
	for _, m := range moves {
		a, err := gdn.LookupAxis(m.Axis)
		if err != nil || a.Applies != nil && !a.Applies(v) {
			continue
		}
		if a.Part() == "" {
			l = append(l, m)
			continue
		}
		if whole, err := gdn.LookupAxis(a.Part()); err == nil && set[Move{whole.Name, m.Value}] == len(whole.Sets) {
			if m.Axis == whole.Sets[0] {
				l = append(l, Move{whole.Name, m.Value})
			}
			continue
		}
		l = append(l, m)
	}
	return l
}

// rounds is the number of times that moves are combined, each round on the previous one's result; promising is the
// least promised gain of a round, as a logarithm, for another.
const (
	rounds    = 4
	promising = .05
)

// descend scores the moves from an origin and, if deep, those from the combination of the best moves, and so on:
// steepest descent on the surrogate, in which every point passed is an option. Moves that lost in one round are skipped
// in the next, and illegal moves are repaired only in the first: estimates take most of a proposal's time.
func (w *weighing) descend(o origin, deep bool) {
	at := step{v: o.v}
	lost := map[single]bool{}
	for round := range rounds {
		next := w.join(o, at, w.singles(o, at, lost, round == 0))
		if !deep || next.gain < at.gain+promising {
			return
		}
		at = next
	}
}

// singles scores the single moves from a step, except those that have lost, and returns the best of each axis that
// promises a gain.
func (w *weighing) singles(o origin, at step, lost map[single]bool, repair bool) (pays []gdn.Variant) {
	move := func(x single) single { return single{Move: x.Move, needed: x.needed} } // whatever variant it leads to
	all := slices.DeleteFunc(w.Space.singles(at.v), func(x single) bool { return lost[move(x)] })
	w.prepareSingles(all)
	best := map[string]step{}
	for _, x := range all {
		s, ok := w.weigh(o, x.v)
		if !ok && repair && x.v.Check(w.Spec) != nil {
			s, ok = w.repaired(o, x.v, x.Axis)
		}
		if !ok || s.gain < at.gain-noticeable {
			lost[move(x)] = true
		}
		if !ok {
			continue
		}
		for _, s := range []step{s, w.unlocked(o, at.v, x.v)} {
			had, found := best[x.Axis]
			if s.gain > at.gain+noticeable && (!found || s.gain > had.gain) {
				best[x.Axis] = s
			}
		}
	}
	var l []step
	for _, a := range gdn.Axes {
		if s, ok := best[a.Name]; ok {
			l = append(l, s)
		}
	}
	slices.SortStableFunc(l, func(x, y step) int { return cmp.Compare(y.gain, x.gain) })
	for _, s := range l {
		pays = append(pays, s.v)
	}
	return pays
}

// unlocked scores a move from v to x with the choices that it makes possible, and recursively with the choices that
// these make possible, of each the most promising one, and returns the best. Each alone may gain nothing. Example:
// solve=merge alone costs as much as the ladder; it makes merge=packed possible, and that in turn mask=words, which
// gains.
func (w *weighing) unlocked(o origin, v, x gdn.Variant) (best step) {
	for {
		next, found := step{}, false
		for _, y := range opened(w.Space, v, x) {
			if s, ok := w.weigh(o, y.v); ok && (!found || s.gain > next.gain) {
				next, found = s, true
			}
		}
		if !found {
			return best
		}
		if next.gain > best.gain {
			best = next
		}
		v, x = x, next.v
	}
}

// repaired scores an illegal move together with one of another axis that makes it legal, and returns the best pair.
// Without pairs, two choices that exclude each other would cut off a part of the space: no single move leads from one
// side to the other.
func (w *weighing) repaired(o origin, v gdn.Variant, axis string) (best step, ok bool) {
	for _, a := range gdn.Axes {
		if a.Name == axis || a.Sets != nil || !w.walks(a.Name) {
			continue
		}
		for _, value := range a.Values {
			x, err := v.With(a.Name, value)
			if err != nil || x == v {
				continue
			}
			if s, can := w.weigh(o, x); can && (!ok || s.gain > best.gain) {
				best, ok = s, true
			}
		}
	}
	return best, ok
}

// join applies to a step the values of other variants, one after another, and drops those that do not gain: moves that
// each gain alone need not gain together.
func (w *weighing) join(o origin, at step, others []gdn.Variant) step {
	from := at.v
	for _, v := range others[:min(len(others), joinedMost)] {
		x, made := apply(at.v, changed(from, v))
		if len(made) == 0 {
			continue
		}
		if s, ok := w.weigh(o, x); ok && s.gain > at.gain+noticeable {
			at = s
		}
	}
	return at
}

// cross scores, applied to the best, another elite's values in one group of axes, and combinations of those that gain.
// A group's axes depend on each other (inverse, mapping, schedule): half of a schedule is no schedule, so axes are not
// mixed one by one.
func (w *weighing) cross(best, other origin) {
	all := slices.DeleteFunc(changed(best.v, other.v), func(m Move) bool { return !w.walks(m.Axis) })
	var l []step
	for _, g := range gdn.Groups() {
		x, _ := apply(best.v, slices.DeleteFunc(slices.Clone(all), func(m Move) bool { return !concerns(m.Axis, g) }))
		if s, ok := w.weigh(best, x); ok && s.gain > noticeable {
			l = append(l, s)
		}
	}
	slices.SortStableFunc(l, func(x, y step) int { return cmp.Compare(y.gain, x.gain) })
	var pays []gdn.Variant
	for _, s := range l {
		pays = append(pays, s.v)
	}
	w.join(best, step{v: best.v}, pays)
}

// elitesOf returns the best candidate, and further good ones that differ from all better elites in at least minDistance
// axes.
func elitesOf(judged journal.View, n int) []*journal.Candidate {
	return diverse(champions(judged, math.MaxInt), n)
}

// diverse returns the first n candidates that differ from all chosen before them in at least minDistance axes.
func diverse(all []*journal.Candidate, n int) (l []*journal.Candidate) {
	var points []point
	for _, c := range all {
		v, err := gdn.ParseVariant(c.Fitted)
		if err != nil {
			continue
		}
		p := pointOf(v)
		if len(l) < n && !slices.ContainsFunc(points, func(q point) bool { return distance(p, q) < minDistance }) {
			l, points = append(l, c), append(points, p)
		}
	}
	return l
}

// distance is the number of axes in which two variants differ.
func distance(p, q point) (n int) {
	for i := range p {
		if p[i] != q[i] {
			n++
		}
	}
	return n
}

// why returns the hypothesis of an option.
func (o *option) why(target string) string {
	switch {
	case missed(o.parent):
		return fmt.Sprintf("%s may bring candidate %d within the class of accuracy, which alone keeps it from being best", o.text(), o.parent.ID)
	case o.scalar:
		return fmt.Sprintf("tune %s within the cell", o.text())
	case len(o.moves) > 1:
		return fmt.Sprintf("%s may gain together on candidate %d, whose hot spots are %s", o.text(), o.parent.ID, hot(o.parent, target))
	}
	return fmt.Sprintf("%s may suit candidate %d, whose hot spots are %s", doc(o.moves[0]), o.parent.ID, hot(o.parent, target))
}
