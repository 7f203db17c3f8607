package app

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gdngen/gdngen/autotune/check/engine"
	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// DeviceFlags choose the device of a command.
type DeviceFlags struct{ Plugin, Target string }

const PluginUse = "PJRT plugin of the device, a path or cpu (default: libtpu where a TPU is attached, else cpu)"

func (f *DeviceFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.Plugin, "plugin", "", PluginUse)
	c.Flags().StringVar(&f.Target, "target", "", "TPU generation that the device must be of (default: whatever is attached)")
	Complete(c, "target", target.Names())
}

// PluginPath returns the path of a plugin: a given path, the pinned plugin of the CPU, or for "" the plugin of the attached device.
func (a *App) PluginPath(plugin string) (string, error) {
	if !pjrt.HasCgo {
		_, err := pjrt.Open("")
		return "", &codeError{ExitNoEngine, err}
	}
	if plugin == "" && len(plugins.AttachedTPUs()) > 0 {
		p, err := plugins.TPU(a.Ctx, plugins.Options{Path: a.Libtpu, Progress: a.Stderr, Offline: a.Offline})
		return p.Path, err
	}
	if plugin != "" && plugin != "cpu" {
		return filepath.Abs(plugin)
	}
	p, err := plugins.CPU(a.Ctx, plugins.Options{Path: a.CPUPlugin, Progress: a.Stderr, Offline: a.Offline})
	return p.Path, err
}

// DeviceOptions returns the plugin of a device and the target that it must match.
func (a *App) DeviceOptions(f *DeviceFlags) (device.Options, error) {
	o := device.Options{Emit: route.Text, Note: func(text string) { a.Note("%s", text) }}
	if f.Target != "" {
		list, err := ParseTargets(f.Target)
		if err != nil {
			return o, err
		}
		if len(list) != 1 {
			return o, Usage(fmt.Errorf("a device is of one generation: give one target, not %d", len(list)))
		}
		o.Targets, o.Only = list, true
	}
	var err error
	o.Plugin, err = a.PluginPath(f.Plugin)
	return o, err
}

// NewRunner opens the device chosen by the flags.
func (a *App) NewRunner(f *DeviceFlags) (*device.Runner, error) {
	o, err := a.DeviceOptions(f)
	if err != nil {
		return nil, err
	}
	return device.NewRunner(a.Ctx, o)
}

// ptxOn returns a maker of programs with PTX inside if the device is a GPU that takes them, else nil. It notes why a GPU gets plain programs.
func (a *App) ptxOn(r *device.Runner) *ptx.Maker {
	info := r.Device().Info()
	g, err := ptx.GPUOf(info.Platform, info.Kind, info.Attributes)
	if err != nil {
		a.Note("no kernels for %s: %v", info.Kind, err)
		return nil
	}
	if g != nil && g.Missing() != "" {
		a.Note("%s", g.Missing())
	}
	m, err := ptx.On(a.Ctx, g, plugins.Options{Progress: a.Stderr, Offline: a.Offline}, func(text string, x *array.Array) (*array.Array, error) {
		y, err := r.RunText(a.Ctx, text, x)
		if err != nil {
			return nil, err
		}
		return y[0], nil
	})
	if err != nil {
		a.Note("no kernels for %s: %v", info.Kind, err)
	}
	return m
}

// Attach opens the device of a plan whose engine needs one, and sets the plan's target to it.
func (a *App) Attach(p *engine.Plan, name, plugin, wish string) error {
	if name != engine.Device {
		if plugin != "" {
			return Usage(fmt.Errorf("--plugin goes with --engine %s", engine.Device))
		}
		return nil
	}
	wanted, _ := target.LookupGPU(wish) // the runner does not know GPUs as generations
	if wanted != nil {
		wish = ""
	}
	r, err := a.NewRunner(&DeviceFlags{plugin, wish})
	if err != nil {
		return err
	}
	a.Runner, p.Target = r, r.Device().Target()
	if info := r.Device().Info(); wanted != nil {
		if g, err := ptx.GPUOf(info.Platform, info.Kind, info.Attributes); err != nil || g == nil || g.Capability != wanted.Capability {
			return &gpu.NoDevice{Reason: fmt.Sprintf("the device is %s, which does not take the kernels of %s", info, wanted.Name)}
		}
	}
	kernels := "programs of plain ops"
	if p.Target != nil {
		kernels = "kernels for " + p.Target.Name
	} else if m := a.ptxOn(r); m != nil {
		p.PTX, kernels = m, "kernels for "+m.GPU.Name+", as PTX inside of StableHLO (see docs/gpu.md)"
	}
	a.Note("on %s: %s", r.Device().Info(), kernels)
	return nil
}
