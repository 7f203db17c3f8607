//go:build cgo

package pjrt

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	xla "github.com/gomlx/go-xla/pjrt"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/table"
)

// HasCgo reports whether this binary can run programs.
const HasCgo = true

var errClosed = errors.New("pjrt: closed already")

// The runtime's names of element types.
var runtimeTypes = map[ir.DType]dtypes.DType{
	ir.F64: dtypes.Float64, ir.F32: dtypes.Float32, ir.F16: dtypes.Float16, ir.BF16: dtypes.BFloat16,
	ir.I64: dtypes.Int64, ir.I32: dtypes.Int32, ir.U32: dtypes.Uint32, ir.U16: dtypes.Uint16, ir.Bool: dtypes.Bool,
}

// Engine is a client of one plugin; programs run on its first device.
type Engine struct {
	mu       sync.RWMutex // held for reading while a program compiles or runs, for writing while something closes
	table    *table.Table
	client   *xla.Client // nil when closed
	listing  sync.Mutex  // guards programs and buffers among readers
	programs map[*Program]struct{}
	buffers  map[*Buffer]struct{}
}

// engines keeps each engine reachable until it is closed: programs must be freed before their client, and a garbage collector guarantees
// no order.
var engines sync.Map

// Open loads a plugin from its shared library and makes a client for its devices. The plugin stays loaded until the process ends.
func Open(pluginPath string) (*Engine, error) {
	path, err := filepath.Abs(pluginPath)
	if err != nil {
		return nil, fmt.Errorf("pjrt: %w", err)
	}
	if err := checkLibrary(path); err != nil {
		return nil, fmt.Errorf("pjrt: %s: %w", path, err)
	}
	t, err := table.Load(path, path)
	if err != nil {
		return nil, fmt.Errorf("pjrt: loading %s: %w", path, err)
	}
	plugin, err := xla.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("pjrt: loading %s: %w", path, err)
	}
	client, err := plugin.NewClient(nil)
	if err != nil {
		_, message := splitError(err)
		return nil, fmt.Errorf("pjrt: no device for %s: %s", path, message)
	}
	e := &Engine{table: t, client: client, programs: map[*Program]struct{}{}, buffers: map[*Buffer]struct{}{}}
	engines.Store(e, nil)
	if client.NumDevices() == 0 {
		e.Close()
		return nil, fmt.Errorf("pjrt: no device for %s", path)
	}
	return e, nil
}

// checkLibrary returns an error for a file that is not a PJRT plugin, before it is loaded.
func checkLibrary(path string) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	f, err := elf.Open(path)
	if err != nil {
		if path := new(fs.PathError); errors.As(err, &path) {
			return err
		}
		return fmt.Errorf("not a shared library: %w", err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("not a shared library: %w", err)
	}
	if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == xla.GetPJRTApiFunctionName }) {
		return fmt.Errorf("not a PJRT plugin: no symbol %s", xla.GetPJRTApiFunctionName)
	}
	return nil
}

// Close frees the engine, its programs and its buffers. Closing twice is allowed.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return nil
	}
	var errs []error
	for p := range e.programs {
		errs = append(errs, p.free())
	}
	for b := range e.buffers {
		errs = append(errs, b.free())
	}
	errs = append(errs, e.client.Destroy())
	e.client = nil
	engines.Delete(e)
	return errors.Join(errs...)
}

// Platform returns the plugin's name for its kind of device, such as cpu; "" when closed.
func (e *Engine) Platform() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return ""
	}
	return e.client.Platform()
}

// Kind returns the vendor's name of the first device's kind, such as "TPU v6 lite" or "cpu".
func (e *Engine) Kind() (string, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return "", errClosed
	}
	return e.table.Kind()
}

// Attributes returns the attributes that the plugin reports of the first device, numbers as text: "compute_capability" and "core_count"
// of a GPU; nil when closed.
func (e *Engine) Attributes() map[string]string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return nil
	}
	return e.table.Attributes()
}

// Version returns the versions of the plugin's interface and platform; "" when closed.
func (e *Engine) Version() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return ""
	}
	major, minor := e.client.Plugin().Version()
	return fmt.Sprintf("PJRT %d.%d, %s", major, minor, e.client.PlatformVersion())
}

// Devices returns descriptions of the devices; programs run on the first.
func (e *Engine) Devices() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var out []string
	if e.client == nil {
		return nil
	}
	for _, d := range e.client.AddressableDevices() {
		description, err := d.GetDescription()
		if err != nil {
			out = append(out, "device without a description: "+err.Error())
			continue
		}
		out = append(out, description.DebugString())
	}
	return out
}

// Program is a compiled program, loaded on its engine's device.
type Program struct {
	engine    *Engine
	exec      *xla.LoadedExecutable // nil when closed
	signature signature
	known     bool // whether signature could be read
	reused    []reuse
}

// Compile compiles a StableHLO module in text form, whose entry is @main with at least one result. If the compiler refuses it, the error
// is a *CompileError.
func (e *Engine) Compile(stablehlo string) (*Program, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	exec, err := e.compile(stablehlo)
	if err != nil {
		return nil, err
	}
	p := &Program{engine: e, exec: exec}
	p.signature, p.known = parseSignature(stablehlo)
	p.reused = parseReuse(stablehlo)
	e.listing.Lock()
	defer e.listing.Unlock()
	e.programs[p] = struct{}{}
	return p, nil
}

func (e *Engine) compile(stablehlo string) (*xla.LoadedExecutable, error) {
	if e.client == nil {
		return nil, errClosed
	}
	if stablehlo == "" {
		return nil, &CompileError{Message: "the program is empty"}
	}
	exec, err := e.client.Compile().WithStableHLO([]byte(stablehlo)).Done()
	if err != nil {
		code, message := splitError(err)
		return nil, &CompileError{Code: code, Message: message}
	}
	if exec.NumOutputs == 0 {
		return nil, errors.Join(&CompileError{Message: "@main gives no result"}, exec.Destroy())
	}
	return exec, nil
}

// Close frees the program. Closing twice is allowed.
func (p *Program) Close() error {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	return p.free()
}

// free needs the engine's lock.
func (p *Program) free() error {
	if p.exec == nil {
		return nil
	}
	err := p.exec.Destroy()
	p.exec = nil
	delete(p.engine.programs, p)
	return err
}

// Run executes the program once on copies of the arguments, and copies the results back. It errs if the arguments differ from the
// program's in number, element type or shape.
func (p *Program) Run(args ...*array.Array) ([]*array.Array, error) {
	p.engine.mu.RLock()
	defer p.engine.mu.RUnlock()
	inputs, err := p.upload(args)
	defer destroy(inputs)
	if err != nil {
		return nil, err
	}
	outputs, err := p.execute(inputs)
	defer destroy(outputs)
	if err != nil {
		return nil, err
	}
	results := make([]*array.Array, len(outputs))
	for i, b := range outputs {
		if results[i], err = download(b); err != nil {
			return nil, fmt.Errorf("pjrt: result %d: %w", i, err)
		}
	}
	return results, nil
}

// Time executes the program repeatedly with its arguments kept on the device. Results are freed outside the timed part, and not copied
// back. A result that reuses an argument's memory is that argument of the next run.
func (p *Program) Time(opts TimeOptions, args ...*array.Array) (Timing, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Timing{}, err
	}
	p.engine.mu.RLock()
	defer p.engine.mu.RUnlock()
	inputs, err := p.upload(args)
	defer destroy(inputs)
	if err != nil {
		return Timing{}, err
	}
	all := make([]time.Duration, 0, opts.Trials)
	for i := range opts.Warmup + opts.Trials {
		start := time.Now()
		outputs, err := p.execute(inputs)
		took := time.Since(start)
		if err == nil {
			for _, r := range p.reused {
				inputs[r.argument], outputs[r.result] = outputs[r.result], inputs[r.argument]
			}
		}
		destroy(outputs)
		if err != nil {
			return Timing{}, err
		}
		if i >= opts.Warmup {
			all = append(all, took)
		}
	}
	return summarize(all), nil
}

// upload checks the arguments and copies them to the device. On an error it returns the buffers made so far too.
func (p *Program) upload(args []*array.Array) ([]*xla.Buffer, error) {
	if p.exec == nil {
		return nil, errClosed
	}
	for i, a := range args {
		if err := a.Check(); err != nil {
			return nil, fmt.Errorf("pjrt: argument %d: %w", i, err)
		}
	}
	if p.known {
		types := make([]ir.Type, len(args))
		for i, a := range args {
			types[i] = a.IRType()
		}
		if err := p.signature.check(types); err != nil {
			return nil, fmt.Errorf("pjrt: %w", err)
		}
	}
	var buffers []*xla.Buffer
	for i, a := range args {
		b, err := p.engine.uploadOne(a)
		if err != nil {
			return buffers, fmt.Errorf("pjrt: copying argument %d (%s) to the device: %w", i, a, err)
		}
		buffers = append(buffers, b)
	}
	return buffers, nil
}

// uploadOne copies an array to the device.
func (e *Engine) uploadOne(a *array.Array) (*xla.Buffer, error) {
	data := a.Data
	if len(data) == 0 {
		data = make([]byte, 1) // the runtime needs an address even for no elements
	}
	b, err := e.client.BufferFromHost().FromRawData(data, runtimeTypes[a.Type], a.Shape).Done()
	if err != nil {
		_, message := splitError(err)
		return nil, errors.New(message)
	}
	return b, nil
}

// execute runs the program and waits for its end. Arguments whose memory results reuse are donated.
func (p *Program) execute(inputs []*xla.Buffer) ([]*xla.Buffer, error) {
	run := p.exec.Execute(inputs...)
	for _, r := range p.reused {
		run = run.Donate(r.argument)
	}
	outputs, err := run.Done()
	if err != nil {
		_, message := splitError(err)
		return nil, fmt.Errorf("pjrt: running the program: %s", message)
	}
	return outputs, nil
}

// bufferType returns the element type and shape of a buffer.
func bufferType(b *xla.Buffer) (ir.Type, error) {
	elem, err := b.DType()
	if err != nil {
		return ir.Type{}, err
	}
	shape, err := b.Dimensions()
	if err != nil {
		return ir.Type{}, err
	}
	for d, r := range runtimeTypes {
		if r == elem {
			return ir.T(d, shape...), nil
		}
	}
	return ir.Type{}, fmt.Errorf("element type %s has no host array; convert it in the program", elem)
}

// download copies a buffer to the host.
func download(b *xla.Buffer) (*array.Array, error) {
	t, err := bufferType(b)
	if err != nil {
		return nil, err
	}
	a := array.New(t.DType, t.Shape...)
	if len(a.Data) == 0 {
		return a, nil
	}
	return a, b.ToHost(a.Data)
}

// destroy frees buffers now; the garbage collector would free them later.
func destroy(buffers []*xla.Buffer) {
	for _, b := range buffers {
		b.Destroy() // an error means that the buffer is already gone
	}
}
