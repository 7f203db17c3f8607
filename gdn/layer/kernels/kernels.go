//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/table"
)

// Options selects the generated programs.
type Options struct {
	Target *target.Target       // Mosaic kernels in tpu_custom_call for this TPU; nil: StableHLO for a CPU or GPU
	PTX    *ptx.Maker           // Triton kernels as PTX inside StableHLO for this GPU; unsupported programs are plain StableHLO
	Dump   func(program string) // receives every program before it is compiled; may be nil
}

// Backend is GoMLX's xla backend with generated programs in its graphs.
type Backend struct {
	*xla.Backend
	opts     Options
	route    route.Route
	plugin   *table.Table
	mu       sync.Mutex
	inserted []string
	refused  []error
}

// Wrap returns a backend that inserts generated programs into the graphs of b, which device.Open opened. It first runs a small test
// program. An error means that this version of GoMLX is built differently; b itself then still works with graph code.
func Wrap(b compute.Backend, opts Options) (*Backend, error) {
	x, ok := b.(*xla.Backend)
	if !ok {
		return nil, fmt.Errorf("kernels: backend %s takes no generated programs: only xla does", b.Name())
	}
	plugin := table.Of(x.PluginName())
	if plugin == nil {
		return nil, fmt.Errorf("kernels: the plugin %s was not loaded by this module, so no generated programs can be inserted: open the backend with device.Open", x.PluginName())
	}
	name := "stablehlo"
	if opts.Target != nil {
		name = "mosaic"
	}
	route, err := route.Lookup(name)
	if err != nil {
		return nil, err
	}
	k := &Backend{Backend: x, opts: opts, route: route, plugin: plugin}
	return k, k.try()
}

// try runs a test program with an inserted program.
func (k *Backend) try() error {
	m, b := ir.NewModule("try")
	x := b.Param("x", ir.T(ir.F32, 2))
	if err := b.Finish(m, []string{"y"}, []*ir.Value{b.Add(x, x)}); err != nil {
		return err
	}
	saved, chosen := k.opts.Dump, k.route
	k.opts.Dump = nil
	defer func() { k.opts.Dump, k.route, k.inserted = saved, chosen, nil }()
	var err error
	if k.route, err = route.Lookup("stablehlo"); err != nil {
		return err
	}
	exec, err := graph.NewExec(k, func(x *graph.Node) *graph.Node {
		return graph.Mul(k.Insert(m, map[string]*graph.Node{"x": x})[0], x)
	})
	if err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	defer exec.Finalize()
	out, err := exec.Call([]float32{1, 3})
	if err != nil {
		return fmt.Errorf("kernels: a generated program could not be inserted: %w", err)
	}
	if got := out[0].Value().([]float32); !slices.Equal(got, []float32{2, 18}) {
		return fmt.Errorf("kernels: a generated program in a graph gave %v, want [2 18]: generated programs can not be used with this version of GoMLX", got)
	}
	return nil
}

// Variant returns the best known variant of an auto text for a spec, on the target or on a CPU.
func (k *Backend) Variant(s gdn.Spec, auto string) (gdn.Variant, error) {
	f, err := route.Resolve(s, auto, k.opts.Target, nil)
	if err != nil {
		return gdn.Variant{}, err
	}
	return f.Variant, nil
}

// AcceptsSpec returns nil if there are PTX kernels for a forward spec. Otherwise, if PTX was requested, Refused lists the reason too.
func (k *Backend) AcceptsSpec(s gdn.Spec) error {
	if k.opts.PTX == nil {
		return errors.New("kernels: no PTX is asked for")
	}
	_, err := k.opts.PTX.Text(context.Background(), s)
	if err != nil {
		err = fmt.Errorf("kernels: %w", err)
		k.mu.Lock()
		k.refused = append(k.refused, err)
		k.mu.Unlock()
	}
	return err
}

// InsertSpec adds the kernels of a forward spec to the graph of its inputs, which are named as in s.Inputs. They have no gradient.
func (k *Backend) InsertSpec(s gdn.Spec, inputs map[string]*graph.Node) []*graph.Node {
	text, err := k.opts.PTX.Text(context.Background(), s)
	if err != nil {
		panic(err)
	}
	var results []ir.Type
	for _, p := range s.Outputs() {
		results = append(results, p.Type)
	}
	return k.insert("ptx", text, s.Inputs(), results, inputs)
}

// Accepts returns nil if a module can be inserted; Refused lists the reason otherwise.
func (k *Backend) Accepts(m *ir.Module) error {
	_, err := k.emit(m)
	if err != nil {
		k.mu.Lock()
		k.refused = append(k.refused, err)
		k.mu.Unlock()
	}
	return err
}

func (k *Backend) emit(m *ir.Module) (string, error) {
	a, err := k.route.Emit(m, k.opts.Target)
	if err != nil {
		return "", fmt.Errorf("kernels: %w", err)
	}
	return a.Text, nil
}

// Insert adds a module to the graph of its inputs, which are named as the module's parameters. It has no gradient.
func (k *Backend) Insert(m *ir.Module, inputs map[string]*graph.Node) []*graph.Node {
	text, err := k.emit(m)
	if err != nil {
		panic(err)
	}
	var params []gdn.Param
	for _, p := range m.Params() {
		params = append(params, gdn.Param{Name: p.Name, Type: p.Type})
	}
	var results []ir.Type
	for _, v := range m.Body.Yield {
		results = append(results, v.Type)
	}
	return k.insert(m.Name, text, params, results, inputs)
}

// insert adds the text of a program to the graph of its inputs.
func (k *Backend) insert(of, text string, params []gdn.Param, results []ir.Type, inputs map[string]*graph.Node) []*graph.Node {
	name := waiting.add(of, insertion{text, k.opts.Dump})
	k.mu.Lock()
	k.inserted = append(k.inserted, name)
	k.mu.Unlock()
	var args []*graph.Node
	for _, p := range params {
		args = append(args, inputs[p.Name])
	}
	// A function of the same types; its body is replaced when the graph is compiled.
	f := graph.NewFunction(args[0].Graph(), name, func(g *graph.Graph) []*graph.Node {
		for i, p := range params {
			graph.Parameter(g, fmt.Sprintf("x%d", i), irgraph.Shape(p.Type))
		}
		var out []*graph.Node
		for _, t := range results {
			zero := graph.Const(g, shapes.CastAsDType(0, irgraph.Types[t.DType]))
			if t.Rank() > 0 {
				zero = graph.BroadcastPrefix(zero, t.Shape...)
			}
			out = append(out, zero)
		}
		return out
	})
	return f.Call(args...)
}

// Inserted returns the names of the programs inserted so far.
func (k *Backend) Inserted() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.inserted)
}

// Refused returns the reasons why programs were not inserted so far.
func (k *Backend) Refused() []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.refused)
}

// Builder starts a computation.
func (k *Backend) Builder(name string) compute.Builder {
	b, ok := k.Backend.Builder(name).(*xla.Builder)
	if !ok {
		return nil
	}
	return &builder{Builder: b}
}

// builder is xla's builder; it also records whether its graph has generated programs.
type builder struct {
	*xla.Builder
	filled bool // has generated programs
	spread bool // spread over several devices
}

func (b *builder) NewFunction(name string) (compute.Function, error) {
	b.filled = b.filled || strings.HasPrefix(name, mark)
	return b.Builder.NewFunction(name)
}

func (b *builder) DistributedSPMD(n int) error {
	b.spread = true
	return b.Builder.DistributedSPMD(n)
}

func (b *builder) DistributedAutoSharding(meshes ...compute.Mesh) error {
	b.spread = true
	return b.Builder.DistributedAutoSharding(meshes...)
}

func (b *builder) DeviceAssignment(devices ...compute.DeviceNum) error {
	b.spread = true
	return b.Builder.DeviceAssignment(devices...)
}

// Compile compiles the graph; complete inserts the generated programs meanwhile.
func (b *builder) Compile() (compute.Executable, error) {
	if b.filled && b.spread {
		return nil, errors.New("kernels: generated programs run on one device only; use the xla backend itself to spread over several")
	}
	e, err := b.Builder.Compile()
	if err != nil && b.filled {
		err = fmt.Errorf("kernels: compiling a graph with generated programs: %w", err)
	}
	return e, err
}
