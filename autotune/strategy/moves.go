package strategy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Move sets one axis.
type Move struct{ Axis, Value string }

func (m Move) String() string { return m.Axis + "=" + m.Value }

func parseMove(text string) Move {
	axis, value, _ := strings.Cut(text, "=")
	return Move{axis, value}
}

// texts returns moves in the journal's form.
func texts(moves []Move) []string {
	l := make([]string, len(moves))
	for i, m := range moves {
		l[i] = m.String()
	}
	return l
}

// apply makes the moves one after another, skips those that do not apply, and returns those made.
func apply(v gdn.Variant, moves []Move) (gdn.Variant, []Move) {
	var made []Move
	for pass := 0; pass < 2; pass++ { // a move may make an earlier one applicable
		for _, m := range moves {
			if slices.Contains(made, m) {
				continue
			}
			if w, err := v.With(m.Axis, m.Value); err == nil && w != v {
				v, made = w, append(made, m)
			}
		}
	}
	return v, made
}

// changed returns the axes in which two variants differ, as moves from the first to the second.
func changed(from, to gdn.Variant) []Move {
	var l []Move
	for _, a := range gdn.Axes {
		if x, y := a.Get(&from), a.Get(&to); x != y && a.Sets == nil {
			l = append(l, Move{a.Name, y})
		}
	}
	return l
}

// concerns reports whether an axis, by name, belongs to a group.
func concerns(axis string, g gdn.Group) bool {
	a, err := gdn.LookupAxis(axis)
	return err == nil && a.Concerns(g)
}

// loss returns the mean over the targets of the logarithm of a candidate's score over another's; a target without a
// cost counts as a factor of 10. ok is false if no target has both costs.
func loss(targets []string, c, against *journal.Candidate) (sum float64, ok bool) {
	n := 0
	for _, t := range targets {
		had := against.Cost(t)
		if had == nil {
			continue
		}
		n++
		if now := c.Cost(t); now != nil {
			sum += math.Log(float64(now.Score) / float64(had.Score))
			ok = true
		} else {
			sum += math.Log(10)
		}
	}
	return sum / float64(max(n, 1)), ok
}

// trial is a candidate that moved only one axis.
type trial struct {
	from, to string
	gain     float64 // saving, as a logarithm
	weight   float64 // larger for later trials
	base     float64 // logarithm of its parent's score over the first candidate's
	ranked   bool
}

// record holds what the judged candidates tell about moves.
type record struct {
	axes  map[string]*axisRecord
	made  map[string]bool // changes, as text, that had no rank or did not gain
	now   float64         // logarithm of the best score over the first candidate's
	first *journal.Candidate
}

// axisRecord holds the trials of an axis. levels are the relative worth of its values, in logarithms of cycles: a
// least-squares fit of the trials. Values in different parts were never compared, not even through others.
type axisRecord struct {
	trials []trial
	levels map[string]float64
	parts  map[string]int
}

// halfLife is the number of candidates after which a trial counts half: the worth of a move depends on the other axes.
const halfLife = 60

// recordOf returns the record of moves on the given axes; value returns the value of an axis in the text of a variant.
func recordOf(judged journal.View, value func(variant, axis string) (string, bool)) *record {
	r := &record{axes: map[string]*axisRecord{}, made: map[string]bool{}}
	targets := judged.Header().Targets
	all := judged.Candidates()
	for _, c := range all {
		if !c.Verdict.Ranked() {
			continue
		}
		if r.first == nil {
			r.first = c
		}
		if d, ok := loss(targets, c, r.first); ok {
			r.now = min(r.now, d)
		}
	}
	for _, c := range all {
		parent := judged.Candidate(c.Parent)
		if parent == nil || !parent.Verdict.Ranked() || len(c.Change) == 0 {
			continue
		}
		t := trial{weight: math.Exp2(-float64(len(all)-c.ID) / halfLife)}
		switch {
		case c.Verdict.Ranked():
			d, ok := loss(targets, c, parent)
			t.gain, t.ranked = -d, ok
		case c.Verdict == journal.Duplicate:
			t.ranked = true // no gain, no harm
		}
		if !t.ranked || t.gain < certain {
			r.made[strings.Join(c.Change, ",")] = true
		}
		if len(c.Change) > 1 || c.Verdict == journal.CostUnknown {
			continue
		}
		m := parseMove(c.Change[0])
		from, ok := value(parent.Variant, m.Axis)
		if !ok {
			continue
		}
		t.from, t.to = from, m.Value
		t.base, _ = loss(targets, parent, r.first)
		if r.axes[m.Axis] == nil {
			r.axes[m.Axis] = &axisRecord{}
		}
		r.axes[m.Axis].trials = append(r.axes[m.Axis].trials, t)
	}
	for _, a := range r.axes {
		a.level()
	}
	return r
}

// level fits the levels.
func (a *axisRecord) level() {
	a.levels, a.parts = map[string]float64{}, map[string]int{}
	var values []string
	part := func(v string) int {
		if _, ok := a.parts[v]; !ok {
			a.parts[v] = len(values)
			values = append(values, v)
		}
		return a.parts[v]
	}
	for _, t := range a.trials {
		if !t.ranked {
			continue
		}
		from, to := part(t.from), part(t.to)
		for v, p := range a.parts {
			if p == to {
				a.parts[v] = from
			}
		}
	}
	const sweeps = 40
	for range sweeps {
		for _, v := range values {
			sum, weight := 0., 0.
			for _, t := range a.trials {
				switch {
				case !t.ranked || t.from == t.to:
				case t.to == v:
					sum, weight = sum+t.weight*(a.levels[t.from]+t.gain), weight+t.weight
				case t.from == v:
					sum, weight = sum+t.weight*(a.levels[t.to]-t.gain), weight+t.weight
				}
			}
			if weight > 0 {
				a.levels[v] = sum / weight
			}
		}
	}
}

// Expectations of a move that was not made yet.
const (
	priorGain  = .04 // of any move
	priorStage = .30 // share of its stages' cycles
	mergedGain = .9  // share of the sum of single gains that combined moves keep
	certain    = .01 // smaller changes are no gain
	drifted    = .03 // share of the logarithm by which the best has changed since a move was tried, as uncertainty of its worth
)

// level returns the expected gain of a move by the trials; ok is false if its two values were never compared.
func (r *record) level(m Move, from string) (gain float64, ok bool) {
	a := r.axes[m.Axis]
	if a == nil {
		return 0, false
	}
	p, okFrom := a.parts[from]
	q, okTo := a.parts[m.Value]
	return a.levels[m.Value] - a.levels[from], okFrom && okTo && p == q
}

// trials returns how often the axis of a move was moved with a rank, the weight of failures of this move, and how far
// the best has come since the move was made.
func (r *record) trials(m Move) (n int, failed, drift float64) {
	a := r.axes[m.Axis]
	if a == nil {
		return 0, 0, 0
	}
	for _, t := range a.trials {
		same := t.to == m.Value
		if same {
			drift = max(0, t.base-r.now)
		}
		switch {
		case t.ranked:
			n++
		case same:
			failed += 2
		default:
			failed += .5
		}
	}
	return n, failed, drift
}

// passes are the MXU's passes per product, by precision: fewer are not dearer.
var passes = map[string]float64{"f32": 6, "bf16x6": 6, "bf16x3": 3, "bf16x1": 1}

// hotShare returns the share of a schedule that an axis influences.
func hotShare(axis string, c *journal.Cost) float64 {
	if c == nil || c.Took() <= 0 {
		return 0
	}
	var cycles int64
	for _, s := range c.Stages {
		if slices.Contains(bearings[axis].stages, s.Name) {
			cycles += s.Cycles
		}
	}
	share := float64(cycles) / float64(c.Took())
	if bearings[axis].fills && c.Slot != "" {
		share = max(share, 1-float64(c.Fill))
	}
	return min(share, 1)
}

// option is a change under consideration.
type option struct {
	v          gdn.Variant
	to         string // the resulting variant in a Table
	parent     *journal.Candidate
	moves      []Move
	gain, risk float64
	value      float64 // its score
	scalar     bool
}

func (o *option) text() string { return strings.Join(texts(o.moves), ",") }

// rank orders options, best first.
func rank(l []option) {
	slices.SortStableFunc(l, func(x, y option) int { return cmp.Compare(y.value, x.value) })
}

// shortlisted is the number of options in a proposal.
const shortlisted = 5

// propose returns the first option as the proposal, with the others as its shortlist.
func propose(l []option, why string) *Proposal {
	o := l[0]
	p := &Proposal{Variant: o.v, Parent: o.parent.ID, Moves: o.moves, Gain: saved(o.gain), Risk: o.risk, Hypothesis: why}
	for _, x := range l[:min(shortlisted, len(l))] {
		p.Shortlist = append(p.Shortlist, journal.Option{Parent: x.parent.ID, Change: x.text(), Gain: journal.Figure(saved(x.gain)), Risk: journal.Figure(x.risk)})
	}
	return p
}

// saved turns a logarithm into a share of the cycles, in thousandths.
func saved(gain float64) float64 { return math.Round(1000*(1-math.Exp(-gain))) / 1000 }

// doc describes a move.
func doc(m Move) string {
	if a, err := gdn.LookupAxis(m.Axis); err == nil {
		return fmt.Sprintf("%s (%s)", m, a.Doc)
	}
	return m.String()
}

// draw returns a random source that depends only on parts.
func draw(parts ...any) *rand.Rand {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))
}

// key orders equal options at random.
func key(parts ...any) float64 { return draw(parts...).Float64() }
