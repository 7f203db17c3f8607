package ptx

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// platform is the CUDA plugin's name for its kind of devices.
const platform = "cuda"

// GPUOf returns the GPU of a device, from its platform's name, its kind, and the attributes that the plugin reports; nil for a device of
// another platform. It errs if a GPU can not run kernels.
func GPUOf(name, kind string, attributes map[string]string) (*target.GPU, error) {
	if !strings.EqualFold(name, platform) {
		return nil, nil
	}
	d := target.Device{Kind: kind}
	d.SMs, _ = strconv.Atoi(attributes["core_count"])
	if x, err := strconv.ParseFloat(attributes["compute_capability"], 64); err == nil {
		d.Capability = int(math.Round(10 * x))
	}
	return target.GPUOf(d)
}

// Maker makes StableHLO with PTX for one GPU, once per spec. Its methods may be called concurrently.
type Maker struct {
	GPU     *target.GPU
	toolkit *gpu.Toolkit
	ptxas   string
	mu      sync.Mutex
	made    map[gdn.Spec]made
}

type made struct {
	text string
	err  error
}

// On returns the maker for a GPU (GPUOf); nil for a nil GPU. It obtains Triton and ptxas, and runs a small program with PTX on the
// device. If it errs, plain StableHLO still runs on that GPU.
func On(ctx context.Context, g *target.GPU, o plugins.Options, run func(text string, x *array.Array) (*array.Array, error)) (*Maker, error) {
	if g == nil {
		return nil, nil
	}
	if err := Try(run); err != nil {
		return nil, err
	}
	return NewMaker(ctx, g, o)
}

// OnEngine is On for the device of an engine.
func OnEngine(ctx context.Context, e *pjrt.Engine, o plugins.Options) (*Maker, error) {
	kind, err := e.Kind()
	if err != nil {
		return nil, err
	}
	g, err := GPUOf(e.Platform(), kind, e.Attributes())
	if err != nil {
		return nil, err
	}
	return On(ctx, g, o, func(text string, x *array.Array) (*array.Array, error) {
		p, err := e.Compile(text)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		y, err := p.Run(x)
		if err != nil {
			return nil, err
		}
		return y[0], nil
	})
}

// NewMaker obtains Triton and ptxas, by a download if they are not cached.
func NewMaker(ctx context.Context, g *target.GPU, o plugins.Options) (*Maker, error) {
	toolkit, err := gpu.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	ptxas, err := plugins.PTXAS(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Maker{GPU: g, toolkit: toolkit, ptxas: ptxas, made: map[gdn.Spec]made{}}, nil
}

// Supports returns nil for a spec that has kernels, else an error with the reason.
func (m *Maker) Supports(s gdn.Spec) error { return triton.Supports(s) }

// Variant returns the text of the default variant of a spec's kernels.
func (m *Maker) Variant(s gdn.Spec) string { return triton.Default(s).Text(s) }

// Precision returns the name of the arithmetic of a spec's kernels.
func (m *Maker) Precision(s gdn.Spec) string { return triton.Default(s).Precision(s) }

// Text returns the StableHLO program of a spec, with kernels of the default variant that ptxas has accepted. Results and errors are kept
// per spec.
func (m *Maker) Text(ctx context.Context, s gdn.Spec) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x, ok := m.made[s]; ok {
		return x.text, x.err
	}
	text, err := m.make(ctx, s)
	if ctx.Err() == nil {
		m.made[s] = made{text, err}
	}
	return text, err
}

func (m *Maker) make(ctx context.Context, s gdn.Spec) (string, error) {
	if err := m.Supports(s); err != nil {
		return "", err
	}
	source, err := triton.Source(s, triton.Default(s), "")
	if err != nil {
		return "", err
	}
	launches, err := m.toolkit.Compile(ctx, source, s, m.GPU)
	if err != nil {
		return "", err
	}
	text, err := Module(s, launches, m.GPU)
	if err != nil {
		return "", err
	}
	return text, AssembleAll(ctx, m.ptxas, text, m.GPU)
}

// Try runs the probe on a device, and returns nil if its result is right; else an error that wraps ErrNotTaken.
func Try(run func(text string, x *array.Array) (*array.Array, error)) error {
	values := make([]float32, probeThreads)
	for i := range values {
		values[i] = float32(i)
	}
	y, err := run(ProbeModule(), array.FromFloat32s(ir.F32, []int{probeThreads}, values))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotTaken, err)
	}
	for i, got := range y.Float32s() {
		if got != 2*values[i] {
			return fmt.Errorf("%w: the probe gives %v for %v + %v", ErrNotTaken, got, values[i], values[i])
		}
	}
	return nil
}
