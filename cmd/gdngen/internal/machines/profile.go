package machines

import (
	"errors"
	"io"
	"os"

	"github.com/gdngen/gdngen/autotune/mfu"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/profile"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/spf13/cobra"
)

func (a CLI) ProfileCmd() *cobra.Command {
	var f app.DeviceFlags
	var o pjrt.ProfileOptions
	var spec, variant, out, name string
	var llo, forward, stages bool
	var train int
	c := &cobra.Command{
		Use:   "profile",
		Short: "Profile a kernel, or the step of a model, on a device, without JAX",
		Long: `profile runs steps on a device and profiles some of them by the plugin's own profiler, in a process of its own. A step is the kernel of --spec, or with
--model the pieces of a model's training step, one after another, each as often as the step has it: layers both ways,
the loss, AdamW. --train trains the model first, on text that is drawn, and tells the loss of each step; the profiled
steps have the arguments of the last one.

--out gets plugins/profile/TIME/HOST.xplane.pb, which gdngen device trace, XProf and TensorBoard read, and ` + profile.StepsFile + `: what ran, and what each step and piece took on the
host. On a TPU ` + profile.StagesFile + ` has the static cycles of the kernels by stage, for gdngen device trace top --by stage. A plugin without a profiler, such as the pinned one of
the CPU, gives ` + profile.StepsFile + ` alone, and a note says so.`,
		Example: "  gdngen device profile --spec bench\n  gdngen device profile --spec bench,t=1024 --variant naive --plugin cpu --steps 8 --out runs/cpu\n  gdngen device profile --model 130m --train 10 --steps 20 --first-step 2 --count 6",
		GroupID: "away",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := profileFlags(c, name, forward, train); err != nil {
				return app.Usage(err)
			}
			if name != "" && !c.Flags().Changed("executions") {
				o.Batch = 1 // a model has its own batch
			}
			if err := o.Check(); err != nil {
				return app.Usage(err)
			}
			work, err := a.profileWork(name, spec, variant, forward)
			if err != nil {
				return err
			}
			if llo {
				if err := os.Setenv(device.FlagsVariable, profile.AddArgs(os.Getenv(device.FlagsVariable), profile.LLOArgs)); err != nil {
					return err
				}
			}
			if a.Runner, err = a.NewRunner(&f); err != nil {
				return err
			}
			d := a.Runner.Device()
			w, err := work(d.Target())
			if err != nil {
				return err
			}
			lock, err := a.Machine(machine.Measures, false, a.Waiting)
			if err != nil {
				return err
			}
			if err := w.Train(a.Ctx, d, train, func(step int, loss float64) { a.Note("step %d: loss %.4f", step, loss) }); errors.Is(err, model.ErrNoLoss) {
				return app.Usage(err)
			} else if err != nil {
				return err
			}
			r, err := profile.Run(a.Ctx, d, lock, w, o, out)
			if err != nil {
				return err
			}
			if r.NoTrace != "" {
				a.Warn("no trace: %s", r.NoTrace)
			}
			if t := d.Target(); t != nil && stages {
				if err := a.profileStages(t, w, out); err != nil {
					a.Warn("no %s: %v", profile.StagesFile, err)
				}
			}
			if err := r.Note(out).Hand(); err != nil {
				return err
			}
			return app.Emit(a.App, r, []any{r}, func(w io.Writer) { r.Write(w, out) })
		},
	}
	app.SpecFlag(c, &spec, "bench")
	a.VariantFlag(c, &variant)
	f.Add(c)
	fs := c.Flags()
	fs.StringVar(&name, "model", "", "profile the step of a model: a preset, or file in JSON, as for gdngen model cost; - is standard input")
	app.Complete(c, "model", model.Presets())
	fs.BoolVar(&forward, "forward", false, "the forward pass of the model alone")
	fs.IntVar(&train, "train", 0, "with --model, steps of training before those that are profiled; values go from piece to piece through the host")
	fs.IntVar(&o.Steps, "steps", 20, "steps that run")
	fs.IntVar(&o.Start, "first-step", 2, "first step that is profiled, from 0")
	fs.IntVar(&o.Count, "count", 6, "steps that are profiled")
	fs.IntVar(&o.Batch, "executions", 8, "executions in a step, each with fresh copies of the arguments (default 1 with --model)")
	fs.BoolVar(&llo, "llo", false, "show what runs inside kernels, by options of libtpu; a larger trace")
	fs.BoolVar(&stages, "static", true, "on a TPU, write the static cycles of the kernels too, which compiles them once more")
	for old, now := range map[string]string{"start": "first-step", "batch": "executions", "stages": "static"} {
		a.Formerly(c, old, now)
	}
	fs.StringVar(&out, "out", "runs/profile", "folder for the profile")
	return c
}

// profileFlags refuses combinations of flags.
func profileFlags(c *cobra.Command, name string, forward bool, train int) error {
	switch {
	case c.Flags().Changed("model") && c.Flags().Changed("spec"):
		return errors.New("a step is of --spec or of --model, not of both")
	case name == "" && forward:
		return errors.New("--forward goes with --model: whether a kernel has a backward pass is in its spec")
	case train < 0 || train > 0 && (name == "" || forward):
		return errors.New("--train is a number of steps, and goes with --model and both passes")
	}
	return nil
}

// profileWork reads the definition of a step, and returns a function that makes it for a device's target (nil: no TPU).
func (a CLI) profileWork(name, spec, variant string, forward bool) (func(*target.Target) (*profile.Work, error), error) {
	if name != "" {
		config, err := a.ReadModelConfig(name)
		return func(t *target.Target) (*profile.Work, error) {
			v, err := mfu.Variant(config, variant, t)
			if err != nil {
				return nil, app.Usage(err)
			}
			return profile.Step(config, v, forward), nil
		}, err
	}
	s, err := app.ParseSpec(spec)
	return func(t *target.Target) (*profile.Work, error) {
		form, err := route.Resolve(s, variant, t, nil)
		if err != nil {
			return nil, app.Usage(err)
		}
		a.Say(form)
		return profile.Kernel(s, form.Variant)
	}, err
}

// profileStages writes the static cycles of a step's kernels.
func (a CLI) profileStages(t *target.Target, w *profile.Work, out string) error {
	x, err := a.Instrument(false)
	if err != nil {
		return err
	}
	return profile.Stages(a.Ctx, x, t, w, out)
}
