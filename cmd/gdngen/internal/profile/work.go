package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Work is the content of a step: the kernel of a spec, or the pieces of a training step of a model.
type Work struct {
	Spec    gdn.Spec // of the kernel, or of the rule in the model
	Model   *model.Config
	Variant gdn.Variant
	Tokens  int // of a step
	Modules []mfu.Module

	// Losses of the training steps before the profiled ones.
	Losses []float64

	arguments func(*ir.Module) ([]*array.Array, error)
	programs  map[string]*device.Program // by the hash of the module
}

// load compiles a module for the device, once.
func (w *Work) load(ctx context.Context, d *device.Device, m *ir.Module) (*device.Program, error) {
	p := w.programs[m.Hash()]
	if p == nil {
		var err error
		if p, err = d.Load(ctx, m); err != nil {
			return nil, err
		}
		if w.programs == nil {
			w.programs = map[string]*device.Program{}
		}
		w.programs[m.Hash()] = p
	}
	return p, nil
}

// class is the class of a kernel's inputs: values do not change the kernel's work.
const class = "random"

// Kernel returns the work of a spec with a variant.
func Kernel(s gdn.Spec, v gdn.Variant) (*Work, error) {
	c, err := truth.LookupClass(class)
	if err != nil {
		return nil, err
	}
	inputs, err := c.Generate(s, 1)
	if err != nil {
		return nil, err
	}
	one := mfu.Module{Name: "kernel", Times: 1, Flops: s.Flops(model.RuleChunk), Rule: true,
		Build: func(v gdn.Variant) (*ir.Module, error) { return build.Module(s, v) }}
	return &Work{Spec: s, Variant: v, Tokens: s.Batch * s.Tokens, Modules: []mfu.Module{one}, arguments: func(m *ir.Module) (args []*array.Array, err error) {
		for _, p := range m.Params() {
			args = append(args, inputs[p.Name])
		}
		return args, nil
	}}, nil
}

// Step returns the work of a model's training step: layers forwards, the loss, layers backwards, and the optimiser; or
// with forward only the forward pass. Weights and activations are small random numbers, the same in every step, until
// Train. Pieces run one after another, each as often as in a step.
func Step(c model.Config, v gdn.Variant, forward bool) *Work {
	w := &Work{Spec: c.Spec(), Model: &c, Variant: v, Tokens: c.Batch * c.Tokens, Modules: mfu.Modules(c, forward),
		arguments: func(m *ir.Module) ([]*array.Array, error) { return mfu.Arguments(m), nil }}
	if core, ok := model.Core(c); ok {
		for i, pass := range model.Passes(forward) {
			w.Modules = append(w.Modules, mfu.Module{Name: core.Kind + ", " + core.Name + " " + pass, Times: core.Layers, Flops: core.Flops * float64(1+i),
				Build: func(v gdn.Variant) (*ir.Module, error) { return core.Build(v, i == 1) }})
		}
	}
	for _, p := range model.Optimiser(c) {
		if !forward {
			w.Modules = append(w.Modules, mfu.Module{Name: p.Kind + ", " + p.Name, Times: p.Layers, Build: func(v gdn.Variant) (*ir.Module, error) { return p.Build(v, false) }})
		}
	}
	return w
}

// Train trains the model for some steps on the device and calls tell with each loss. Then the pieces have the arguments of the last step.
func (w *Work) Train(ctx context.Context, d *device.Device, steps int, tell func(step int, loss float64)) error {
	if steps == 0 {
		return nil
	}
	job, err := model.NewTraining(*w.Model, w.Variant, func(m *ir.Module, args []*array.Array) ([]*array.Array, error) {
		p, err := w.load(ctx, d, m)
		if err != nil {
			return nil, err
		}
		return p.Run(ctx, args...)
	})
	if err != nil {
		return err
	}
	for i := range steps {
		loss, err := job.Step()
		if err != nil {
			return err
		}
		w.Losses = append(w.Losses, loss)
		tell(i, loss)
	}
	w.arguments = func(m *ir.Module) ([]*array.Array, error) {
		if args, ok := job.Args[m.Hash()]; ok {
			return args, nil
		}
		return nil, errors.New("the training step has no such module")
	}
	return nil
}

// static is stages.json, in explain's form. The ops of all pieces are in one list.
type static struct {
	Module  staticModule   `json:"module"`
	Targets []staticTarget `json:"targets"`
}

type staticModule struct {
	Spec string `json:"spec"`
}

type staticTarget struct {
	Target string       `json:"target"`
	Report staticReport `json:"report"`
}

type staticReport struct {
	Ops []llo.OpReport `json:"ops"`
}

// Stages writes the static cycles of a step's kernels by stage. gdngen device trace top --by stage splits measured times by them.
func Stages(ctx context.Context, x *measure.Instrument, t *target.Target, w *Work, dir string) error {
	route, err := route.Lookup("mosaic")
	if err != nil {
		return err
	}
	all := staticTarget{Target: t.Name}
	for _, piece := range w.Modules {
		m, err := piece.Build(w.Variant)
		if err != nil {
			return err
		}
		p, err := measure.OfModule(m, nil, gdn.Variant{}, route)
		if err != nil {
			return fmt.Errorf("%s: %w", piece.Name, err)
		}
		c, err := x.Static(ctx, p, t, measure.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", piece.Name, err)
		}
		all.Report.Ops = append(all.Report.Ops, c.Report.Ops...)
	}
	return writeJSON(dir, StagesFile, static{staticModule{w.Spec.String()}, []staticTarget{all}})
}
