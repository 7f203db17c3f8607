package kernels

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/split"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/spf13/cobra"
)

func (a CLI) SplitCmd() *cobra.Command {
	var spec, variant, generation, out string
	var n int
	var alone bool
	c := &cobra.Command{
		Use:   "split --spec SPEC --parts N",
		Short: "Write the programs of a sequence that is split over devices",
		Long: `split writes the programs of each device for one sequence that is split over N devices (context parallelism): the summary of a part's
tokens, a matrix M and a state O with S_after = M S_before + O; the scan over summaries; the rule on a part from the state before it; and the same
for gradients. ` + split.File + ` lists them with their inputs and results. Messages are M and O, K (K + V) float32 numbers a head, for any number of tokens.

The order of calls stands in docs/parallel.md, and as Go in package gdn/parallel.`,
		Example: "  gdngen gen split --spec bench,t=32768 --parts 8 --out runs/split\n  gdngen gen split --spec bench,t=32768 --parts 8 --target v6e --out runs/split\n  gdngen explain runs/split/summary.mlir --target v6e --tokens 4096 --heads 8",
		GroupID: "away",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := app.ParseSpec(spec)
			if err != nil {
				return err
			}
			var t *target.Target
			if generation != "" {
				if t, err = app.OneTarget(generation); err != nil {
					return err
				}
			}
			r, err := split.Write(s, n, variant, alone, t, out)
			if err != nil {
				return app.Usage(err)
			}
			return app.Emit(a.App, r, r.Programs, func(w io.Writer) {
				for _, p := range r.Programs {
					fmt.Fprintf(w, "%-44s %s\n", filepath.Join(out, p.File), p.Does)
				}
			})
		},
	}
	app.SpecFlag(c, &spec, "bench")
	a.VariantFlag(c, &variant)
	fs := c.Flags()
	fs.IntVar(&n, "parts", 2, "parts of equal length, one a device")
	fs.BoolVar(&alone, "forward", false, "the forward pass alone")
	fs.StringVar(&generation, "target", "", "TPU generation; none: programs of plain ops, for a CPU or GPU")
	app.Complete(c, "target", target.Names())
	fs.StringVar(&out, "out", "runs/split", "folder for the programs")
	return c
}
