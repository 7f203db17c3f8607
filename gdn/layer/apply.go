package layer

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/gomlx/backends"
	. "github.com/gomlx/gomlx/pkg/core/graph"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/ir"
)

// Variants that compute the rule in graph code: the fastest known of each backend. A backend that slices at run time gets
// one loop over short chunks. Elsewhere loops are unrolled, so all that needs no state is done at once for all chunks.
const (
	VariantDynamic  = "chunk=32,layout=token,kq=joined"
	VariantUnrolled = "chunk=64,flow=split,form=uw"
	VariantStep     = "algo=token,chunk=8,layout=token"
)

// Inserter is a backend that takes generated programs into its graphs (package kernels).
type Inserter interface {
	Variant(s gdn.Spec) (gdn.Variant, error)
	Accepts(m *ir.Module) error
	Insert(m *ir.Module, inputs map[string]*Node) []*Node
}

// DefaultVariant is the variant for a spec on a backend.
func DefaultVariant(b backends.Backend, s gdn.Spec) (gdn.Variant, error) {
	if k, ok := b.(Inserter); ok {
		if v, err := k.Variant(s); err == nil && v.Check(s) == nil {
			return v, nil
		}
	}
	return graphVariant(b, s)
}

// graphVariant is the variant that suits graph code.
func graphVariant(b backends.Backend, s gdn.Spec) (gdn.Variant, error) {
	text := VariantUnrolled
	switch {
	case s.Tokens == 1:
		text = VariantStep
	case b.Capabilities().Operations[backends.OpTypeDynamicSlice]:
		text = VariantDynamic
	}
	return gdn.ParseVariant(text)
}

// Apply adds the program of a forward spec by a variant to a graph. Inputs are by the names of s.Inputs, results by those of
// s.Outputs. Gradients with respect to all inputs but indices are the generated backward program's, whatever the backend.
// An Inserter gets both programs as they are; where it can not take one, and on other backends, they become graph code.
// An error says that the variant can not compute the spec, or which input is wrong.
func Apply(s gdn.Spec, v gdn.Variant, inputs map[string]*Node) (map[string]*Node, error) {
	if s.Direction != gdn.Forward {
		return nil, fmt.Errorf("layer: the direction is %v: ask for a forward spec, its gradients come with it", s.Direction)
	}
	if err := checkInputs(s, inputs); err != nil {
		return nil, err
	}
	programs, place, err := choose(s, v, inputs["q"].Graph())
	if err != nil {
		return nil, err
	}
	var indices []*Node // not differentiable
	var names, fixed []string
	var args []*Node
	for _, p := range s.Inputs() {
		if p.Type.DType.IsFloat() {
			names, args = append(names, p.Name), append(args, inputs[p.Name])
		} else {
			fixed, indices = append(fixed, p.Name), append(indices, inputs[p.Name])
		}
	}
	named := func(args []*Node) map[string]*Node {
		m := map[string]*Node{}
		for i, n := range fixed {
			m[n] = indices[i]
		}
		for i, n := range names {
			m[n] = args[i]
		}
		return m
	}
	outs := s.Outputs()
	var kept map[string]*Node
	var stopped map[string]*Node
	results := withGradient(args, func(args []*Node) []*Node {
		stopped, kept = named(args), map[string]*Node{}
		all := place(programs.forward, stopped)
		for i, n := range programs.forward.Results[len(outs):] {
			kept[n] = all[len(outs)+i]
		}
		return all[:len(outs)]
	}, func(adjoints []*Node) []*Node {
		in := map[string]*Node{}
		for _, m := range []map[string]*Node{stopped, kept} {
			for n, x := range m {
				in[n] = x
			}
		}
		for i, o := range outs {
			in["d"+o.Name] = adjoints[i]
		}
		grads := place(programs.backward, in)
		out := make([]*Node, len(names))
		for i, n := range names {
			if j := slices.Index(programs.backward.Results, "d"+n); j >= 0 {
				out[i] = grads[j]
			}
		}
		return out
	})
	m := map[string]*Node{}
	for i, o := range outs {
		m[o.Name] = results[i]
	}
	return m, nil
}

// checkInputs compares the inputs with those of the spec.
func checkInputs(s gdn.Spec, inputs map[string]*Node) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("layer: %w", err)
	}
	for _, p := range s.Inputs() {
		n := inputs[p.Name]
		if n == nil {
			return fmt.Errorf("layer: input %s is missing, want %v", p.Name, p.Type)
		}
		if want := irgraph.Shape(p.Type); !n.Shape().Equal(want) {
			return fmt.Errorf("layer: input %s is %s, want %s", p.Name, n.Shape(), want)
		}
	}
	return nil
}

// choose builds the programs, and says how they are put into the graph.
func choose(s gdn.Spec, v gdn.Variant, g *Graph) (*programs, func(m *ir.Module, inputs map[string]*Node) []*Node, error) {
	graphCode := func(m *ir.Module, inputs map[string]*Node) []*Node { return irgraph.Build(g, m, inputs) }
	k, ok := g.Backend().(Inserter)
	if !ok {
		p, err := build(s, v, irgraph.Prepare)
		return p, graphCode, err
	}
	p, err := build(s, v, nil)
	if err == nil && k.Accepts(p.forward) == nil && k.Accepts(p.backward) == nil {
		return p, k.Insert, nil
	}
	if p, err = build(s, v, irgraph.Prepare); err != nil { // the variant is for kernels
		if v, err = graphVariant(g.Backend(), s); err == nil {
			p, err = build(s, v, irgraph.Prepare)
		}
	}
	return p, graphCode, err
}

// programs are the two halves of a training step. The forward one gives what the backward one reads after its results.
type programs struct {
	forward, backward *ir.Module
}

type programKey struct {
	s        gdn.Spec
	v        gdn.Variant
	prepared bool
}

var built sync.Map // programKey -> *programs: a graph of many layers builds each program once

// build makes the programs, prepared by a function or, where that is nil, as they are.
func build(s gdn.Spec, v gdn.Variant, prepare func(*ir.Module) (*ir.Module, error)) (*programs, error) {
	key := programKey{s, v, prepare != nil}
	if p, ok := built.Load(key); ok {
		return p.(*programs), nil
	}
	forward, backward, err := modules(s, v)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	p := &programs{forward, backward}
	if prepare != nil {
		if p.forward, err = prepare(forward); err != nil {
			return nil, err
		}
		if p.backward, err = prepare(backward); err != nil {
			return nil, err
		}
	}
	built.Store(key, p)
	return p, nil
}

// modules builds the two halves. There are no gradients by the token recurrence, so those of its results are computed in
// chunks, from the inputs alone.
func modules(s gdn.Spec, v gdn.Variant) (forward, backward *ir.Module, err error) {
	if v.Algo != gdn.AlgoToken {
		return gdn.BuildTraining(s, v)
	}
	if forward, err = gdn.Build(s, v); err != nil {
		return nil, nil, err
	}
	chunks, err := gdn.ParseVariant(VariantDynamic + ",save=none")
	if err != nil {
		return nil, nil, err
	}
	s.Direction = gdn.Backward
	backward, err = gdn.Build(s, chunks)
	return forward, backward, err
}
