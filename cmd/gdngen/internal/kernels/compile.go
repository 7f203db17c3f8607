package kernels

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/autotune/explain"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) CompileCmd() *cobra.Command {
	var o origin
	var names, dump string
	var fresh bool
	c := &cobra.Command{
		Use:   "compile (FILE | --spec SPEC)",
		Short: "Compile for a TPU or GPU that is not attached",
		Long: `compile hands a module to libtpu, ahead of time: a file of StableHLO text ("-" is standard input), or the program of a spec. It prints the size
of the code, the memory it needs, and the verdict. The compiler runs in a process of its own, so a module that kills it
is a verdict too. With GPUs as targets (h100, b200) the compiler is XLA's, in a pinned CUDA plugin that needs neither a
GPU nor a driver, and a spec is rendered by the
stablehlo backend. The status is 4 if a target rejects the module.`,
		Example: `  gdngen compile --spec bench --target v5e,v6e,tpu7x
  gdngen compile kernel.mlir --target v6e -o json
  gdngen compile --spec contest-decode --target h100,b200
  gdngen compile kernel.mlir --target all --dump dumps`,
		GroupID: "work",
		Args:    app.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if target.AreGPUs(names) {
				return a.compileGPU(&o, cmd, args, names, dump, fresh)
			}
			targets, err := app.ParseTargets(names)
			if err != nil {
				return err
			}
			modules, err := o.modules(a.App, cmd, args, targets)
			if err != nil {
				return err
			}
			if modules[0].Program.IsStored() {
				return app.Usage(fmt.Errorf("%s is a folder of schedules, compiled already: gdngen explain %s costs them", args[0], args[0]))
			}
			x, err := a.Instrument(fresh)
			if err != nil {
				return err
			}
			r := &explain.Compilation{Module: modules[0], Compiler: a.TPU.Release()}
			var refused error
			for i, t := range targets {
				row, err := modules[i].Compile(a.Ctx, x, t, dump)
				if row == nil {
					return err
				}
				if err != nil && refused == nil {
					refused = app.Failed(app.ExitCode(err), "%s: %w", t.Name, err)
				}
				r.Rows = append(r.Rows, *row)
			}
			if err := app.Emit(a.App, r, r.Rows, func(w io.Writer) { r.Write(w) }); err != nil {
				return err
			}
			return refused
		},
	}
	o.flags(a.App, c)
	app.TargetFlag(c, &names)
	c.Flags().StringVar(&dump, "dump", "", "keep the schedules, or of a GPU XLA's files, in a folder for each target below this one")
	app.FreshFlag(c, &fresh)
	return c
}

// compileGPU compiles a module for GPUs.
func (a CLI) compileGPU(o *origin, cmd *cobra.Command, args []string, targets, dump string, fresh bool) error {
	r, refused, err := a.compilePlain(o, cmd, args, targets, fresh, measure.Options{Dump: dump})
	if err != nil {
		return err
	}
	if err := app.Emit(a.App, r, r.Rows, r.writeVerdicts); err != nil {
		return err
	}
	return refused
}
