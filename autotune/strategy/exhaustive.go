package strategy

import (
	"iter"
	"sync"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// exhaustive tries the seeds and then every cell, in the order of the axes.
type exhaustive struct {
	space Space
	mu    sync.Mutex
	cells []gdn.Variant // those drawn so far, a cache of the walk
	more  func() (gdn.Variant, bool)
}

func newExhaustive(s Space) *exhaustive {
	base := gdn.DefaultVariant()
	if len(s.Seeds) > 0 {
		base = s.Seeds[0].Variant // scalars and precisions of the walk
	}
	walk := gdn.Cells(s.Spec, s.focus(base))
	if len(s.Axes) > 0 {
		walk = s.product(s.focus(base))
	}
	more, _ := iter.Pull(walk)
	return &exhaustive{space: s, more: more}
}

// product walks all values of the axes given, the first outermost. What can not be built is left to the gates.
func (s Space) product(base gdn.Variant) iter.Seq[gdn.Variant] {
	return func(yield func(gdn.Variant) bool) {
		var walk func(v gdn.Variant, axes []string) bool
		walk = func(v gdn.Variant, axes []string) bool {
			if len(axes) == 0 {
				return yield(v)
			}
			a, err := gdn.LookupAxis(axes[0])
			if err != nil || a.Applies != nil && !a.Applies(v) {
				return walk(v, axes[1:])
			}
			for _, value := range a.Values {
				if w, err := v.With(a.Name, value); err == nil && !walk(w, axes[1:]) {
					return false
				}
			}
			return true
		}
		walk(base, s.Axes)
	}
}

func (e *exhaustive) Next(judged journal.View, pending []gdn.Variant) (Proposal, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tried := e.space.tried(judged, pending)
	if p, ok := e.space.seed(tried); ok {
		return p, true
	}
	for i := 0; ; i++ {
		if i == len(e.cells) {
			v, ok := e.more()
			if !ok {
				return Proposal{}, false
			}
			e.cells = append(e.cells, v)
		}
		if v := e.cells[i]; e.space.inside(v) && Reaches(v.Precision().String(), e.space.Least) && !tried(v) {
			return Proposal{Variant: v, Hypothesis: "a cell of the walk over all structures"}, true
		}
	}
}
