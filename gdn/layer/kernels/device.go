//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// OnDevice returns the options for a backend's device, by its plugin's platform and device kind: kernels for supported TPUs and GPUs, plain
// StableHLO otherwise. For a GPU it obtains Triton and ptxas, and runs a small PTX program on the device. With an error, which says why there
// are no kernels, the options are those for plain StableHLO.
func OnDevice(ctx context.Context, b compute.Backend, o plugins.Options) (Options, error) {
	k, err := Wrap(b, Options{})
	if err != nil {
		return Options{}, err
	}
	kind, err := k.plugin.Kind()
	if err != nil {
		return Options{}, fmt.Errorf("kernels: %w", err)
	}
	platform, err := k.plugin.Platform()
	if err != nil {
		return Options{}, fmt.Errorf("kernels: %w", err)
	}
	if strings.Contains(strings.ToLower(platform), "tpu") {
		t, err := target.OfKind(kind)
		return Options{Target: t}, err
	}
	g, err := ptx.GPUOf(platform, kind, k.plugin.Attributes())
	if err != nil {
		return Options{}, fmt.Errorf("kernels: %w", err)
	}
	maker, err := ptx.On(ctx, g, o, k.runProbe)
	if err != nil {
		return Options{}, fmt.Errorf("kernels: %w", err)
	}
	return Options{PTX: maker}, nil
}

// runProbe computes a program of one input and one output on the device.
func (k *Backend) runProbe(text string, x *array.Array) (*array.Array, error) {
	t := ir.T(x.Type, x.Shape...)
	exec, err := graph.NewExec(k, func(in *graph.Node) *graph.Node {
		return k.insert("probe", text, []gdn.Param{{Name: "x", Type: t}}, []ir.Type{t}, map[string]*graph.Node{"x": in})[0]
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	in, err := device.Tensor(x)
	if err != nil {
		return nil, err
	}
	out, err := exec.Call(in)
	if err != nil {
		return nil, err
	}
	return device.Array(out[0])
}
