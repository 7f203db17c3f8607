package main

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// compute gives the outputs of a spec, by name, from its inputs.
type compute func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error)

// computeLayer gives the outputs of a whole layer.
type computeLayer func(c gdn.LayerCase, inputs map[string]*array.Array) (map[string]*array.Array, error)

// engines are the ways to compute outputs.
var engines = []struct {
	name, doc string
	make      func(*app, gdn.Variant) (compute, error)
	layer     func(*app, gdn.Variant) (computeLayer, error) // nil where the engine has no layers
}{
	{"reference", "float64, token by token, no variant", func(*app, gdn.Variant) (compute, error) { return gdn.Reference, nil }, nil},
	{"interp", "the interpreter of the intermediate representation: the definition of every op", func(_ *app, v gdn.Variant) (compute, error) {
		return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
			m, err := gdn.Build(s, v)
			if err != nil {
				return nil, err
			}
			return interp.Run(m, inputs, interp.Options{})
		}, nil
	}, nil},
	{"cpu", "the StableHLO program, compiled and run on this machine's CPU", (*app).cpuCompute, nil},
	{"gomlx", "GoMLX graph code on the backend of GOMLX_BACKEND, or xla; whole layers too", (*app).graphCompute, (*app).graphLayer},
}

func engineNames() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

func engineHelp() string {
	var parts []string
	for _, e := range engines {
		parts = append(parts, e.name+" ("+e.doc+")")
	}
	return strings.Join(parts, ", ")
}

// findEngine makes an engine by name.
func (a *app) findEngine(name string, v gdn.Variant) (compute, computeLayer, error) {
	for _, e := range engines {
		if e.name != name {
			continue
		}
		f, err := e.make(a, v)
		if err != nil || e.layer == nil {
			return f, nil, err
		}
		l, err := e.layer(a, v)
		return f, l, err
	}
	return nil, nil, usage(fmt.Errorf("unknown engine %q%s (known: %s)", name, near(name, engineNames(), ""), strings.Join(engineNames(), " ")))
}

// cpuCompute compiles and runs the StableHLO program of each spec it is given.
func (a *app) cpuCompute(v gdn.Variant) (compute, error) {
	engine, err := a.cpu()
	if err != nil {
		return nil, err
	}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		artifact, err := lower.Program(s, v, "stablehlo", nil)
		if err != nil {
			return nil, err
		}
		program, err := engine.Compile(artifact.Text)
		if err != nil {
			return nil, err
		}
		defer program.Close()
		var list []*array.Array
		for _, p := range s.Inputs() {
			list = append(list, inputs[p.Name])
		}
		results, err := program.Run(list...)
		if err != nil {
			return nil, err
		}
		outputs := map[string]*array.Array{}
		for i, p := range s.Outputs() {
			outputs[p.Name] = results[i]
		}
		return outputs, nil
	}, nil
}
