package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/mfu"
)

func (a *app) mfuCmd() *cobra.Command {
	var name, variant, target string
	var forward bool
	c := &cobra.Command{
		Use:   "mfu",
		Short: "Say how well a training step with the rule would use the matrix units of a TPU",
		Long: `mfu compiles the parts of a training step of a model with layers of the gated delta rule, forward and backward, and states each part's
model flops, static cycles, main memory traffic, what bounds it, and the model flop utilisation: model flops over those of matrix units that
are never idle. What stands between the projections of a layer of the rule is compiled as one module too, as a layer would, and counts so in
the sums. The model is a preset (` + strings.Join(model.Presets(), ", ") + `) or a file in JSON. Model flops are those of the mathematics: the rule's by its chunkwise
form at chunk ` + fmt.Sprint(model.RuleChunk) + `, causal attention by half, the backward pass twice the forward. The core of attention is a public kernel's cost.

` + strings.ToUpper(mfu.Note[:1]) + mfu.Note[1:] + `. The optimiser, positions and communication are left out.`,
		Example: "  gdngen mfu --target v6e\n  gdngen mfu --model layer --forward --target v5e,v6e,tpu7x -o json",
		GroupID: "work",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			targets, err := parseTargets(target)
			if err != nil {
				return err
			}
			config, err := a.readModelConfig(name)
			if err != nil {
				return err
			}
			r, rules, err := mfu.NewStep(config, variant, targets)
			if err != nil {
				return usage(err)
			}
			x, err := a.instrument(false)
			if err != nil {
				return err
			}
			if err := r.Cost(a.ctx, x, rules, targets, forward); err != nil {
				return err
			}
			return emit(a, r, r.Rows, func(w io.Writer) { r.Write(w) })
		},
	}
	c.Flags().StringVar(&name, "model", "130m", "preset, or file in JSON, such as the config.json of a published model; - is standard input")
	complete(c, "model", model.Presets())
	c.Flags().StringVar(&variant, "variant", gdn.Auto, "how the rule is computed, auto being that of the table alone; with layout=lane, as heads lie inside a layer, unless it says otherwise (see gdngen help variant)")
	targetFlag(c, &target)
	c.Flags().BoolVar(&forward, "forward", false, "the forward pass alone")
	return c
}

// readModelConfig finds a preset, or reads a file.
func (a *app) readModelConfig(name string) (model.Config, error) {
	if c, err := model.Preset(name); err == nil {
		return c, nil
	}
	data, err := a.readInput(name)
	if info, bad := os.Stat(name); bad == nil && info.IsDir() { // a published model
		name = filepath.Join(name, "config.json")
		data, err = a.readInput(name)
	}
	if errors.Is(err, os.ErrNotExist) {
		return model.Config{}, usage(fmt.Errorf("%s is neither a preset (%s) nor a file", name, strings.Join(model.Presets(), " ")))
	}
	if err != nil {
		return model.Config{}, err
	}
	c, err := model.Read(strings.NewReader(string(data)))
	if err != nil {
		return c, usage(fmt.Errorf("%s: %w", name, err))
	}
	return c, nil
}
