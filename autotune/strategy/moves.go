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

// apply makes the moves one after another, leaving out what does not apply, and says which were made.
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
		if x, y := a.Get(&from), a.Get(&to); x != y && a.Name != "prec" {
			l = append(l, Move{a.Name, y})
		}
	}
	return l
}

// loss is the mean over the targets of the logarithm of a candidate's score against another's, targets without a cost counting as
// 10 x. ok is false where no target has a cost of both.
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

// tally is what a move did so far, where it was made alone.
type tally struct {
	n, ranked int
	gain      float64 // sum of what it saved, as logarithms, over the ranked
	last      float64 // of the latest
	lastID    int
}

// record is what the judged candidates tell about moves.
type record struct {
	moves map[Move]*tally
	axes  map[string]*tally
}

func newRecord(judged journal.View) *record {
	r := &record{map[Move]*tally{}, map[string]*tally{}}
	targets := judged.Header().Targets
	for _, c := range judged.Candidates() {
		parent := judged.Candidate(c.Parent)
		if parent == nil || len(c.Change) != 1 {
			continue
		}
		m := parseMove(c.Change[0])
		gain, ranked := 0., false
		switch {
		case c.Verdict.Ranked():
			d, ok := loss(targets, c, parent)
			gain, ranked = -d, ok
		case c.Verdict == journal.Duplicate:
			ranked = true // no gain, no harm
		}
		for _, t := range []*tally{at(r.moves, m), at(r.axes, m.Axis)} {
			t.n++
			if ranked {
				t.ranked++
				t.gain += gain
				t.last, t.lastID = gain, c.ID
			}
		}
	}
	return r
}

func at[K comparable](m map[K]*tally, k K) *tally {
	if m[k] == nil {
		m[k] = &tally{}
	}
	return m[k]
}

// What a strategy expects of a move that nobody has made.
const (
	priorGain  = .04 // of any move
	priorStage = .30 // of the share of the cycles that its stages take
	mergedGain = .9  // of the sum of what moves gained apart, made together
	certain    = .01 // less is no gain
)

// expect estimates what a move saves, as a logarithm, and how likely it gets no rank: from the times that it was made before and,
// less so the more there are, from the share of the schedule that the stages of its axis take.
func (r *record) expect(m Move, parent *journal.Candidate, target string) (gain, risk float64) {
	prior := priorGain
	if c := parent.Cost(target); c != nil && c.Cycles > 0 {
		var share int64
		for _, s := range c.Stages {
			if stagesOf[m.Axis][s.Name] {
				share += s.Cycles
			}
		}
		prior += priorStage * float64(share) / float64(c.Cycles)
	}
	t, a := r.moves[m], r.axes[m.Axis]
	fails := func(t *tally) float64 { return (float64(t.n-t.ranked) + .3) / (float64(t.n) + 2) }
	switch {
	case t != nil && t.ranked > 0:
		return (2*t.last + t.gain + .1*prior) / (float64(t.ranked) + 2.1), fails(t)
	case t != nil: // it never had a rank
		return prior / float64(1+2*t.n), fails(t)
	case a != nil && a.ranked > 0: // other values of the axis: what they did tells a little
		return prior/float64(1+a.ranked)*.8 + .2*max(a.gain/float64(a.ranked), -.2), fails(a)
	}
	return prior, .15
}

// option is a change that is weighed.
type option struct {
	v          gdn.Variant
	parent     *journal.Candidate
	moves      []Move
	gain, risk float64
	value      float64 // what it is ranked by
	scalar     bool
	new        bool // no candidate made one of its moves
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
