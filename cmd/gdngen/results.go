package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/results"
)

func (a *app) resultsCmd() *cobra.Command {
	var target, table, file string
	var rows []string
	var fresh bool
	c := &cobra.Command{
		Use:   "results",
		Short: "Make the table of the cheapest variants, by target and shape",
		Long: `results compiles candidates for each target and piece of work of a table, and names the champion: the one of least static cycles whose
numbers are within the limits of every class of inputs, as the interpreter computes them from the lowered kernel at fewer tokens. The
same table and compiler give the same file. The file is written anew after each work. What was computed once is kept in the cache, by
the hash of the program, so that a run that was interrupted goes on where it was.`,
		Example: "  gdngen results --out docs/results.md\n  gdngen results --target v6e --table rows.json --out results.json\n  gdngen results --only seqs=57 --only contest-decode --target v6e",
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			targets, err := parseTargets(target)
			if err != nil {
				return err
			}
			plan, err := a.readPlan(table)
			if err != nil {
				return err
			}
			if len(rows) > 0 {
				if plan, err = plan.Only(rows); err != nil {
					return usage(fmt.Errorf("--only: %w", err))
				}
			}
			if file != "" && file != "-" {
				if err := store.Writable(file); err != nil {
					return err
				}
			}
			write := func(r *results.Table) error {
				if file == "" || file == "-" {
					return nil
				}
				text, err := r.Text(strings.HasSuffix(file, ".json"))
				if err != nil {
					return err
				}
				return store.WriteFile(file, text)
			}
			x, err := a.instrument(fresh)
			if err != nil {
				return err
			}
			maker := results.Maker{Instrument: x, Compiler: a.tpu.Release(), Note: a.note}
			_, maker.Revision = version()
			r, err := maker.Make(a.ctx, plan, targets, write)
			if err != nil || file != "" && file != "-" {
				return err
			}
			text, err := r.Text(a.output != "text")
			if err == nil {
				_, err = a.stdout.Write(text)
			}
			return err
		},
	}
	c.Flags().StringVar(&target, "target", "all", "TPU generations, separated by commas, or all (see gdngen targets)")
	completeList(c, "target", append(codegen.TargetNames(), "all"))
	c.Flags().StringVar(&table, "table", "", "rows and candidates, in place of those built in; - is standard input")
	c.Flags().StringArrayVar(&rows, "only", nil, "only rows with this text in their title or spec, once for each; the front and the peers are left out")
	c.Flags().StringVar(&file, "out", "", "write to this file, data where it ends in .json; standard output without")
	a.fileByOutput(c, &file)
	c.Flags().BoolVar(&fresh, "fresh", false, "take nothing from the cache")
	return c
}

// readPlan reads a table of rows and candidates, or gives the one built in.
func (a *app) readPlan(table string) (*results.Plan, error) {
	if table == "" {
		return results.Default()
	}
	data, err := a.readInput(table)
	if err != nil {
		return nil, err
	}
	p, err := results.Parse(data)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", table, nearTarget(err)))
	}
	return p, nil
}
