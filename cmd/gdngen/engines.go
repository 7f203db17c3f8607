package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// compute gives the outputs of a spec, by name, from its inputs.
type compute func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error)

// computeLayer gives the outputs of a whole layer.
type computeLayer func(c gdn.LayerCase, inputs map[string]*array.Array) (map[string]*array.Array, error)

// plan says what an engine computes.
type plan struct {
	text   string          // of the variant, as it was given; auto follows from spec and target
	target *codegen.Target // nil where none is named: auto is then for a CPU
	level  string          // of the interpreter: tensor or kernel

	tell func(*lower.Form) // what is said of a form that was chosen; nil: nothing
}

// newPlan reads the flags of a command. Without a level the interpreter takes the lowered kernels where a target is named.
func newPlan(variant, target, level, engine string) (plan, error) {
	p := plan{text: variant, level: level}
	err := checkText(variant)
	if err != nil {
		return p, err
	}
	if target != "" {
		if p.target, err = oneTarget(target); err != nil {
			return p, err
		}
	}
	switch {
	case level != "" && engine != "interp":
		return p, usage(errors.New("--level goes with --engine interp"))
	case level != "" && level != "tensor" && level != "kernel":
		return p, usage(fmt.Errorf("unknown level %q (known: tensor kernel)", level))
	case engine == "module" && p.target == nil:
		p.target, err = codegen.LookupTarget(defaultTarget)
	case engine == "interp" && level == "":
		if p.level = "tensor"; p.target != nil {
			p.level = "kernel"
		}
	}
	return p, err
}

// form is a spec by the variant; auto is the best known on the target, or without one on a CPU.
func (p plan) form(s gdn.Spec) (*lower.Form, error) {
	f, err := suit(s, p.text, lower.Route{Kernels: p.target != nil}, p.target)
	if err == nil && p.tell != nil {
		p.tell(f)
	}
	return f, err
}

// auto says whether the variant follows from the spec.
func (p plan) auto() bool {
	_, ok := gdn.ParseAuto(p.text)
	return ok
}

// precision is that of the variant for a spec.
func (p plan) precision(s gdn.Spec) (string, error) {
	if p.auto() && p.target == nil {
		return ir.PrecF32.String(), nil
	}
	f, err := p.form(s)
	if err != nil {
		return "", err
	}
	return f.Variant.Precision().String(), nil
}

// targetName is empty where none is named.
func (p plan) targetName() string {
	if p.target == nil {
		return ""
	}
	return p.target.Name
}

// engines are the ways to compute outputs.
var engines = []struct {
	name, doc string
	make      func(*app, plan) (compute, error)
	layer     func(*app, plan) (computeLayer, error) // nil where the engine has no layers
}{
	{"reference", "float64, token by token, no variant", func(*app, plan) (compute, error) { return gdn.Reference, nil }, nil},
	{"interp", "the interpreter of the intermediate representation: the definition of every op; with --target of the lowered kernels", func(_ *app, p plan) (compute, error) { return p.interpret, nil }, nil},
	{"module", "the emitted program of a TPU, from its text alone; v6e without --target", (*app).textCompute, nil},
	{"cpu", "the StableHLO program, compiled and run on this machine's CPU", (*app).cpuCompute, nil},
	{deviceEngine, "the program on the device of --plugin, in a process of its own: kernels where it is a TPU, else StableHLO", (*app).deviceCompute, nil},
	{"gomlx", "GoMLX graph code on the backend of GOMLX_BACKEND, or xla; whole layers too", (*app).graphCompute, (*app).graphLayer},
}

// interpret computes a spec by the interpreter, at the plan's level.
func (p plan) interpret(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	f, err := p.form(s)
	if err != nil {
		return nil, err
	}
	m, err := f.Build()
	if err == nil && p.level == levelKernel {
		m, err = f.Kernels()
	}
	if err != nil {
		return nil, err
	}
	return interp.Run(m, inputs, interp.Options{})
}

// textCompute computes specs from the text that is emitted for the plan's target, and tells what of it the inputs do not reach.
func (a *app) textCompute(p plan) (compute, error) {
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		f, err := p.form(s)
		if err != nil {
			return nil, err
		}
		artifact, err := lower.Program(s, f.Variant, "mosaic", p.target)
		if err != nil {
			return nil, err
		}
		program, err := eval.Parse(artifact.Text)
		if err != nil {
			return nil, err
		}
		outputs, err := named(s, inputs, program.Run)
		for _, k := range program.Kernels {
			if idle, all := k.Idle(); err == nil && len(idle) > 0 {
				a.note("kernel %s: these inputs do not reach %d of its %d operations, the first at %s", k.Name, len(idle), all, idle[0].Where())
			}
		}
		return outputs, err
	}, nil
}

// named runs a program that takes and gives arrays in the order of a spec.
func named(s gdn.Spec, inputs map[string]*array.Array, run func(...*array.Array) ([]*array.Array, error)) (map[string]*array.Array, error) {
	var list []*array.Array
	for _, p := range s.Inputs() {
		list = append(list, inputs[p.Name])
	}
	results, err := run(list...)
	if err != nil {
		return nil, err
	}
	outputs := map[string]*array.Array{}
	for i, p := range s.Outputs() {
		outputs[p.Name] = results[i]
	}
	return outputs, nil
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
func (a *app) findEngine(name string, p plan) (compute, computeLayer, error) {
	for _, e := range engines {
		if e.name != name {
			continue
		}
		f, err := e.make(a, p)
		if err != nil || e.layer == nil {
			return f, nil, err
		}
		l, err := e.layer(a, p)
		return f, l, err
	}
	return nil, nil, usage(fmt.Errorf("unknown engine %q%s (known: %s)", name, near(name, engineNames(), ""), strings.Join(engineNames(), " ")))
}

// cpuCompute compiles and runs the StableHLO program of each spec it is given.
func (a *app) cpuCompute(p plan) (compute, error) {
	engine, err := a.cpu()
	if err != nil {
		return nil, err
	}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		f, err := p.form(s)
		if err != nil {
			return nil, err
		}
		artifact, err := lower.Program(s, f.Variant, "stablehlo", nil)
		if err != nil {
			return nil, err
		}
		program, err := engine.Compile(artifact.Text)
		if err != nil {
			return nil, err
		}
		defer program.Close()
		return named(s, inputs, program.Run)
	}, nil
}
