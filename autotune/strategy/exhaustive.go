package strategy

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/gdngen/gdngen/gdn"
)

// exhaustive tries the seeds and then every cell, in the order of the axes.
type exhaustive struct {
	space Space
	mu    sync.Mutex
	cells []cell               // cells drawn so far and inside the space, a cache of the walk
	drawn map[gdn.Variant]bool // the same, fitted
	more  func() (gdn.Variant, bool)
}

type cell struct {
	variant, fitted gdn.Variant
	text            string // of the fitted variant
}

func newExhaustive(s Space) *exhaustive {
	base := s.base() // it sets the scalars and precisions of the walk
	walk := gdn.Cells(s.Spec, s.focus(base))
	if axes := s.walked(); len(axes) > 0 {
		walk = product(s.focus(base), s.moving(axes))
	}
	more, _ := iter.Pull(walk)
	return &exhaustive{space: s, more: more, drawn: map[gdn.Variant]bool{}}
}

// walked returns the axes of a walk that is narrower than gdn.Cells: the given axes, or if some are held, the other
// structural axes without those of numerics.
func (s Space) walked() []string {
	if len(s.Axes) > 0 || len(s.Focus) == 0 {
		return s.Axes
	}
	var axes []string
	for _, a := range gdn.Axes {
		if a.Structural() && s.walks(a.Name) && a.Group != gdn.GroupNumerics {
			axes = append(axes, a.Name)
		}
	}
	return axes
}

// moving keeps the axes that change something for the spec.
func (s Space) moving(axes []string) []string {
	return slices.DeleteFunc(slices.Clone(axes), func(name string) bool {
		a, err := gdn.LookupAxis(name)
		return err != nil || !a.Changes(s.Spec)
	})
}

// product yields all combinations of values of the axes, the first axis outermost.
func product(base gdn.Variant, axes []string) iter.Seq[gdn.Variant] {
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
		walk(base, axes)
	}
}

func (e *exhaustive) Close() error { return nil }

func (e *exhaustive) choose(_ context.Context, k *knowledge) *Proposal {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 0; ; i++ {
		if i == len(e.cells) && !e.draw() {
			return nil
		}
		if c := e.cells[i]; !k.known(c.fitted, c.text) && !k.closed(c.fitted) {
			return &Proposal{Variant: c.variant, Hypothesis: "a cell of the walk over all structures"}
		}
	}
}

// draw adds the next cell inside the space; false at the end of the walk.
func (e *exhaustive) draw() bool {
	for {
		v, ok := e.more()
		if !ok {
			return false
		}
		f := v.Fit(e.space.Spec)
		if !e.drawn[f] && e.space.inside(v) && (len(e.space.Axes) > 0 || v.Unsafe(e.space.Spec) == "") && Reaches(v.Precision().String(), e.space.Least) {
			e.drawn[f] = true
			e.cells = append(e.cells, cell{v, f, f.String()})
			return true
		}
	}
}
