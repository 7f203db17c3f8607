package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

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
	complete(c, "target", targetNames())
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

// runner computes on a device. After a crash or a hang it opens the device again.
type runner struct {
	o    device.Options
	open *device.Device
	m    *ir.Module // that program is of
	p    *device.Program
}

func (a *app) newRunner(f *deviceFlags) (*runner, error) {
	o, err := a.deviceOptions(f)
	if err != nil {
		return nil, err
	}
	r := &runner{o: o}
	return r, r.ready(a.ctx)
}

func (r *runner) ready(ctx context.Context) (err error) {
	if r.open == nil {
		r.open, err = device.Open(ctx, r.o)
	}
	return err
}

// close ends the process of the device.
func (r *runner) close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open, r.m, r.p = nil, nil, nil
	return err
}

// run computes a module, which is compiled where the last one was another.
func (r *runner) run(ctx context.Context, m *ir.Module, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	outputs, err := r.try(ctx, m, inputs)
	crash, late := (*device.CrashError)(nil), (*device.TimeoutError)(nil)
	if errors.As(err, &crash) || errors.As(err, &late) {
		return nil, errors.Join(err, r.close())
	}
	return outputs, err
}

func (r *runner) try(ctx context.Context, m *ir.Module, inputs map[string]*array.Array) (map[string]*array.Array, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if r.m != m {
		if r.p != nil {
			if err := r.p.Close(); err != nil {
				return nil, err
			}
		}
		var err error
		r.m, r.p = nil, nil
		if r.p, err = r.open.Load(ctx, m); err != nil {
			return nil, err
		}
		r.m = m
	}
	args := make([]*array.Array, len(m.Params()))
	for i, p := range m.Params() {
		args[i] = inputs[p.Name]
	}
	results, err := r.p.Run(ctx, args...)
	if err != nil {
		return nil, err
	}
	if len(results) != len(m.Results) {
		return nil, fmt.Errorf("the device gives %d results, the program %d", len(results), len(m.Results))
	}
	outputs := map[string]*array.Array{}
	for i, name := range m.Results {
		outputs[name] = results[i]
	}
	return outputs, nil
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
	a.runner, p.target = r, r.open.Target()
	kernels := "programs of plain ops"
	if p.target != nil {
		kernels = "kernels for " + p.target.Name
	}
	a.note("on %s: %s", r.open.Info(), kernels)
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
		return a.runner.run(a.ctx, m, inputs)
	}, nil
}
