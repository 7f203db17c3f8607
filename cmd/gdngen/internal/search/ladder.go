package search

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
)

// ladderFlags say what climbs, and how far.
type ladderFlags struct {
	config                      ladder.Config
	file, targets, layer, model string
	guards                      []string
	noGuards                    bool
	gain, loss, goal, plugin    string
	lab                         labFlags
}

func (a CLI) LadderCmd() *cobra.Command {
	var l ladderFlags
	var dir string
	c := &cobra.Command{
		Use:   "ladder --base VARIANT --variant VARIANT --run DIR",
		Short: "Say whether a kernel's gain is one of a layer and of a model",
		Long: `ladder judges a candidate against a base on rungs: right numbers, also on shapes and inputs that are held out; the kernel; a layer; a model, with its
model flop utilisation; then guards, which are other targets, shapes and the backward pass. The next rung is tried only
if the one below gained. A rung without a gain names the cause, computed from both costs: wrong bottleneck, local win,
legality, correctness, compile instability, memory path or fusion boundary.

Without a device all costs are static. With --plugin kernel, layer and model are timed, base and candidate by turns, and the whole interval must be
a gain. Each rung is a record of ` + ladder.JournalName + ` in the folder; the same command goes on with what is missing. --comparison FILE has the comparison in JSON, by the names
of the first record, in place of the flags.

The decision is keep (status 0), revert (8; 3 for wrong numbers, 5 for a guard), or inconclusive (8) where measured intervals do not tell.`,
		Example: `  gdngen model ladder --base merge-packed --variant tpu-long --target v6e,v5e --run runs/ladder
  gdngen model ladder --spec decode --base naive --variant auto --layer none --model none --guard-work bench@v6e=1% --run runs/decode
  gdngen model ladder --base merge-packed --variant tpu-long --plugin /path/to/libtpu.so --repeat 20 --run runs/measured`,
		GroupID: "work",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return app.Usage(errors.New("a ladder needs --run DIR"))
			}
			if err := a.ladderConfig(&l); err != nil {
				return err
			}
			e, err := a.ladderEvaluator(dir, &l)
			if err != nil {
				return err
			}
			climb, err := ladder.Run(a.Ctx, dir, l.config, e, func(r ladder.Rung) { a.Note("rung %s", r.Name()) })
			if err != nil {
				return err
			}
			if err := app.Emit(a.App, climb, climb.Rungs, climb.Write); err != nil {
				return err
			}
			return decided(climb)
		},
	}
	app.RunFlag(c, &dir)
	f := c.Flags()
	f.StringVar(&l.file, "comparison", "", "file with the comparison in JSON, in place of the flags; - is standard input")
	f.StringVar(&l.config.Kernel, "spec", "bench", "spec of the kernel")
	f.StringVar(&l.config.Base, "base", "", "variant that is compared with")
	f.StringVar(&l.config.Variant, "variant", "", "variant of the candidate")
	f.StringVar(&l.targets, "target", app.DefaultTarget, "TPU generations: the first is climbed on, the others guard")
	f.StringVar(&l.layer, "layer", "layer", "model of the rung layer, a preset or file as gdngen model cost has them, or "+none)
	f.StringVar(&l.model, "model", "130m", "model of the rung model, likewise")
	f.StringArrayVar(&l.guards, "guard-work", nil, "work that must not get slower: SPEC@TARGET=SHARE, once for each (default: the other targets, and the backward pass)")
	f.BoolVar(&l.noGuards, "no-guards", false, "guard nothing")
	f.BoolVar(&l.config.Forward, "forward", false, "layer and model without their backward pass")
	f.StringVar(&l.config.Precision, "precision", "", "the lowest precision that the candidate may use: f32 bf16x6 bf16x3 bf16x1 (default: that of auto for a float32 spec, else bf16x1)")
	f.StringVar(&l.gain, "min-gain", "1%", "share that each rung gains at least; of the static kernel any gain will do")
	f.StringVar(&l.loss, "max-regression", "1%", "share by which a guard may get slower")
	f.StringVar(&l.goal, "goal", "", "model flop utilisation to aim at, such as mfu=50%")
	f.IntVar(&l.config.Repeat, "repeat", ladder.DefaultRepeat, "pairs of runs on a device")
	f.StringVar(&l.plugin, "plugin", "", "time on a device: a PJRT plugin, or cpu")
	f.DurationVar(&l.lab.lab.Timeout, "compile-timeout", 0, "limit of one compile; 0: ten times what compiles take here, at least a minute")
	f.StringVar(&l.lab.memory, "compile-memory", "6GiB", "memory of one compile worker, such as 4GiB")
	a.Formerly(c, "targets", "target")
	a.Formerly(c, "kernel", "spec")
	a.Formerly(c, "file", "comparison")
	a.Formerly(c, "guard", "guard-work")
	app.CompleteList(c, "target", target.Names())
	app.Complete(c, "layer", append(model.Presets(), none))
	app.Complete(c, "model", append(model.Presets(), none))
	return c
}

// none leaves a rung out.
const none = "none"

// ladderConfig completes the comparison.
func (a CLI) ladderConfig(l *ladderFlags) (err error) {
	c := &l.config
	if l.file != "" {
		text, err := a.ReadInput(l.file)
		if err == nil {
			l.config, err = ladder.Read(bytes.NewReader(text))
		}
		if err != nil {
			return app.Usage(fmt.Errorf("--comparison %s: %w", l.file, err))
		}
		return nil
	}
	if c.Base == "" || c.Variant == "" {
		return app.Usage(errors.New("a ladder compares two variants: give --base and --variant"))
	}
	for _, x := range []struct {
		flag, text string
		at         *float64
	}{{"min-gain", l.gain, &c.MinGain}, {"max-regression", l.loss, &c.MaxRegression}} {
		var ok bool
		if *x.at, ok = autotune.ParseShare(x.text); !ok {
			return app.Usage(fmt.Errorf("--%s %q: want a share, such as 1%%", x.flag, x.text))
		}
	}
	if c.Goal, err = ladder.ParseGoal(l.goal); err != nil {
		return app.Usage(fmt.Errorf("--goal %w", err))
	}
	targets, err := app.ParseTargets(l.targets)
	if err != nil {
		return err
	}
	for _, text := range []string{c.Base, c.Variant} {
		if err := app.CheckText(text); err != nil {
			return err
		}
	}
	s, err := app.ParseSpec(c.Kernel)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		name string
		at   **model.Config
	}{{l.layer, &c.Layer}, {l.model, &c.Model}} {
		if x.name == none {
			continue
		}
		m, err := a.ReadModelConfig(x.name)
		if err != nil {
			return err
		}
		*x.at = &m
	}
	for _, text := range l.guards {
		g, err := ladder.ParseGuard(text, c.MaxRegression)
		if err != nil {
			return app.Usage(fmt.Errorf("--guard-work %w", err))
		}
		c.Guards = append(c.Guards, g)
	}
	c.Target = targets[0].Name
	if len(l.guards) == 0 && !l.noGuards {
		c.Guards = ladder.DefaultGuards(s, c.Target, targets[1:], c.MaxRegression)
	}
	return nil
}

// ladderEvaluator judges the rungs of a climb in a folder.
func (a CLI) ladderEvaluator(dir string, l *ladderFlags) (ladder.Evaluator, error) {
	x, err := a.Instrument(false)
	if err != nil {
		return nil, err
	}
	s := ladder.Static{Dir: dir, Instrument: x}
	if s.Search.Lab, err = a.options(&l.lab); err != nil {
		return nil, err
	}
	if s.Search.Machine, err = a.Machine(machine.Computes, false, a.Waiting); err != nil {
		return nil, err
	}
	s.Search.Generator, _ = app.Version()
	s.Search.Warn = func(text string) { a.Warn("%s", text) }
	s.Search.Progress = func(p autotune.Progress) { a.Note("%s", p) }
	if l.plugin == "" {
		return &s, nil
	}
	path, err := a.PluginPath(l.plugin)
	if err != nil {
		return nil, err
	}
	generation, err := target.Lookup(l.config.Target)
	if err != nil {
		return nil, err
	}
	if a.Runner, err = device.NewRunner(a.Ctx, device.Options{Emit: route.Text, Plugin: path, Targets: []*target.Target{generation}}); err != nil {
		return nil, err
	}
	d := a.Runner.Device()
	l.config.Device = d.Info().String()
	return &ladder.Measured{Static: s, Device: d, Machine: s.Search.Machine}, nil
}

// decided is the status of a decision.
func decided(c *ladder.Climb) error {
	last := c.Last()
	switch {
	case c.Decision == ladder.Keep:
		return nil
	case last.Outcome == ladder.Refused && last.Kind == ladder.Correct:
		return app.Failed(app.ExitNumerics, "%s: %s", c.Decision, c.Reason)
	case last.Kind == ladder.Guarded && c.Decision == ladder.Revert:
		return app.Failed(app.ExitRegression, "%s: %s", c.Decision, c.Reason)
	}
	return app.Failed(app.ExitNoImprovement, "%s: %s", c.Decision, c.Reason)
}
