package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/profile"
)

func (a *app) profileCmd() *cobra.Command {
	var f deviceFlags
	var o pjrt.ProfileOptions
	var spec, variant, out string
	var llo bool
	c := &cobra.Command{
		Use:   "profile",
		Short: "Profile a kernel on a device, without JAX",
		Long: `profile runs steps of a kernel on a device and profiles some of them by the plugin's own profiler, in a process of its own. --out gets
plugins/profile/TIME/HOST.xplane.pb, which gdngen trace, XProf and TensorBoard read, and ` + profile.StepsFile + `: what ran, and what each step took on the host. A plugin without a
profiler, such as the pinned one of the CPU, gives the latter alone, and that is said.`,
		Example: "  gdngen profile --spec bench\n  gdngen profile --spec bench,t=1024 --variant naive --plugin cpu --steps 8 --out runs/cpu",
		GroupID: "away",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			s, err := parseSpec(spec)
			if err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return usage(err)
			}
			if llo {
				if err := os.Setenv(device.FlagsVariable, profile.AddArgs(os.Getenv(device.FlagsVariable), profile.LLOArgs)); err != nil {
					return err
				}
			}
			if a.runner, err = a.newRunner(&f); err != nil {
				return err
			}
			d := a.runner.Device()
			form, err := lower.Suit(s, variant, d.Target())
			if err != nil {
				return usage(err)
			}
			a.say(form)
			lock, err := a.machine(machine.Measures, false, a.waiting)
			if err != nil {
				return err
			}
			r, err := profile.Run(a.ctx, d, lock, s, form.Variant, o, out)
			if err != nil {
				return err
			}
			if r.NoTrace != "" {
				a.warn("no trace: %s", r.NoTrace)
			}
			return emit(a, r, []any{r}, func(w io.Writer) { r.Write(w, out) })
		},
	}
	specFlag(c, &spec, "bench")
	variantFlag(c, &variant)
	f.add(c)
	fs := c.Flags()
	fs.IntVar(&o.Steps, "steps", 20, "steps that run")
	fs.IntVar(&o.Start, "start", 2, "first step that is profiled, from 0")
	fs.IntVar(&o.Count, "count", 6, "steps that are profiled")
	fs.IntVar(&o.Batch, "batch", 8, "executions in a step, each with fresh copies of the arguments")
	fs.BoolVar(&llo, "llo", false, "show what runs inside kernels, by options of libtpu; a larger trace")
	fs.StringVar(&out, "out", "runs/profile", "folder for the profile")
	return c
}
