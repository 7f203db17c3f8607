// Package mutant makes wrong kernels from right ones, to test accuracy tests: it puts one fault into a module. The
// faults are edits of the IR, so they apply to any variant; strengths and places are random.
package mutant

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Mutant is a fault.
type Mutant struct {
	Name, Doc string
	// Applies reports whether the fault changes the results of a spec, for modules that it can edit.
	Applies func(gdn.Spec) bool
	edit    func(*edit) (*ir.Module, error)
}

// NoPlaceError says that a module has no place for the fault.
type NoPlaceError struct{ Mutant, What string }

func (e *NoPlaceError) Error() string {
	return fmt.Sprintf("mutant %s: the module has no %s", e.Mutant, e.What)
}

// Apply puts the fault into the module of a forward spec, and describes the strength and place drawn.
func (m Mutant) Apply(module *ir.Module, s gdn.Spec, r *rand.Rand) (wrong *ir.Module, drawn string, err error) {
	e := &edit{name: m.Name, m: module, s: s, r: r}
	wrong, err = m.edit(e)
	return wrong, e.drawn, err
}

// edit is one application.
type edit struct {
	name  string
	m     *ir.Module
	s     gdn.Spec
	r     *rand.Rand
	drawn string
}

// between draws a strength.
func (e *edit) between(low, high float64) float64 {
	x := low + (high-low)*e.r.Float64()
	e.drawn = fmt.Sprintf("%.4g", x)
	return x
}

func always(gdn.Spec) bool { return true }

func given(s gdn.Spec) bool { return s.Gates == gdn.GatesGiven }

func longerThan(tokens int) func(gdn.Spec) bool {
	return func(s gdn.Spec) bool { return s.Tokens > tokens }
}

// All lists the faults.
var All = []Mutant{
	{"leak", "the state loses .1 to 1 % at each chunk", longerThan(128), func(e *edit) (*ir.Module, error) { return e.leak(.001, .01) }},
	{"leak.1", "the state loses .1 % at each chunk", longerThan(128), func(e *edit) (*ir.Module, error) { return e.leak(.001, .001) }},
	{"leak.3", "the state loses .3 % at each chunk", longerThan(128), func(e *edit) (*ir.Module, error) { return e.leak(.003, .003) }},
	{"leak.5", "the state loses .5 % at each chunk", longerThan(128), func(e *edit) (*ir.Module, error) { return e.leak(.005, .005) }},
	{"leak10", "the state loses 10 % at each chunk", longerThan(128), func(e *edit) (*ir.Module, error) { return e.leak(.1, .1) }},
	{"scale", "the output is off by .3 to 1 %", always, func(e *edit) (*ir.Module, error) {
		by := e.between(.003, .01)
		if e.r.IntN(2) == 0 {
			by = -by
		}
		return e.results(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
			if name != "o" {
				return x
			}
			return b.Convert(b.Scale(b.Convert(x, ir.F32), 1+by), x.Type.DType)
		})
	}},
	{"clamp", "the log decay is clamped at -2 to -5", given, func(e *edit) (*ir.Module, error) { return e.clamp(-e.between(2, 5)) }},
	{"clamp5", "the log decay is clamped at -5", given, func(e *edit) (*ir.Module, error) { return e.clamp(-5) }},
	{"rounded", "the state is rounded to bf16 at each chunk", longerThan(256), func(e *edit) (*ir.Module, error) {
		return e.updates(func(b *ir.Builder, x *ir.Value) *ir.Value { return b.Convert(b.Convert(x, ir.BF16), x.Type.DType) })
	}},
	{"late gate", "each token has the log decay of the token before", given, func(e *edit) (*ir.Module, error) {
		return e.params(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
			if name != "g" {
				return x
			}
			axis := x.Type.Rank() - 2
			return b.Concat(axis, b.SliceAxis(x, axis, 0, 1), b.SliceAxis(x, axis, 0, e.s.Tokens-1))
		})
	}},
	{"neighbour", "one value head has the log decay of its neighbour", func(s gdn.Spec) bool { return given(s) && s.HeadsV > 1 }, (*edit).neighbour},
	{"last token", "the last token of a chunk is not written into the state", longerThan(1), (*edit).lastToken},
	{"stale", "outputs and updates see the state of the chunk before the last one", longerThan(256), (*edit).stale},
	{"bf16 sums", "products are summed in bf16, 16 terms at a time", always, (*edit).sums},
	{"beta 1", "beta is clamped at 1", func(s gdn.Spec) bool { return given(s) && s.NegEigval }, func(e *edit) (*ir.Module, error) {
		return e.params(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
			if name != "beta" {
				return x
			}
			return b.Min(x, b.Like(x, 1))
		})
	}},
	{"second row", "the second of two batch rows has an input of the first", func(s gdn.Spec) bool { return s.Batch > 1 }, (*edit).secondRow},
}

// params rewrites the parameters.
func (e *edit) params(f func(b *ir.Builder, name string, x *ir.Value) *ir.Value) (*ir.Module, error) {
	return e.around(f, nil)
}

// results rewrites the results.
func (e *edit) results(f func(b *ir.Builder, name string, x *ir.Value) *ir.Value) (*ir.Module, error) {
	return e.around(nil, f)
}

// around puts instructions before and after all others.
func (e *edit) around(before, after func(b *ir.Builder, name string, x *ir.Value) *ir.Value) (*ir.Module, error) {
	n, b := ir.NewModule(e.m.Name)
	n.Reuse = slices.Clone(e.m.Reuse)
	var args []*ir.Value
	for _, p := range e.m.Params() {
		args = append(args, b.Param(p.Name, passes.CloneType(p.Type)))
	}
	b.Stage("glue")
	if before != nil {
		for i, x := range args {
			args[i] = before(b, x.Name, x)
		}
	}
	results := passes.Inline(b, e.m, args)
	b.Stage("glue")
	if after != nil {
		for i, name := range e.m.Results {
			results[i] = after(b, name, results[i])
		}
	}
	if err := b.Finish(n, slices.Clone(e.m.Results), results); err != nil {
		return nil, fmt.Errorf("mutant %s: %w", e.name, err)
	}
	return n, nil
}

// clamp limits the log decay from below.
func (e *edit) clamp(least float64) (*ir.Module, error) {
	return e.params(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
		if name != "g" {
			return x
		}
		return b.Max(x, b.Like(x, least))
	})
}

func (e *edit) leak(least, most float64) (*ir.Module, error) {
	by := e.between(least, most)
	return e.updates(func(b *ir.Builder, x *ir.Value) *ir.Value { return b.Scale(x, 1-by) })
}

// neighbour gives a value head the decays of the next.
func (e *edit) neighbour() (*ir.Module, error) {
	h := e.r.IntN(e.s.HeadsV)
	e.drawn = fmt.Sprintf("value head %d", h)
	from := (h + 1) % e.s.HeadsV
	return e.params(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
		if name != "g" {
			return x
		}
		axis := x.Type.Rank() - 1
		var l []*ir.Value
		for i := range e.s.HeadsV {
			at := i
			if i == h {
				at = from
			}
			l = append(l, b.SliceAxis(x, axis, at, at+1))
		}
		return b.Concat(axis, l...)
	})
}

// secondRow gives the second batch row the keys, values or a gate of the first.
func (e *edit) secondRow() (*ir.Module, error) {
	var names []string
	for _, p := range e.m.Params() {
		if p.Type.Rank() > 2 && p.Type.Shape[0] == e.s.Batch && p.Name != "initial_state" && p.Name != "initial_conv" {
			names = append(names, p.Name)
		}
	}
	from := names[e.r.IntN(len(names))]
	e.drawn = from
	return e.params(func(b *ir.Builder, name string, x *ir.Value) *ir.Value {
		if name != from {
			return x
		}
		first := b.SliceAxis(x, 0, 0, 1)
		l := []*ir.Value{first, first}
		if e.s.Batch > 2 {
			l = append(l, b.SliceAxis(x, 0, 2, e.s.Batch))
		}
		return b.Concat(0, l...)
	})
}
