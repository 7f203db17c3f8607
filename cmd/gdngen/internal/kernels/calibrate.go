package kernels

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/gdngen/gdngen/autotune/calibrate"
	"github.com/gdngen/gdngen/autotune/promoted"
	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/spf13/cobra"
)

func (a CLI) CalibrateCmd() *cobra.Command {
	var ask, quick bool
	var name, out string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Fit the table of modelled times to an attached GPU",
		Long: `calibrate --attached measures the latencies and rates of the attached GPU that modelled times need (docs/gpu.md). First it checks the
numbers of the front's kernels against float64. Then it times microkernels, each of which gives one constant of the
table, and the front: variants of decode and prefill on contest heads, with measured times and modelled times
before and after the fit. The table goes into the user's configuration, with its residuals; from then on explain and
search use it. Without --attached it shows the table in use.

It needs only NVIDIA's driver and Triton: kernels are compiled ahead of time and launched by a child process.
The status is 3 if a kernel misses a limit, 6 where no GPU or no driver is.`,
		Example: `  gdngen device calibrate --attached
  gdngen device calibrate --target h100                     what is in use
  gdngen device calibrate --attached --quick --out h100.json   the table alone, into a file`,
		GroupID: "self",
		Args:    app.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if ask {
				return a.calibrate(name, out, quick)
			}
			return a.showCalibration(name)
		},
	}
	c.Flags().BoolVar(&ask, "attached", false, "ask the attached GPU")
	a.Formerly(c, "device", "attached")
	c.Flags().BoolVar(&quick, "quick", false, "the table alone: the front is neither examined nor timed")
	c.Flags().StringVar(&name, "target", "", "GPU that the device must be of (default: whatever is attached)")
	c.Flags().StringVar(&out, "out", "", "write to this file, in place of the user's configuration")
	app.Complete(c, "target", target.GPUNames())
	return c
}

// showCalibration prints the calibration in use for a GPU, or for all.
func (a CLI) showCalibration(name string) error {
	gpus, err := gpuTargets(cmp.Or(name, "all"))
	if err != nil {
		return err
	}
	list, err := calibrate.Kept(gpus)
	if err != nil {
		return err
	}
	return app.Emit(a.App, list, list, func(w io.Writer) {
		for _, c := range list {
			c.Write(w)
		}
		if len(list) == 0 {
			fmt.Fprintln(w, "no GPU is calibrated: `gdngen device calibrate --attached` asks the one that is attached")
		}
	})
}

// attachedGPU opens the attached GPU; if a name is given it must match.
func (a CLI) attachedGPU(name string) (*calibrate.Device, error) {
	if name != "" {
		g, err := target.LookupGPU(name)
		if err != nil {
			return nil, app.Usage(err)
		}
		name = g.Name
	}
	if err := gpu.Driver(a.Ctx); err != nil {
		return nil, err
	}
	k, err := a.toolkit()
	if err != nil {
		return nil, err
	}
	d, err := calibrate.Attached(a.Ctx, k, name)
	if err != nil {
		return nil, err
	}
	d.Note = a.Note
	d.Version, _ = app.Version()
	return d, nil
}

func (a CLI) calibrate(name, out string, quick bool) error {
	d, err := a.attachedGPU(name)
	if err != nil {
		return err
	}
	if named, err := target.LookupGPU(name); err == nil && named.Name != d.GPU.Name {
		return &gpu.NoDevice{Reason: fmt.Sprintf("the attached %s is a %s, no %s", d.Info.Name, d.GPU.Name, named.Name)}
	}
	g := d.GPU.Start()
	if g == nil {
		return app.Failed(app.ExitRejected, "no times are modelled for %s, so there is no table to fit (%s); `gdngen device selftest --target TARGET` examines its numbers",
			d.GPU.Name, cmp.Or(d.GPU.Missing(), "nor for another of its compute capability"))
	}
	if out == "" {
		out = calibrate.File(g.Name)
	}
	if out == "" {
		return app.Usage(fmt.Errorf("%s is %s, so there is no configuration to write to: name a file by --out", promoted.DirEnv, promoted.Off))
	}
	a.Note("%s is a %s", d.Info.Name, g.Name)
	var programs []gpu.FrontProgram
	if !quick {
		if programs, err = d.Programs(a.Ctx); err != nil {
			return err
		}
	}
	c, err := d.Calibrate(a.Ctx, g, programs, a.Note)
	if err != nil {
		return err
	}
	if err := c.Save(out); err != nil {
		return err
	}
	return app.Emit(a.App, c, c.Front, func(w io.Writer) {
		c.Write(w)
		fmt.Fprintf(w, "written to %s\n", out)
	})
}

// selftestGPU runs the selftest of Triton kernels on the attached GPU.
func (a CLI) selftestGPU(name string, quick, allowSkip bool) error {
	d, err := a.attachedGPU(name)
	if err != nil {
		return err
	}
	at := device.Info{Platform: "cuda", Version: fmt.Sprint(d.Info.Driver), Kind: d.Info.Name, Devices: []string{d.Info.Name}}
	t := &selftest.Test{Device: at, Target: d.GPU.Name, Quick: quick, Seed: 1, Version: d.Version}
	begun := time.Now()
	rows, lost := d.Selftest(a.Ctx, quick)
	if len(rows) == 0 || a.Ctx.Err() != nil {
		return lost
	}
	t.Rows, t.Seconds = rows, time.Since(begun).Seconds()
	return a.concludeSelftest(t, allowSkip, lost)
}
