package kernels

import (
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/spf13/cobra"
)

func (a CLI) MfuCmd() *cobra.Command {
	var name, variant, target string
	var forward bool
	c := &cobra.Command{
		Use:   "cost",
		Short: "Say how well a training step with the rule would use the MXUs of a TPU",
		Long: `cost compiles the parts of a training step of a model with layers of the gated delta rule, forward and backward. For each part,
and for the step, it prints model flops, static cycles, HBM traffic, the bound, and the model flop utilisation: model flops over the flops of MXUs
that are never idle. The model is a preset (` + strings.Join(model.Presets(), ", ") + `) or a file in JSON.
Model flops count the rule by its chunkwise form at chunk ` + fmt.Sprint(model.RuleChunk) + `, causal attention by half,
and the backward pass as twice the forward pass. The core of attention has the cost of a public kernel.

` + strings.ToUpper(mfu.Note[:1]) + mfu.Note[1:] + `. The optimiser, positions and communication are left out.`,
		Example: "  gdngen model cost --target v6e\n  gdngen model cost --model layer --forward --target v5e,v6e,tpu7x -o json",
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			targets, err := app.ParseTargets(target)
			if err != nil {
				return err
			}
			config, err := a.ReadModelConfig(name)
			if err != nil {
				return err
			}
			r, rules, err := mfu.NewStep(config, variant, targets)
			if err != nil {
				return app.Usage(err)
			}
			x, err := a.Instrument(false)
			if err != nil {
				return err
			}
			if err := r.Cost(a.Ctx, x, rules, targets, forward); err != nil {
				return err
			}
			for _, row := range r.Rows {
				if row.Kind == "step" && row.Target == targets[0].Name {
					if err := (journal.Note{MFU: row.MFU, Text: "modelled for " + row.Target}).Hand(); err != nil {
						return err
					}
				}
			}
			return app.Emit(a.App, r, r.Rows, func(w io.Writer) { r.Write(w) })
		},
	}
	c.Flags().StringVar(&name, "model", "130m", "preset, or file in JSON, such as the config.json of a published model; - is standard input")
	app.Complete(c, "model", model.Presets())
	c.Flags().StringVar(&variant, "variant", gdn.Auto, "how the rule is computed, for rows as projections give them; auto ignores champions of your own (see gdngen help variant)")
	app.TargetFlag(c, &target)
	c.Flags().BoolVar(&forward, "forward", false, "only the forward pass of a training step, with its residuals, and the gradient of the loss")
	return c
}
