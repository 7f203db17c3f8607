// Package engine computes the outputs of specs in several ways, rows of one table: by the float64 reference, by the interpreter, from the text
// of an emitted program, and by programs that run on a CPU, on a device or as GoMLX graph code. All map arrays by name.
package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gdngen/gdngen/codegen/mosaic/eval"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
)

// Compute returns the outputs of a spec, by name, for inputs by name.
type Compute func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error)

// ComputeLayer returns the outputs of a whole layer.
type ComputeLayer func(c truth.LayerCase, inputs map[string]*array.Array) (map[string]*array.Array, error)

// Plan says which program an engine computes: variant, target and level.
type Plan struct {
	Text   string         // the variant as given; auto depends on spec and target
	Target *target.Target // nil if none is named: auto is then for a CPU
	Level  string         // of the interpreter: Tensor or Kernel
	PTX    Kernels        // of an attached GPU whose StableHLO programs hold kernels; nil: programs of plain ops

	Resolve func(s gdn.Spec, text string, t *target.Target) (*route.Form, error) // resolves Text for a spec; t is nil for a CPU
	Tell    func(*route.Form)                                                    // called for each resolved form; nil: never
}

// Kernels makes StableHLO programs with kernels inside, by the best known variant. A *ptx.Maker is one.
type Kernels interface {
	Supports(s gdn.Spec) error // why no kernel takes a spec, or nil
	Variant(s gdn.Spec) string
	Precision(s gdn.Spec) string
	Text(ctx context.Context, s gdn.Spec) (string, error)
}

// Form resolves the plan's variant for a spec. auto is the best known on the target; without a target, on a CPU.
func (p Plan) Form(s gdn.Spec) (*route.Form, error) {
	f, err := p.Resolve(s, p.Text, p.Target)
	if err == nil && p.Tell != nil {
		p.Tell(f)
	}
	return f, err
}

// Auto reports whether the variant depends on the spec.
func (p Plan) Auto() bool {
	_, ok := gdn.ParseAuto(p.Text)
	return ok
}

// ByPTX reports whether the spec is computed by PTX kernels inside StableHLO: the plan has them, its variant is auto,
// and they support the spec.
func (p Plan) ByPTX(s gdn.Spec) bool {
	return p.PTX != nil && p.Text == gdn.Auto && p.PTX.Supports(s) == nil
}

// Describe returns the variant and the precision by which a spec is computed, and why the variant is unsafe (empty: it is safe).
func (p Plan) Describe(s gdn.Spec, v gdn.Variant) (variant, precision, unsafe string) {
	if p.ByPTX(s) {
		return p.PTX.Variant(s), p.PTX.Precision(s), ""
	}
	return v.String(), v.Precision().String(), v.Unsafe(s)
}

// Precision returns the precision of the plan's variant for a spec.
func (p Plan) Precision(s gdn.Spec) (string, error) {
	if p.ByPTX(s) {
		return p.PTX.Precision(s), nil
	}
	if p.Auto() && p.Target == nil {
		return ir.PrecF32.String(), nil
	}
	f, err := p.Form(s)
	if err != nil {
		return "", err
	}
	return f.Variant.Precision().String(), nil
}

// TargetName returns the target's name, or "" if there is no target.
func (p Plan) TargetName() string {
	if p.Target == nil {
		return ""
	}
	return p.Target.Name
}

// The levels of the intermediate representation at which the interpreter can run a program.
const (
	Tensor = "tensor"
	Kernel = "kernel" // after the lowering of grids
)

// Env opens the backends that engines need.
type Env struct {
	Context context.Context
	CPU     func() (*pjrt.Engine, error)     // opens this machine's CPU plugin
	Graphs  func() (compute.Backend, error)  // opens a GoMLX backend
	Runner  *device.Runner                   // nil if no device is attached
	Note    func(format string, args ...any) // receives limits of a result, such as tensors left out
}

// Device names the engine that runs on a device.
const Device = "device"

// Engine is a way to compute outputs.
type Engine struct {
	Name, Doc string

	compute func(*Env, Plan) (Compute, error)
	layer   func(*Env, Plan) (ComputeLayer, error) // nil if the engine computes no layers
}

// Engines are the ways to compute outputs.
var Engines = []Engine{
	{"reference", "float64, token by token, no variant", func(*Env, Plan) (Compute, error) { return truth.Reference, nil }, nil},
	{"interp", "the interpreter of the intermediate representation, which defines every op; with --target it runs the lowered kernels", func(_ *Env, p Plan) (Compute, error) { return p.interpret, nil }, nil},
	{"module", "the emitted program of a TPU, from its text alone; v6e without --target", (*Env).textCompute, nil},
	{"cpu", "the StableHLO program, compiled and run on this machine's CPU", (*Env).cpuCompute, nil},
	{Device, "the program on the device of --plugin, in a process of its own: kernels where it is a TPU or a GPU that is a target, else StableHLO", (*Env).deviceCompute, nil},
	{"gomlx", "GoMLX graph code on the backend of GOMLX_BACKEND, or xla; whole layers too", (*Env).graphCompute, (*Env).graphLayer},
}

// interpret computes a spec by the interpreter, at the plan's level.
func (p Plan) interpret(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	f, err := p.Form(s)
	if err != nil {
		return nil, err
	}
	m, err := f.Build()
	if err == nil && p.Level == Kernel {
		m, err = f.Kernels()
	}
	if err != nil {
		return nil, err
	}
	return interp.Run(m, inputs, interp.Options{})
}

// textCompute computes specs from the text emitted for the plan's target, and notes the parts of the text that the inputs do not reach.
func (x *Env) textCompute(p Plan) (Compute, error) {
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		f, err := p.Form(s)
		if err != nil {
			return nil, err
		}
		artifact, err := route.Program(s, f.Variant, "mosaic", p.Target)
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
				x.Note("kernel %s: these inputs do not reach %d of its %d operations, the first at %s", k.Name, len(idle), all, idle[0].Where())
			}
		}
		return outputs, err
	}, nil
}

// named runs a program whose arguments and results are in the order of a spec's parameters.
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

// cpuCompute compiles and runs the StableHLO program of each spec it is given.
func (x *Env) cpuCompute(p Plan) (Compute, error) {
	cpu, err := x.CPU()
	if err != nil {
		return nil, err
	}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		f, err := p.Form(s)
		if err != nil {
			return nil, err
		}
		artifact, err := route.Program(s, f.Variant, "stablehlo", nil)
		if err != nil {
			return nil, err
		}
		program, err := cpu.Compile(artifact.Text)
		if err != nil {
			return nil, err
		}
		defer program.Close()
		return named(s, inputs, program.Run)
	}, nil
}

// deviceCompute runs the program of each spec on the device.
func (x *Env) deviceCompute(p Plan) (Compute, error) {
	modules := map[gdn.Spec]*ir.Module{}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		if p.ByPTX(s) {
			text, err := p.PTX.Text(x.Context, s)
			if err != nil {
				return nil, err
			}
			return named(s, inputs, func(args ...*array.Array) ([]*array.Array, error) { return x.Runner.RunText(x.Context, text, args...) })
		}
		m := modules[s]
		if m == nil {
			f, err := p.Form(s)
			if err != nil {
				return nil, err
			}
			if m, err = f.Build(); err != nil {
				return nil, err
			}
			modules[s] = m
		}
		return x.Runner.Run(x.Context, m, inputs)
	}, nil
}

// graphCompute computes specs as GoMLX graph code, gradients by GoMLX's reverse pass.
func (x *Env) graphCompute(p Plan) (Compute, error) {
	b, err := x.Graphs()
	if err != nil {
		return nil, err
	}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		if p.Auto() && p.Target == nil { // auto: the best variant in graph code
			return layer.Compute(b, s, nil, inputs)
		}
		f, err := p.Form(s)
		if err != nil {
			return nil, err
		}
		return layer.Compute(b, s, &f.Variant, inputs)
	}, nil
}

// graphLayer computes whole layers.
func (x *Env) graphLayer(p Plan) (ComputeLayer, error) {
	b, err := x.Graphs()
	if err != nil {
		return nil, err
	}
	return func(c truth.LayerCase, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return layer.ComputeLayer(b, c, p.Text, inputs)
	}, nil
}

// Names lists the engines.
func Names() []string {
	var names []string
	for _, e := range Engines {
		names = append(names, e.Name)
	}
	return names
}

// Help describes the engines, one a line.
func Help() string {
	var b strings.Builder
	for _, e := range Engines {
		fmt.Fprintf(&b, "\n  %-12s %s", e.Name, e.Doc)
	}
	return b.String()
}

// Find returns the functions of an engine by name. The ComputeLayer is nil if the engine has none. An unknown name is an *UnknownError.
func (x *Env) Find(name string, p Plan) (Compute, ComputeLayer, error) {
	for _, e := range Engines {
		if e.Name != name {
			continue
		}
		f, err := e.compute(x, p)
		if err != nil || e.layer == nil {
			return f, nil, err
		}
		l, err := e.layer(x, p)
		return f, l, err
	}
	return nil, nil, &UnknownError{name}
}

// UnknownError says that no engine has a name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown engine %q (known: %s)", e.Name, strings.Join(Names(), " "))
}
