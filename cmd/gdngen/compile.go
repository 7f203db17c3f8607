package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/explain"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/target"
)

func (a *app) compileCmd() *cobra.Command {
	var o origin
	var names, dump string
	var fresh bool
	c := &cobra.Command{
		Use:   "compile (FILE | --spec SPEC)",
		Short: "Compile for a TPU or GPU that is not attached",
		Long: `compile hands a module to libtpu, ahead of time: a file of StableHLO text ("-" is standard input), or the program of a spec. It prints the size
of the code, the memory it needs, and the verdict. The compiler runs in a process of its own, so a module that kills it is a verdict too.
With GPUs as targets (h100, b200) the compiler is XLA's, in a pinned CUDA plugin that needs neither a GPU nor a driver, and a spec is rendered by the
stablehlo backend. The status is 4 if a target rejects the module.`,
		Example: `  gdngen compile --spec bench --target v5e,v6e,tpu7x
  gdngen compile kernel.mlir --target v6e -o json
  gdngen compile --spec contest-decode --target h100,b200
  gdngen compile kernel.mlir --target all --dump dumps`,
		GroupID: "work",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if forGPUs(names) {
				return a.compileGPU(&o, cmd, args, names, dump, fresh)
			}
			targets, err := parseTargets(names)
			if err != nil {
				return err
			}
			modules, err := o.modules(a, cmd, args, targets)
			if err != nil {
				return err
			}
			if modules[0].Program.IsStored() {
				return usage(fmt.Errorf("%s is a folder of schedules, compiled already: gdngen explain %s costs them", args[0], args[0]))
			}
			x, err := a.instrument(fresh)
			if err != nil {
				return err
			}
			r := &explain.Compilation{Module: modules[0], Compiler: a.tpu.Release()}
			var refused error
			for i, t := range targets {
				row, err := modules[i].Compile(a.ctx, x, t, dump)
				if row == nil {
					return err
				}
				if err != nil && refused == nil {
					refused = failed(exitCode(err), "%s: %w", t.Name, err)
				}
				r.Rows = append(r.Rows, *row)
			}
			if err := emit(a, r, r.Rows, func(w io.Writer) { r.Write(w) }); err != nil {
				return err
			}
			return refused
		},
	}
	o.flags(c)
	targetFlag(c, &names)
	c.Flags().StringVar(&dump, "dump", "", "keep the schedules, or of a GPU XLA's files, in a folder for each target below this one")
	freshFlag(c, &fresh)
	return c
}

func targetFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "target", defaultTarget, "TPU generations or GPUs, separated by commas, or all for every generation (see gdngen targets)")
	completeList(c, "target", slices.Concat(codegen.TargetNames(), target.GPUNames(), []string{"all"}))
}

// compileGPU compiles a module for GPUs.
func (a *app) compileGPU(o *origin, cmd *cobra.Command, args []string, targets, dump string, fresh bool) error {
	r, refused, err := a.compilePlain(o, cmd, args, targets, fresh, measure.Options{Dump: dump})
	if err != nil {
		return err
	}
	if err := emit(a, r, r.Rows, r.writeVerdicts); err != nil {
		return err
	}
	return refused
}
