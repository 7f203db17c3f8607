package kernels

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/check"
	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) CheckCmd() *cobra.Command {
	var k checkFlags
	var docs strings.Builder
	var names []string
	for _, c := range truth.Classes {
		names = append(names, c.Name)
		fmt.Fprintf(&docs, "\n  %-12s %s", c.Name, c.Doc)
	}
	c := &cobra.Command{
		Use:   "check",
		Short: "Compare a variant with float64 on classes of inputs",
		Long: `check computes a spec by a variant on random inputs of several classes, and compares each output with the float64 reference. Each value head
has a class of its own; the worst of all heads and seeds is shown.

Three kinds of errors have limits: rms is the root mean square of the error over that of the reference, as
flash-linear-attention has it; max the largest error over the largest value; bias: the systematic part of the error
(its projection on the reference output, on the inter-chunk part, and on the derivative by the decay). Rounding
averages out; a leaking state or a wrong scale does not. In a training step gradients have a limit of rms only, and
outputs of max. Limits follow from the class and the precision of the variant, and no flag loosens them; --field judges
gradients by the limits of flash-linear-attention on every class. The status is 3 if a limit is missed.

Engines:` + engine.Help() + `
  triton       the kernels of the triton backend, by Triton's interpreter with the rounding of tensor cores; with --target h100 or b200 they are compiled too

With --target the kernels for that target are checked, by the interpreter or, with --engine module, from the emitted
text, which finds faults of the emitter too. What gen refuses for a target is refused here too. With --engine device
the target names the device's generation, and another device is refused.

Classes:` + docs.String(),
		Example: `  gdngen check --variant ladder16
  gdngen check --variant neumann                       rejected: see cos.9 and identical
  gdngen check --spec bench,t=512 --variant bf16 --engine cpu --classes random,cos.99
  gdngen check --spec bench,t=512 --target v5e --engine module
  gdngen check --spec bench,t=512 --engine device --target v6e
  gdngen check --spec contest-decode,b=2 --engine triton --target h100,b200 --seeds 1
  gdngen check --spec train,t=512 --variant tpu-train-x3 --field
  gdngen check --cases tests/fixtures --out out --only s08,s09 --variant bf16x3`,
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if k.cases == "" && (k.out != "" || k.only != "") {
				return app.Usage(errors.New("--out and --only are for --cases DIR"))
			}
			if k.cases == "" {
				return a.check(&k)
			}
			for _, name := range []string{"spec", "classes", "seed", "seeds", "field"} {
				if cmd.Flags().Changed(name) {
					return app.Usage(fmt.Errorf("--%s is not for --cases: stored cases have their own inputs and tolerances", name))
				}
			}
			return a.cases(&casesFlags{k.cases, k.out, k.engine, k.variant, k.target, k.level, k.only, k.plugin})
		},
	}
	app.SpecFlag(c, &k.spec, "tiny")
	f := c.Flags()
	f.StringVar(&k.cases, "cases", "", "in place of a spec: a folder of stored cases (manifest.json and safetensors files); each is computed from its inputs alone, and compared by the manifest's tolerance")
	f.StringVar(&k.out, "out", "", "with --cases: folder that the outputs are written to; made where it is missing")
	f.StringVar(&k.only, "only", "", "with --cases: only cases whose name contains one of these texts, separated by commas")
	a.VariantFlag(c, &k.variant)
	c.Flags().StringVar(&k.target, "target", "", "check what is made for this TPU generation (default for auto by the interpreter: "+app.DefaultTarget+"); with --engine triton, compile for these GPUs too")
	app.CompleteList(c, "target", append(target.Names(), target.GPUNames()...))
	c.Flags().StringVar(&k.engine, "engine", "interp", strings.Join(append(engine.Names()[1:], triton.Name), ", "))
	c.Flags().StringVar(&k.plugin, "plugin", "", "with --engine device: "+app.PluginUse)
	c.Flags().StringVar(&k.level, "level", "", "of the interpreter: tensor, or kernel after the lowering of grids (default: kernel with --target, else tensor)")
	app.Complete(c, "level", []string{"tensor", "kernel"})
	c.Flags().StringSliceVar(&k.classes, "classes", nil, "classes of inputs, separated by commas (default: all that the spec can have)")
	c.Flags().Uint64Var(&k.seed, "seed", 1, "first seed of the inputs")
	c.Flags().IntVar(&k.seeds, "seeds", 3, "number of seeds")
	c.Flags().BoolVar(&k.field, "field", false, "hold gradients to the limits of flash-linear-attention on every class")
	app.Complete(c, "engine", append(engine.Names()[1:], triton.Name))
	app.CompleteList(c, "classes", names)
	return c
}

// checkFlags are the flags of check.
type checkFlags struct {
	spec, variant, target, engine, level string
	plugin                               string
	classes                              []string
	seed                                 uint64
	seeds                                int
	field                                bool
	cases, out, only                     string // for stored cases
}

func (a CLI) check(k *checkFlags) error {
	s, err := app.ParseSpec(k.spec)
	if err != nil {
		return err
	}
	if k.seeds < 1 {
		return app.Usage(fmt.Errorf("--seeds %d: at least one is needed", k.seeds))
	}
	if k.engine == triton.Name {
		if err := noTritonFlags(k.level, k.plugin); err != nil {
			return err
		}
		classes, err := check.Classes(s, k.classes)
		if err != nil {
			return app.Usage(err)
		}
		r := &check.Result{Spec: s.String(), Engine: k.engine, Seed: k.seed, Seeds: check.Seeds(k.seed, k.seeds)}
		return a.checkTriton(s, k.variant, k.target, r, classes)
	}
	if _, auto := gdn.ParseAuto(k.variant); auto && k.engine == "interp" && k.target == "" {
		k.target = app.DefaultTarget
	}
	p, err := newPlan(k.variant, k.target, k.level, k.engine)
	if err != nil {
		return err
	}
	if err := a.Attach(&p, k.engine, k.plugin, k.target); err != nil {
		return err
	}
	form, err := p.Form(s)
	if err == nil {
		err = emittable(form, p, k.engine)
	}
	if err != nil {
		return err
	}
	a.Say(form)
	if k.engine == "reference" {
		return app.Usage(errors.New("--engine reference is what a check compares with: give interp, module or cpu"))
	}
	classes, err := check.Classes(s, k.classes)
	if err != nil {
		return app.Usage(err)
	}
	f, _, err := a.findEngine(k.engine, p)
	if err != nil {
		return err
	}
	r := &check.Result{Spec: s.String(), Engine: k.engine, Target: p.TargetName(), Level: p.Level, Seed: k.seed, Seeds: check.Seeds(k.seed, k.seeds), Field: k.field}
	r.Variant, r.Precision, r.Unsafe = p.Describe(s, form.Variant)
	if err := r.Run(a.Ctx, s, f, classes, a.Note); err != nil {
		return err
	}
	if err := app.Emit(a.App, r, r.Rows, r.Write); err != nil {
		return err
	}
	if !r.Pass {
		return app.Failed(app.ExitNumerics, "%d of %d limits are missed", r.Missed(), len(r.Rows))
	}
	return nil
}
