package strategy

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// beam tries the seeds, and then goes round the best cells, best first: in each it tunes the scalars of the cell's best
// variant, and proposes a structural neighbour of it that nobody has tried. The order among the neighbours of one variant
// is drawn from the seed.
type beam struct {
	space Space
	width int
}

func (b *beam) Next(judged journal.View, pending []gdn.Variant) (Proposal, bool) {
	tried := b.space.tried(judged, pending)
	if p, ok := b.space.seed(tried); ok {
		return p, true
	}
	var best Proposal
	bestTurn := math.MaxInt
	for _, e := range elites(judged, b.width) {
		v, err := gdn.ParseVariant(e.Variant)
		if err != nil {
			continue
		}
		scalars, structures := b.neighbours(v)
		if w, ok := firstUntried(scalars, tried); ok {
			text, _ := change(v, w)
			return Proposal{w, e.ID, "tune " + text + " within the cell"}, true
		}
		w, ok := firstUntried(structures, tried)
		if turn := b.turns(e.ID, judged, pending, structures); ok && turn < bestTurn {
			text, axes := change(v, w)
			best, bestTurn = Proposal{w, e.ID, text}, turn
			if len(axes) == 1 {
				best.Hypothesis = fmt.Sprintf("%s (%s) may suit candidate %d", text, axes[0].Doc, e.ID)
			}
		}
	}
	return best, bestTurn < math.MaxInt
}

// turns is how many neighbours of an elite have been tried: the elite with the fewest is next.
func (b *beam) turns(id int, judged journal.View, pending []gdn.Variant, neighbours []gdn.Variant) int {
	n := 0
	for _, c := range judged.Candidates() {
		if c.Parent == id && !c.Scalar {
			n++
		}
	}
	for _, p := range pending {
		if slices.Contains(neighbours, p) {
			n++
		}
	}
	return n
}

func firstUntried(l []gdn.Variant, tried func(gdn.Variant) bool) (gdn.Variant, bool) {
	for _, v := range l {
		if !tried(v) {
			return v, true
		}
	}
	return gdn.Variant{}, false
}

// neighbours of v inside the space: those that differ in scalars, in the order of the axes, and the others, shuffled.
// What loses its numbers for a known reason is left out; the seeds hold such variants as negative examples.
func (b *beam) neighbours(v gdn.Variant) (scalars, structures []gdn.Variant) {
	type keyed struct {
		key [sha256.Size]byte
		v   gdn.Variant
	}
	var shuffled []keyed
	for _, w := range gdn.Neighbours(v, b.space.Spec) {
		_, axes := change(v, w)
		switch { // the axis that was changed comes first: others follow from it
		case len(axes) == 0 || !b.space.walks(axes[0].Name) || !b.space.inside(w) || w.Unsafe(b.space.Spec) != "" || !Reaches(w.Precision().String(), b.space.Least):
		case w.Fit(b.space.Spec).Cell() == v.Fit(b.space.Spec).Cell():
			scalars = append(scalars, w)
		default:
			shuffled = append(shuffled, keyed{sha256.Sum256(fmt.Appendf(nil, "%d %s %s", b.space.Seed, v, w)), w})
		}
	}
	slices.SortFunc(shuffled, func(x, y keyed) int { return slices.Compare(x.key[:], y.key[:]) })
	for _, k := range shuffled {
		structures = append(structures, k.v)
	}
	return scalars, structures
}

// elites gives the best candidate of each of the best n cells, best first, by the mean over the targets of its score
// against the champion's. A target without a cost counts as 10 x.
func elites(judged journal.View, n int) []*journal.Candidate {
	type scored struct {
		c    *journal.Candidate
		loss float64
	}
	best := map[string]scored{}
	for _, c := range judged.Candidates() {
		if !c.Verdict.Ranked() {
			continue
		}
		s := scored{c: c}
		for _, t := range judged.Header().Targets {
			champion := judged.Champion(t)
			if champion == nil {
				continue
			}
			ratio := 10.0
			if cost := c.Cost(t); cost != nil {
				ratio = float64(cost.Score) / float64(champion.Cost(t).Score)
			}
			s.loss += math.Log(ratio)
		}
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
