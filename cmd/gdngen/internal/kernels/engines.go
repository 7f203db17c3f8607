package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir/target"
)

// newPlan reads the flags of a command. Without a level the interpreter uses the lowered kernels if a target is named.
func newPlan(variant, generation, level, by string) (engine.Plan, error) {
	p := engine.Plan{Text: variant, Level: level, Resolve: app.Resolve}
	err := app.CheckText(variant)
	if err != nil {
		return p, err
	}
	if _, err := target.LookupGPU(generation); by == engine.Device && err == nil {
		generation = "" // the attached GPU must be this one, and its kernels are not lowered here
	}
	if generation != "" {
		if p.Target, err = app.OneTarget(generation); err != nil {
			return p, err
		}
	}
	switch {
	case level != "" && by != "interp":
		return p, app.Usage(errors.New("--level goes with --engine interp"))
	case level != "" && level != engine.Tensor && level != engine.Kernel:
		return p, app.Usage(fmt.Errorf("unknown level %q (known: tensor kernel)", level))
	case by == "module" && p.Target == nil:
		p.Target, err = target.Lookup(app.DefaultTarget)
	case by == "interp" && level == "":
		if p.Level = engine.Tensor; p.Target != nil {
			p.Level = engine.Kernel
		}
	}
	return p, err
}

// emittable refuses a form that its target can not take (too large for the memory, say) before its kernels are computed, like gen.
func emittable(f *route.Form, p engine.Plan, by string) error {
	if p.Target == nil || by != "module" && p.Level != engine.Kernel {
		return nil
	}
	r, err := app.ParseBackend(mosaic.Backend{}.Name())
	if err != nil {
		return err
	}
	x, err := measure.Of(f, r)
	if err == nil {
		_, err = x.Text(p.Target)
	}
	return err
}

// findEngine returns the functions of an engine by name.
func (a CLI) findEngine(name string, p engine.Plan) (engine.Compute, engine.ComputeLayer, error) {
	x := engine.Env{Context: a.Ctx, CPU: a.CPU, Graphs: a.graphs, Runner: a.Runner, Note: a.Note}
	f, l, err := x.Find(name, p)
	if app.IsA[*engine.UnknownError](err) {
		near := app.Near(name, engine.Names(), "")
		if slices.Contains([]string{"gpu", "tpu", "cuda"}, name) { // the nearest name by letters would be cpu
			near = `, did you mean "device"?`
		}
		return nil, nil, app.Usage(fmt.Errorf("unknown engine %q%s (known: %s)", name, near, strings.Join(engine.Names(), " ")))
	}
	return f, l, err
}
