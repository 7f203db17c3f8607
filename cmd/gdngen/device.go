package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/engine"
	"github.com/gdngen/gdngen/gpu/ptx"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// deviceFlags say which device a command runs on.
type deviceFlags struct{ plugin, target string }

const pluginUse = "PJRT plugin of the device, a path or cpu (default: libtpu where a TPU is attached, else cpu)"

func (f *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.plugin, "plugin", "", pluginUse)
	c.Flags().StringVar(&f.target, "target", "", "TPU generation that the device must be of (default: whatever is attached)")
	complete(c, "target", codegen.TargetNames())
}

// pluginPath finds a plugin: a path, the pinned one of the CPU, or where none is named the one of what is attached.
func (a *app) pluginPath(plugin string) (string, error) {
	if !pjrt.HasCgo {
		_, err := pjrt.Open("")
		return "", &codeError{exitNoEngine, err}
	}
	if plugin == "" && len(plugins.AttachedTPUs()) > 0 {
		p, err := plugins.TPU(a.ctx, plugins.Options{Path: a.libtpu, Progress: a.stderr, Offline: a.offline})
		return p.Path, err
	}
	if plugin != "" && plugin != "cpu" {
		return filepath.Abs(plugin)
	}
	p, err := plugins.CPU(a.ctx, plugins.Options{Path: a.cpuPlugin, Progress: a.stderr, Offline: a.offline})
	return p.Path, err
}

// deviceOptions finds the plugin of a device and the target that it must be of.
func (a *app) deviceOptions(f *deviceFlags) (device.Options, error) {
	o := device.Options{}
	if f.target != "" {
		list, err := parseTargets(f.target)
		if err != nil {
			return o, err
		}
		if len(list) != 1 {
			return o, usage(fmt.Errorf("a device is of one generation: give one target, not %d", len(list)))
		}
		o.Targets, o.Only = list, true
	}
	var err error
	o.Plugin, err = a.pluginPath(f.plugin)
	return o, err
}

// newRunner opens the device of the flags.
func (a *app) newRunner(f *deviceFlags) (*device.Runner, error) {
	o, err := a.deviceOptions(f)
	if err != nil {
		return nil, err
	}
	return device.NewRunner(a.ctx, o)
}

// ptxOn makes programs with PTX inside for a device that is a GPU and takes them; nil for another device. Why a GPU gets plain programs is noted.
func (a *app) ptxOn(r *device.Runner) *ptx.Maker {
	info := r.Device().Info()
	m, err := ptx.On(a.ctx, info.Platform, info.Kind, plugins.Options{Progress: a.stderr, Offline: a.offline}, func(text string, x *array.Array) (*array.Array, error) {
		y, err := r.RunText(a.ctx, text, x)
		if err != nil {
			return nil, err
		}
		return y[0], nil
	})
	if err != nil {
		a.note("no kernels for %s: %v", info.Kind, err)
	}
	return m
}

// attach opens the device of a plan whose engine wants one; what is computed is then made for that device.
func (a *app) attach(p *engine.Plan, name, plugin, target string) error {
	if name != engine.Device {
		if plugin != "" {
			return usage(fmt.Errorf("--plugin goes with --engine %s", engine.Device))
		}
		return nil
	}
	r, err := a.newRunner(&deviceFlags{plugin, target})
	if err != nil {
		return err
	}
	a.runner, p.Target = r, r.Device().Target()
	kernels := "programs of plain ops"
	if p.Target != nil {
		kernels = "kernels for " + p.Target.Name
	} else if m := a.ptxOn(r); m != nil {
		p.PTX, kernels = m, "kernels for "+m.GPU.Name+", as PTX inside of StableHLO (see docs/gpu.md)"
	}
	a.note("on %s: %s", r.Device().Info(), kernels)
	return nil
}
