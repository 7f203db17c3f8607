package search

import (
	"errors"
	"io"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/spf13/cobra"
)

func (a CLI) SimulateCmd() *cobra.Command {
	var dir string
	var strategies []string
	var judged int
	c := &cobra.Command{
		Use:   "simulate --run DIR",
		Short: "Replay a journal under other strategies, without a compiler",
		Long: `simulate lets strategies propose, judges by the records of a journal, and compares how soon each comes near the journal's best. A variant
that is not in the journal is skipped at no cost, so strategies are compared on the candidates of the journal: a run of exhaustive or random
compares them best.`,
		Example: "  gdngen run simulate runs/first\n  gdngen run simulate runs/first --strategy model:2 --strategy elites:8",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return app.Usage(errors.New("simulate which run? give --run DIR"))
			}
			for _, text := range strategies {
				if _, err := strategy.Parse(text, strategy.Space{}); err != nil {
					return app.Usage(err)
				}
			}
			sims, err := autotune.Simulate(a.Ctx, dir, strategies, judged)
			if err != nil {
				return err
			}
			return app.Emit(a.App, sims, sims, func(w io.Writer) { autotune.WriteSimulations(w, sims) })
		},
	}
	app.RunFlag(c, &dir)
	c.Flags().StringArrayVar(&strategies, "strategy", []string{"model:4", "elites:16", "random", "exhaustive"}, "a strategy, once for each")
	c.Flags().IntVar(&judged, "max-candidates", 0, "candidates of each; 0: as many as the journal has")
	return c
}
