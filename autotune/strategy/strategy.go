// Package strategy chooses what a search tries next. A strategy keeps no state of its own: its next proposal is a function
// of its space, the candidates judged so far and those under way, so a resumed run goes on as if it had never stopped.
package strategy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/gdn"
)

// Proposal is a variant to judge.
type Proposal struct {
	Variant    gdn.Variant
	Parent     int    // the candidate it was changed from; 0: none
	Hypothesis string // why it might be better
}

// Strategy proposes variants.
type Strategy interface {
	// Next gives a variant that, fitted to the spec, is neither judged nor pending. ok is false where there is none: for good where nothing is
	// pending, until more is judged otherwise.
	Next(judged journal.View, pending []gdn.Variant) (p Proposal, ok bool)
}

// Space is what strategies move in.
type Space struct {
	Spec  gdn.Spec
	Seeds []Seed            // proposed first, in order
	Axes  []string          // the axes that are walked; none: all
	Focus map[string]string // axes held at a value, also in the seeds
	Least string            // the lowest precision that is proposed; seeds may have others
	Seed  uint64            // of the order in which equals are tried
}

// Seed is a variant to begin with.
type Seed struct {
	Variant gdn.Variant
	Doc     string
}

// row is one kind of strategy.
type row struct {
	name, doc string
	parameter int // default; 0: takes none
	build     func(s Space, parameter int) Strategy
}

var rows = []row{
	{"exhaustive", "seeds, then every structural cell of the axes", 0, func(s Space, _ int) Strategy { return newExhaustive(s) }},
	{"beam", "seeds, then neighbours of the best N structural cells (beam:N); scalars are tuned inside these", 4,
		func(s Space, width int) Strategy { return &beam{s, width} }},
}

// Names lists the strategies and what they do.
func Names() (names, docs []string) {
	for _, r := range rows {
		names, docs = append(names, r.name), append(docs, r.doc)
	}
	return names, docs
}

// Parse makes a strategy from its text, such as exhaustive or beam:4.
func Parse(text string, s Space) (Strategy, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	name, argument, given := strings.Cut(text, ":")
	for _, r := range rows {
		if r.name != name {
			continue
		}
		parameter := r.parameter
		if given {
			n, err := strconv.Atoi(argument)
			if r.parameter == 0 || err != nil || n < 1 || n > 1000 {
				return nil, fmt.Errorf("strategy %q: %q is no parameter of %s (%s)", text, argument, name, r.doc)
			}
			parameter = n
		}
		return r.build(s, parameter), nil
	}
	names, _ := Names()
	return nil, fmt.Errorf("unknown strategy %q (known: %s)", text, strings.Join(names, " "))
}

func (s Space) check() error {
	for _, name := range s.Axes {
		if _, err := gdn.LookupAxis(name); err != nil {
			return err
		}
	}
	for name, value := range s.Focus {
		a, err := gdn.LookupAxis(name)
		if err != nil {
			return err
		}
		if !slices.Contains(a.Values, value) {
			return fmt.Errorf("focus: %s can not be %q (values: %s)", name, value, strings.Join(a.Values, " "))
		}
	}
	return nil
}

// Reaches says whether a precision is at least another one. An f32 product and bf16x6 count as equal, as their limits are.
func Reaches(precision, least string) bool {
	rank := map[string]int{"f32": 3, "bf16x6": 3, "bf16x3": 2, "bf16x1": 1}
	return rank[precision] >= rank[least]
}

// focus sets the held axes that apply.
func (s Space) focus(v gdn.Variant) gdn.Variant {
	for _, name := range slices.Sorted(maps.Keys(s.Focus)) {
		if w, err := v.With(name, s.Focus[name]); err == nil {
			v = w
		}
	}
	return v
}

// inside says whether v has the held values on all held axes that apply to it.
func (s Space) inside(v gdn.Variant) bool { return s.focus(v).Fit(s.Spec) == v.Fit(s.Spec) }

// walks says whether an axis may change.
func (s Space) walks(axis string) bool {
	_, held := s.Focus[axis]
	return !held && (len(s.Axes) == 0 || slices.Contains(s.Axes, axis))
}

// tried tells which variants are judged or pending.
func (s Space) tried(judged journal.View, pending []gdn.Variant) func(gdn.Variant) bool {
	under := map[gdn.Variant]bool{}
	for _, p := range pending {
		under[p.Fit(s.Spec)] = true
	}
	return func(v gdn.Variant) bool {
		v = v.Fit(s.Spec)
		_, ok := judged.Fitted(v.String())
		return ok || under[v]
	}
}

// seed is the first seed that is not tried.
func (s Space) seed(tried func(gdn.Variant) bool) (Proposal, bool) {
	for _, seed := range s.Seeds {
		if v := s.focus(seed.Variant); !tried(v) {
			return Proposal{Variant: v, Hypothesis: seed.Doc}, true
		}
	}
	return Proposal{}, false
}

// change names the axes in which two variants differ, as axis a -> b.
func change(from, to gdn.Variant) (text string, axes []gdn.Axis) {
	var parts []string
	for _, a := range gdn.Axes {
		x, y := a.Get(&from), a.Get(&to)
		if x != y && !(a.Name == "prec") {
			parts, axes = append(parts, fmt.Sprintf("%s %s -> %s", a.Name, x, y)), append(axes, a)
		}
	}
	return strings.Join(parts, ", "), axes
}
