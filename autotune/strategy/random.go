package strategy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// maxDraws bounds a strategy's draws before it says that nothing is left.
const maxDraws = 2000

// random draws every axis that may change and applies, uniformly, until it has an untried legal variant.
type random struct{ space Space }

func (r *random) Close() error { return nil }

func (r *random) choose(_ context.Context, k *knowledge) *Proposal {
	base := r.space.focus(r.space.base())
	rng := draw(r.space.Seed, "random", k.Len()+len(k.pending))
	for range maxDraws {
		v := base
		for _, a := range gdn.Axes {
			if !r.space.walks(a.Name) || a.Sets != nil {
				continue
			}
			if w, err := v.With(a.Name, a.Values[rng.IntN(len(a.Values))]); err == nil {
				v = w
			}
		}
		if !k.tried(v) && r.space.admits(v) {
			return &Proposal{Variant: v, Hypothesis: "drawn at random"}
		}
	}
	return nil
}

// base returns the start of a walk: the first seed, or the default.
func (s Space) base() gdn.Variant {
	if len(s.Seeds) > 0 {
		return s.Seeds[0].Variant
	}
	return gdn.DefaultVariant()
}

// elites is a population with one champion for each structural cell. It crosses two of them, each axis from either, or
// changes one or two axes of one. The better a cell's champion, the more often it is a parent.
type elites struct {
	space Space
	width int
}

func (e *elites) Close() error { return nil }

// crossing is the probability that two elites are crossed rather than one changed.
const crossing = .5

func (e *elites) choose(_ context.Context, k *knowledge) *Proposal {
	l := champions(k.View, e.width)
	if len(l) == 0 {
		return nil
	}
	rng := draw(e.space.Seed, "elites", k.Len()+len(k.pending))
	pick := func() (*journal.Candidate, gdn.Variant, bool) {
		c := l[min(rng.IntN(len(l)), rng.IntN(len(l)))]
		v, err := gdn.ParseVariant(c.Variant)
		return c, v, err == nil
	}
	for range maxDraws {
		a, v, ok := pick()
		if !ok {
			continue
		}
		why, w := "", v
		if b, u, ok := pick(); ok && b != a && rng.Float64() < crossing {
			for _, m := range changed(v, u) {
				if x, err := w.With(m.Axis, m.Value); err == nil && e.space.walks(m.Axis) && rng.IntN(2) == 0 {
					w = x
				}
			}
			why = fmt.Sprintf("a crossing of candidates %d and %d", a.ID, b.ID)
		} else if w, ok = mutate(e.space, v, 1+rng.IntN(2), rng); ok {
			why = fmt.Sprintf("a mutation of candidate %d", a.ID)
		}
		if moves := changed(v, w); len(moves) > 0 && why != "" && !k.tried(w) && e.space.admits(w) {
			return &Proposal{Variant: w, Parent: a.ID, Moves: moves, Hypothesis: why}
		}
	}
	return nil
}

// mutate sets n random axes, of those that may change, to random values.
func mutate(s Space, v gdn.Variant, n int, rng *rand.Rand) (gdn.Variant, bool) {
	axes := slices.DeleteFunc(slices.Clone(gdn.Axes), func(a gdn.Axis) bool { return !s.walks(a.Name) })
	if len(axes) == 0 {
		return v, false
	}
	made := 0
	for range maxDraws {
		a := axes[rng.IntN(len(axes))]
		if w, err := v.With(a.Name, a.Values[rng.IntN(len(a.Values))]); err == nil && w != v {
			if v, made = w, made+1; made == n {
				return v, true
			}
		}
	}
	return v, false
}
