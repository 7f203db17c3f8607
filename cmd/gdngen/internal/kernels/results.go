package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/autotune/results"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) ResultsCmd() *cobra.Command {
	var generation, table, file, again string
	var rows []string
	var fresh bool
	c := &cobra.Command{
		Use:   "results",
		Short: "Make the table of the cheapest variants, by target and shape",
		Long: `results compiles candidates for each target and work of a table, and names the champion: the candidate with the fewest static cycles whose
numbers are within the limits of every class of inputs, as gdngen check judges the lowered kernel at fewer tokens. The
same table and compiler give the same file. The file is written again after each work. Results are cached by the hash
of the program, so the same command continues an interrupted run. With --errors the cycles of a page stay, and the
errors of the variants that it names are computed again, into --out or into the
page.`,
		Example: "  gdngen list results --out docs/data/results.md\n  gdngen list results --target v6e --table rows.json --out results.json\n  gdngen list results --only seqs=57 --only contest-decode --target v6e",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if again != "" && (len(rows) > 0 || c.Flags().Changed("target")) {
				return app.Usage(errors.New("--errors is about the rows and targets of its page: leave out --only and --target"))
			}
			targets, err := app.ParseTargets(generation)
			if err != nil {
				return err
			}
			plan, err := a.readPlan(table)
			if err != nil {
				return err
			}
			if len(rows) > 0 {
				if plan, err = plan.Only(rows); err != nil {
					return app.Usage(fmt.Errorf("--only: %w", err))
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
			x, err := a.Instrument(fresh)
			if err != nil {
				return err
			}
			maker := results.Maker{Instrument: x, Compiler: a.TPU.Release(), Note: a.Note}
			_, maker.Revision = app.Version()
			if again != "" {
				return errorsAgain(a, &maker, plan, again, file)
			}
			r, err := maker.Make(a.Ctx, plan, targets, write)
			if err != nil || file != "" && file != "-" {
				return err
			}
			text, err := r.Text(a.Output != "text")
			if err == nil {
				_, err = a.Stdout.Write(text)
			}
			return err
		},
	}
	c.Flags().StringVar(&generation, "target", "all", "TPU generations, separated by commas, or all (see gdngen list targets)")
	app.CompleteList(c, "target", append(target.Names(), "all"))
	c.Flags().StringVar(&table, "table", "", "rows and candidates, in place of those built in; - is standard input")
	c.Flags().StringArrayVar(&rows, "only", nil, "only rows with this text in their title or spec, once for each; the front and the peers are left out")
	c.Flags().StringVar(&file, "out", "", "write to this file, data where it ends in .json; standard output without")
	a.FileByOutput(c, &file)
	c.Flags().StringVar(&again, "errors", "", "make only the errors of this page anew, and leave its cycles: minutes, where all takes hours")
	c.Flags().BoolVar(&fresh, "fresh", false, "take nothing from the cache")
	return c
}

// errorsAgain measures the errors of a page again and writes the page.
func errorsAgain(a CLI, l *results.Maker, plan *results.Plan, page, file string) error {
	old, err := a.ReadInput(page)
	if err != nil {
		return err
	}
	text, err := l.Errors(a.Ctx, plan, string(old))
	if err != nil {
		return err
	}
	if file = cmp.Or(file, page); file == "-" {
		_, err = a.Stdout.Write([]byte(text))
		return err
	}
	return store.WriteFile(file, []byte(text))
}

// readPlan reads a plan from a file, or returns the built-in one.
func (a CLI) readPlan(table string) (*results.Plan, error) {
	if table == "" {
		return results.Default()
	}
	data, err := a.ReadInput(table)
	if err != nil {
		return nil, err
	}
	p, err := results.Parse(data)
	if err != nil {
		return nil, app.Usage(fmt.Errorf("%s: %w", table, app.NearTarget(err)))
	}
	return p, nil
}
