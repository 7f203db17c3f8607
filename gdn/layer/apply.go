package layer

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/ir"
)

// Inserter is a backend that can put generated programs into its graphs (package kernels).
type Inserter interface {
	Variant(s gdn.Spec, auto string) (gdn.Variant, error) // the best known variant for an auto text
	Accepts(m *ir.Module) error
	Insert(m *ir.Module, inputs map[string]*Node) []*Node
}

// SpecInserter is an Inserter with its own programs for some forward specs.
type SpecInserter interface {
	Inserter
	AcceptsSpec(s gdn.Spec) error
	InsertSpec(s gdn.Spec, inputs map[string]*Node) []*Node // the outputs, in the order of s.Outputs
}

// DefaultVariant returns the best known variant for a spec on a backend.
func DefaultVariant(b compute.Backend, s gdn.Spec) (gdn.Variant, error) {
	return variantFor(b, s, gdn.Auto)
}

// variantFor parses a variant text. For an auto or empty text it returns the best known variant for a spec on a backend.
func variantFor(b compute.Backend, s gdn.Spec, text string) (gdn.Variant, error) {
	if text == "" {
		text = gdn.Auto
	}
	if _, ok := gdn.ParseAuto(text); !ok {
		return gdn.ParseVariant(text)
	}
	if k, ok := b.(Inserter); ok {
		if v, err := k.Variant(s, text); err == nil && v.Check(s) == nil {
			return v, nil
		}
	}
	return graphVariant(b, s, text)
}

// graphVariant returns the best known variant as graph code: with loops if the backend can slice at run time, else unrolled.
func graphVariant(b compute.Backend, s gdn.Spec, auto string) (gdn.Variant, error) {
	host := gdn.HostUnrolled
	if b.Capabilities().Operations[compute.OpTypeDynamicSlice] {
		host = gdn.HostLoops
	}
	choices, err := gdn.Choices(auto, s, host, gdn.Machine{})
	if err != nil {
		return gdn.Variant{}, err
	}
	return choices[0].Variant, nil
}

// Apply adds the program of a forward spec to the graph. inputs are named as in s.Inputs, results as in s.Outputs. Gradients by all inputs but indices come
// from the generated backward program on every backend. An Inserter takes both programs as they are; if it cannot take one, and on other
// backends, they become graph code. It fails if the variant cannot compute the spec, or an input is wrong.
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
		if programs.backward == nil {
			panic(fmt.Errorf("layer: %w", programs.missing))
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

// checkInputs compares the inputs with s.Inputs.
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

// choose builds the programs, and returns the function that puts one into the graph.
func choose(s gdn.Spec, v gdn.Variant, g *Graph) (*programs, func(m *ir.Module, inputs map[string]*Node) []*Node, error) {
	graphCode := func(m *ir.Module, inputs map[string]*Node) []*Node { return irgraph.Build(g, m, inputs) }
	k, ok := g.Backend().(Inserter)
	if !ok {
		p, err := compose(s, v, irgraph.Prepare)
		return p, graphCode, err
	}
	if own, ok := k.(SpecInserter); ok && own.AcceptsSpec(s) == nil {
		if p, err := halves(s, v); err == nil && p.backward != nil && k.Accepts(p.backward) == nil {
			return p, func(m *ir.Module, inputs map[string]*Node) []*Node {
				if m == p.forward {
					return own.InsertSpec(s, inputs)
				}
				return k.Insert(m, inputs)
			}, nil
		}
	}
	p, err := compose(s, v, nil)
	if err == nil && k.Accepts(p.forward) == nil && (p.backward == nil || k.Accepts(p.backward) == nil) {
		return p, k.Insert, nil
	}
	if p, err = compose(s, v, irgraph.Prepare); err != nil { // the variant needs kernels
		if v, err = graphVariant(g.Backend(), s, gdn.Auto); err == nil {
			p, err = compose(s, v, irgraph.Prepare)
		}
	}
	return p, graphCode, err
}

// programs are the forward and backward program of a training step. After its results the forward one returns values saved for the backward one.
type programs struct {
	forward, backward *ir.Module
	missing           error // why there is no backward program
}

type programKey struct {
	s        gdn.Spec
	v        gdn.Variant
	prepared bool
}

// built holds recently used programs, so that a graph of many layers builds each once. A server has a graph with its own program for each prompt length;
// programs of freed graphs are released here too.
var built = recent{most: 32}

// recent holds at most this many programs, the last used first.
type recent struct {
	sync.Mutex
	most int
	list []keyed
}

type keyed struct {
	key programKey
	*programs
}

// get returns the program of a key, or nil.
func (r *recent) get(key programKey) *programs {
	r.Lock()
	defer r.Unlock()
	i := slices.IndexFunc(r.list, func(k keyed) bool { return k.key == key })
	if i < 0 {
		return nil
	}
	k := r.list[i]
	r.list = slices.Insert(slices.Delete(r.list, i, i+1), 0, k)
	return k.programs
}

// put stores a program and drops the least recently used one.
func (r *recent) put(key programKey, p *programs) {
	r.Lock()
	defer r.Unlock()
	r.list = slices.DeleteFunc(r.list, func(k keyed) bool { return k.key == key }) // two graphs may have built it at once
	r.list = slices.Insert(r.list, 0, keyed{key, p})
	if len(r.list) > r.most {
		r.list = slices.Delete(r.list, r.most, len(r.list))
	}
}

// compose builds the programs and applies prepare, unless it is nil.
func compose(s gdn.Spec, v gdn.Variant, prepare func(*ir.Module) (*ir.Module, error)) (*programs, error) {
	key := programKey{s, v, prepare != nil}
	if p := built.get(key); p != nil {
		return p, nil
	}
	p, err := modules(s, v)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	for _, m := range []**ir.Module{&p.forward, &p.backward} {
		if prepare == nil || *m == nil {
			continue
		}
		if *m, err = prepare(*m); err != nil {
			return nil, err
		}
	}
	built.put(key, p)
	return p, nil
}

// modules builds forward and backward programs, with values saved by the forward one. Variants without saved values, such as the token
// recurrence, compute gradients from the inputs alone.
func modules(s gdn.Spec, v gdn.Variant) (*programs, error) {
	step := s
	step.Direction = gdn.Train
	if v.Algo == gdn.AlgoToken || step.Validate() != nil {
		return halves(s, v)
	}
	forward, backward, err := build.Training(s, v)
	if bad := (*gdn.UnsupportedError)(nil); errors.As(err, &bad) {
		return halves(s, v)
	}
	return &programs{forward: forward, backward: backward}, err
}

// halves builds a forward program that saves nothing, and a chunkwise backward program from the inputs alone, if there is one.
func halves(s gdn.Spec, v gdn.Variant) (p *programs, err error) {
	p = new(programs)
	if p.forward, err = build.Module(s, v); err != nil {
		return nil, err
	}
	s.Direction = gdn.Backward
	chunks, err := gdn.Choices(gdn.Auto+",save=none", s, gdn.HostLoops, gdn.Machine{})
	if err == nil {
		p.backward, err = build.Module(s, chunks[0].Variant)
	}
	p.missing = err
	return p, nil
}
