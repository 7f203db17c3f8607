package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/gpu"
	"github.com/gdngen/gdngen/target"
)

// launchesCost is the modelled cost of the Triton kernels that a script launches.
type launchesCost struct {
	Script   string             `json:"script"`
	Triton   string             `json:"triton"`
	Modelled map[string]float64 `json:"modelled_us"` // by target, of all launches
	Launches []gpu.Modelled     `json:"launches"`
	Note     string             `json:"note"`
}

// explainLaunches models the Triton kernels of a Python script, which is run with no GPU, or of a folder that --dump kept of one.
func (a *app) explainLaunches(f *explainFlags, path string, targetNamed bool) error {
	trips, err := parseTrips(f.trips)
	if err != nil {
		return usage(err)
	}
	if f.configs < 1 {
		return usage(errors.New("--configs is at least 1"))
	}
	if err := f.noTPUFlags(); err != nil {
		return err
	}
	r := launchesCost{Modelled: map[string]float64{}, Note: modelledNote()}
	add := func(c *gpu.Capture, g *target.GPU) error {
		list, err := c.Model(g, trips)
		if err != nil {
			return failed(exitRejected, "%s: %w", path, err)
		}
		r.Script, r.Triton, r.Launches = c.Script, c.Triton, append(r.Launches, list...)
		if g.Timing != nil {
			r.Modelled[g.Name] = gpu.Time(list)
		}
		return nil
	}
	if gpu.IsCapture(path) {
		err = a.storedLaunches(f, path, targetNamed, add)
	} else {
		err = a.capturedLaunches(f, path, add)
	}
	if err != nil {
		return err
	}
	return emit(a, r, r.Launches, func(w io.Writer) {
		fmt.Fprintf(w, "%s, by Triton %s\n\n", r.Script, r.Triton)
		gpu.WriteModelled(w, r.Launches)
		for _, g := range target.GPUs() {
			if us, ok := r.Modelled[g.Name]; ok {
				fmt.Fprintf(w, "\n%s: %.1f us modelled for all launches", g.Name, us)
			}
		}
		fmt.Fprintf(w, "\n%s\n", modelledNote())
	})
}

// storedLaunches reads a folder of launches. Its code is for one GPU, which is the target where none is named.
func (a *app) storedLaunches(f *explainFlags, path string, targetNamed bool, add func(*gpu.Capture, *target.GPU) error) error {
	if f.dump != "" {
		return usage(fmt.Errorf("--dump keeps the launches of a script, and those of %s are stored already", path))
	}
	c, err := gpu.ReadCapture(path)
	if err != nil {
		return err
	}
	name := f.target
	if !targetNamed {
		name = "sm" + strconv.Itoa(c.Capability)
	}
	gpus, err := gpuTargets(name)
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if err := add(c, g); err != nil {
			return err
		}
	}
	return nil
}

// capturedLaunches runs a script, once for each target: what it launches may depend on that.
func (a *app) capturedLaunches(f *explainFlags, path string, add func(*gpu.Capture, *target.GPU) error) error {
	if _, err := os.Stat(path); err != nil {
		return usage(err)
	}
	gpus, err := gpuTargets(f.target)
	if err != nil {
		return err
	}
	k := &gpu.Toolkit{}
	if f.python == "" {
		if k, err = a.toolkit(); err != nil {
			return err
		}
	}
	for _, g := range gpus {
		a.note("compiling the kernels of %s for %s, at most %d configs of each", filepath.Base(path), g.Name, f.configs)
		o := gpu.CaptureOptions{Python: f.python, Configs: f.configs}
		if f.dump != "" {
			o.Folder = filepath.Join(f.dump, g.Name)
		}
		c, err := k.Capture(a.ctx, path, g, o)
		if err != nil {
			return err
		}
		if err := add(c, g); err != nil {
			return err
		}
	}
	return nil
}

// parseTrips reads KERNEL=N.
func parseTrips(list []string) (map[string]int, error) {
	trips := map[string]int{}
	for _, text := range list {
		kernel, value, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || kernel == "" {
			return nil, fmt.Errorf("--trips %s: want KERNEL=N, how often the loop of a kernel turns", text)
		}
		trips[kernel] = n
	}
	return trips, nil
}
