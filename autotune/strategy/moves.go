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

// texts are the forms of moves in the journal.
func texts(moves []Move) []string {
	l := make([]string, len(moves))
	for i, m := range moves {
		l[i] = m.String()
	}
	return l
}

// apply makes the moves one after another, leaving out what does not apply, and says which were
// made.
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

// changed lists the axes in which two variants differ, as moves from the first to the second.
func changed(from, to gdn.Variant) []Move {
	var l []Move
	for _, a := range gdn.Axes {
		if x, y := a.Get(&from), a.Get(&to); x != y && a.Sets == nil {
			l = append(l, Move{a.Name, y})
		}
	}
	return l
}

// concerns says whether an axis, by name, concerns a group.
func concerns(axis string, g gdn.Group) bool {
	a, err := gdn.LookupAxis(axis)
	return err == nil && a.Concerns(g)
}

// loss is the mean over the targets of the logarithm of a candidate's score against another's,
// targets without a cost counting as 10 x. ok is false where no target has a cost of both.
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

// trial is a candidate that moved one axis alone.
type trial struct {
	from, to string
	gain     float64 // what it saved, as a logarithm
	weight   float64 // the later, the more
	base     float64 // logarithm of the score of its parent, over that of the first candidate
	ranked   bool
}

// record is what the judged candidates tell about moves.
type record struct {
	axes  map[string]*axisRecord
	made  map[string]bool // changes, as text, that had no rank or did not gain
	now   float64         // logarithm of the score of the best, over that of the first candidate
	first *journal.Candidate
}

// axisRecord is what is known of an axis. levels are what its values are worth against each other,
// in logarithms of cycles: the least squares of the trials. Values of different parts were never
// compared, by whatever way.
type axisRecord struct {
	trials []trial
	levels map[string]float64
	parts  map[string]int
}

// halfLife is after how many candidates a trial counts half: what a move is worth changes with what
// is around it.
const halfLife = 60

// recordOf is the record of moves in a table of choices, where value gives the value of an axis in
// the text of a variant.
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

// level solves for the levels.
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

// What a strategy expects of a move that was not made yet.
const (
	priorGain  = .04 // of any move
	priorStage = .30 // of the share of the cycles that its stages take
	mergedGain = .9  // of the sum of what moves gained alone, made together
	certain    = .01 // less is no gain
	drifted    = .03 // of the logarithm by which the best has changed since a move was tried: it may be worth more, or less, by now
)

// level is what a move is worth by what was tried; ok is false where its two values were never
// compared.
func (r *record) level(m Move, from string) (gain float64, ok bool) {
	a := r.axes[m.Axis]
	if a == nil {
		return 0, false
	}
	p, okFrom := a.parts[from]
	q, okTo := a.parts[m.Value]
	return a.levels[m.Value] - a.levels[from], okFrom && okTo && p == q
}

// trials says how often the axis of a move was moved with a rank, how much speaks against a rank,
// and how far the best has come since the move was made.
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

// passes are those of the matrix unit by precision of a product: fewer are no dearer.
var passes = map[string]float64{"f32": 6, "bf16x6": 6, "bf16x3": 3, "bf16x1": 1}

// hotShare is the part of a schedule that an axis can do something about.
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

// option is a change that is weighed.
type option struct {
	v          gdn.Variant
	to         string // where it leads in a Table
	parent     *journal.Candidate
	moves      []Move
	gain, risk float64
	value      float64 // what it is ranked by
	scalar     bool
}

func (o *option) text() string { return strings.Join(texts(o.moves), ",") }

// rank orders options, best first.
func rank(l []option) {
	slices.SortStableFunc(l, func(x, y option) int { return cmp.Compare(y.value, x.value) })
}

// shortlisted is how many options a proposal lists.
const shortlisted = 5

// propose makes the first option the proposal, the others its shortlist.
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

// doc says what a move means.
func doc(m Move) string {
	if a, err := gdn.LookupAxis(m.Axis); err == nil {
		return fmt.Sprintf("%s (%s)", m, a.Doc)
	}
	return m.String()
}

// draw is a source of random numbers that depends on what it is given alone.
func draw(parts ...any) *rand.Rand {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))
}

// key orders equals.
func key(parts ...any) float64 { return draw(parts...).Float64() }
