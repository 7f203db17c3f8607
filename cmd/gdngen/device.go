package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
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

// deviceEngine is the engine that runs on a device.
const deviceEngine = "device"

// attach opens the device of a plan whose engine wants one; what is computed is then made for that device.
func (a *app) attach(p *plan, engine, plugin, target string) error {
	if engine != deviceEngine {
		if plugin != "" {
			return usage(fmt.Errorf("--plugin goes with --engine %s", deviceEngine))
		}
		return nil
	}
	r, err := a.newRunner(&deviceFlags{plugin, target})
	if err != nil {
		return err
	}
	a.runner, p.target = r, r.Device().Target()
	kernels := "programs of plain ops"
	if p.target != nil {
		kernels = "kernels for " + p.target.Name
	}
	a.note("on %s: %s", r.Device().Info(), kernels)
	return nil
}

// deviceCompute runs the program of each spec on the device.
func (a *app) deviceCompute(p plan) (compute, error) {
	modules := map[gdn.Spec]*ir.Module{}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		m := modules[s]
		if m == nil {
			f, err := p.form(s)
			if err != nil {
				return nil, err
			}
			if m, err = f.Build(); err != nil {
				return nil, err
			}
			modules[s] = m
		}
		return a.runner.Run(a.ctx, m, inputs)
	}, nil
}
