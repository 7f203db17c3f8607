package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/explain"
)

func (a *app) compileCmd() *cobra.Command {
	var o origin
	var target, dump string
	var fresh bool
	c := &cobra.Command{
		Use:   "compile (FILE | --spec SPEC)",
		Short: "Compile for a TPU that is not attached",
		Long: `compile hands a module to libtpu, ahead of time: a file of StableHLO text ("-" is standard input), or the program of a spec. It prints the size
of the code, the memory it needs, and the verdict. The compiler runs in a process of its own, so a module that kills it is a verdict too.
The status is 4 if a target rejects the module.`,
		Example: `  gdngen compile --spec bench --target v5e,v6e,tpu7x
  gdngen compile kernel.mlir --target v6e -o json
  gdngen compile kernel.mlir --target all --dump dumps`,
		GroupID: "work",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := parseTargets(target)
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
	targetFlag(c, &target)
	c.Flags().StringVar(&dump, "dump", "", "keep the schedules in a folder for each target below this one")
	freshFlag(c, &fresh)
	return c
}

func targetFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "target", defaultTarget, "TPU generations, separated by commas, or all (see gdngen targets)")
	completeList(c, "target", append(codegen.TargetNames(), "all"))
}
