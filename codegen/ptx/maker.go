package ptx

import (
	"context"
	"fmt"
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

// platform is what the CUDA plugin calls its kind of devices.
const platform = "cuda"

// GPUOf is the GPU whose kernels a device takes, by the platform of its plugin and its own kind; nil where there are none for it: another
// platform, or a GPU of another kind.
func GPUOf(name, kind string) *target.GPU {
	if !strings.EqualFold(name, platform) {
		return nil
	}
	return target.GPUOfKind(kind)
}

// Unknown names the missing facts of a GPU without kernels; nil for other devices.
func Unknown(name, kind string) error {
	if !strings.EqualFold(name, platform) || GPUOf(name, kind) != nil {
		return nil
	}
	return fmt.Errorf("%s is no kind that takes the kernels of %s: ir/target has no row of its compute capability", kind, strings.Join(target.GPUNames(), ", "))
}

// Maker makes StableHLO with PTX inside for one GPU, from each spec once. Its methods may be called from several goroutines.
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

// On gives the maker for a device, by the platform of its plugin and its kind; nil for a device that is no GPU of ours (see Unknown). It obtains Triton and
// ptxas, and has the device run a small program with PTX inside. An error says why a GPU has none: plain StableHLO runs there all the same.
func On(ctx context.Context, name, kind string, o plugins.Options, run func(text string, x *array.Array) (*array.Array, error)) (*Maker, error) {
	g := GPUOf(name, kind)
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
	return On(ctx, e.Platform(), kind, o, func(text string, x *array.Array) (*array.Array, error) {
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

// NewMaker obtains Triton and ptxas, by a download where they are in no cache.
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

// Supports says why there are no kernels of a spec; nil where there are.
func (m *Maker) Supports(s gdn.Spec) error { return triton.Supports(s) }

// Variant is the text of the default variant of a spec's kernels.
func (m *Maker) Variant(s gdn.Spec) string { return triton.Default(s).Text(s) }

// Precision is the arithmetic of the kernels of a spec.
func (m *Maker) Precision(s gdn.Spec) string { return triton.Default(s).Precision(s) }

// Text is the program of a spec, by the default variant of its kernels. ptxas has assembled what is inside.
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

// Try says why a device does not take PTX inside of StableHLO; nil where the probe computes what it should there.
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
