package kernels

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// launchesCost is the modelled cost of the Triton kernels that a script launches.
type launchesCost struct {
	Script string `json:"script"`
	Triton string `json:"triton"`
	gpu.Report
}

// explainLaunches models the Triton kernels of a Python script, which runs without a GPU, or of a folder written by --dump.
func (a CLI) explainLaunches(f *explainFlags, path string, targetNamed bool) error {
	trips, err := gpu.ParseTrips(f.trips)
	if err != nil {
		return app.Usage(fmt.Errorf("--trips %w", err))
	}
	if err := f.noTPUFlags(); err != nil {
		return err
	}
	name, capture := f.target, a.captureBy(f, path)
	if gpu.IsCapture(path) {
		if f.dump != "" {
			return app.Usage(fmt.Errorf("--dump keeps the launches of a script, and those of %s are stored already", path))
		}
		c, err := gpu.ReadCapture(path)
		if err != nil {
			return err
		}
		if !targetNamed {
			name = "sm" + strconv.Itoa(c.Capability)
		}
		capture = func(*target.GPU) (*gpu.Capture, error) { return c, nil }
	} else if _, err := os.Stat(path); err != nil {
		return app.Usage(err)
	}
	gpus, err := gpuTargets(name)
	if err != nil {
		return err
	}
	var r launchesCost
	for _, g := range gpus {
		c, err := capture(g)
		if err != nil {
			return err
		}
		list, err := c.Model(g, trips)
		if err != nil {
			return app.Failed(app.ExitRejected, "%s: %w", path, err)
		}
		r.Script, r.Triton = c.Script, c.Triton
		r.Add(g, list)
	}
	return app.Emit(a.App, r, r.Launches, func(w io.Writer) {
		fmt.Fprintf(w, "%s, by Triton %s\n\n", r.Script, r.Triton)
		r.Write(w)
	})
}

// captureBy runs a script once per target, since its launches may depend on it.
func (a CLI) captureBy(f *explainFlags, path string) func(*target.GPU) (*gpu.Capture, error) {
	return func(g *target.GPU) (c *gpu.Capture, err error) {
		k, o := &gpu.Toolkit{}, gpu.CaptureOptions{Python: f.python, Configs: f.configs}
		if f.python == "" {
			if k, err = a.toolkit(); err != nil {
				return nil, err
			}
		}
		if f.dump != "" {
			o.Folder = filepath.Join(f.dump, g.Name)
		}
		a.Note("compiling the kernels of %s for %s, at most %d configs of each", filepath.Base(path), g.Name, f.configs)
		return k.Capture(a.Ctx, path, g, o)
	}
}
