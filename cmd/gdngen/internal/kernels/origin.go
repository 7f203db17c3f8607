package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune"

	"github.com/gdngen/gdngen/autotune/explain"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

// origin holds the flags that choose a module.
type origin struct{ spec, variant, backend, python string }

func (o *origin) flags(a *app.App, cmd *cobra.Command) {
	app.SpecFlag(cmd, &o.spec, "")
	a.VariantFlag(cmd, &o.variant)
	cmd.Flags().StringVar(&o.backend, "backend", "mosaic", "what renders the spec: "+strings.Join(app.BackendNames(), ", "))
	app.Complete(cmd, "backend", app.BackendNames())
	cmd.Flags().StringVar(&o.python, "python", "", "Python with JAX, which lowers --backend pallas; empty: that of "+app.PythonEnv)
}

// modules returns a module for each target: of a file, or of the spec.
func (o *origin) modules(a *app.App, cmd *cobra.Command, args []string, targets []*target.Target) ([]*explain.Module, error) {
	switch {
	case len(args) == 1 && o.spec != "":
		return nil, app.Usage(errors.New("give a file or --spec, not both"))
	case len(args) == 0 && o.spec == "":
		return nil, app.Usage(errors.New("what to compile? give a file of StableHLO, or --spec"))
	case len(args) == 1:
		for _, flag := range []string{"variant", "backend"} {
			if cmd.Flags().Changed(flag) {
				return nil, app.Usage(fmt.Errorf("--%s goes with --spec, not with a file", flag))
			}
		}
		return CLI{a}.fileModules(args[0], targets)
	}
	return o.generate(a, o.variant, targets)
}

// others returns the modules to compare with: the same spec by another variant, or those of a file.
func (o *origin) others(a *app.App, text string, targets []*target.Target) ([]*explain.Module, error) {
	text, err := autotune.VariantOf(text)
	if err != nil {
		return nil, app.Usage(err)
	}
	if o.spec != "" {
		err := app.CheckText(text)
		if err == nil {
			return o.generate(a, text, targets)
		}
		if _, missing := os.Stat(text); missing != nil && text != "-" {
			return nil, app.Usage(fmt.Errorf("--diff %s is neither a file nor a variant: %w", text, err))
		}
	}
	return CLI{a}.fileModules(text, targets)
}

// generate renders the spec by a variant for each target.
func (o *origin) generate(a *app.App, variant string, targets []*target.Target) ([]*explain.Module, error) {
	s, err := app.ParseSpec(o.spec)
	if err != nil {
		return nil, err
	}
	r, err := app.ParseBackend(o.backend)
	if err != nil {
		return nil, err
	}
	if r.GPU {
		return nil, app.Usage(fmt.Errorf("--backend %s is for GPUs: name one by --target (%s)", o.backend, strings.Join(target.GPUNames(), " ")))
	}
	if r.Name() == "pallas" {
		return o.byJAX(a, s, variant, targets)
	}
	var list []*explain.Module
	for _, t := range targets {
		f, err := app.Resolve(s, variant, r.For(t))
		if err != nil {
			return nil, err
		}
		program, err := measure.Of(f, r)
		if err == nil {
			_, err = program.Text(t)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		m := explain.NewModule(program)
		m.Auto = f.Why()
		a.TellPromoted(f)
		list = append(list, m)
	}
	return list, nil
}

// byJAX lowers the Pallas file of the spec, the same for each target; auto is resolved for the first.
func (o *origin) byJAX(a *app.App, s gdn.Spec, variant string, targets []*target.Target) ([]*explain.Module, error) {
	python := cmp.Or(o.python, os.Getenv(app.PythonEnv))
	if python == "" {
		return nil, app.Usage(fmt.Errorf("--backend pallas writes Python, which JAX lowers: name a Python that has JAX by --python or %s, or lower the file of gdngen gen --backend pallas "+
			"yourself, by jax.jit(f).trace(...).lower(lowering_platforms=(\"tpu\",)).as_text(), and give that", app.PythonEnv))
	}
	file, chosen, err := pallasForm(s, variant, targets[0].Name)
	if err != nil {
		return nil, err
	}
	a.Note("lowering the Pallas file by %s", python)
	program, err := measure.ByJAX(a.Ctx, python, file)
	if err != nil {
		return nil, err
	}
	m := explain.NewModule(program)
	m.Auto = chosen.Why()
	return slices.Repeat([]*explain.Module{m}, len(targets)), nil
}

// fileModules returns the module of a file, or of a folder of stored schedules, the same for each target.
func (a CLI) fileModules(name string, targets []*target.Target) ([]*explain.Module, error) {
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		program, err := measure.Stored(name)
		if err != nil {
			return nil, err
		}
		return slices.Repeat([]*explain.Module{explain.NewModule(program)}, len(targets)), nil
	}
	data, err := a.ReadInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w%s", err, app.Meant(name, true, true))
	case err != nil:
		return nil, err
	}
	program, err := measure.ReadForeign(name, data)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]*explain.Module{explain.NewModule(program)}, len(targets)), nil
}
