//go:build linux && (amd64 || arm64)

package aot

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The part of PJRT's C API that a compile without a client needs. Structures mirror pjrt_c_api.h on 64-bit machines. Each argument
// structure starts with its size; a plugin accepts one at least as large as its own.

// slot is an index into the function table of PJRT_Api.
type slot int

const (
	errorDestroy          slot = 0
	errorMessage          slot = 1
	errorGetCode          slot = 2
	pluginInitialize      slot = 3
	executableDestroy     slot = 40
	executableCodeBytes   slot = 45
	executableCost        slot = 46
	topologyCreate        slot = 82
	compileForTopology    slot = 89
	executableFingerprint slot = 94
	executableMemory      slot = 96
)

// head starts every argument structure.
type head struct {
	size      uintptr
	extension uintptr
}

// apiHead starts PJRT_Api; the function table follows.
type apiHead struct {
	head
	version struct {
		head
		major, minor int32
	}
}

// object is the argument structure of functions that take one handle and return nothing.
type object struct {
	head
	handle uintptr
}

// text is the argument structure of functions that return a string, valid as long as the handle.
type text struct {
	object
	data *byte
	len  uintptr
}

// number is the argument structure of functions that return one integer.
type number struct {
	object
	value int64
}

// plugin is a loaded and initialised plugin.
type plugin struct {
	version   string
	functions []uintptr
}

// statusError is an error returned by the plugin, with its absl status code.
type statusError struct {
	code int
	msg  string
}

func (e *statusError) Error() string { return fmt.Sprintf("code %d: %s", e.code, e.msg) }

// openPlugin loads the library at path. It can not be unloaded.
func openPlugin(path string) (*plugin, error) {
	// The loader keeps the reason of a failure per thread, and purego asks for it in a second call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	get, err := purego.Dlsym(lib, "GetPjrtApi")
	if err != nil {
		return nil, fmt.Errorf("%s is no PJRT plugin: %w", path, err)
	}
	address := invoke(get, 0)
	if address == 0 {
		return nil, fmt.Errorf("GetPjrtApi of %s returned no table", path)
	}
	api := foreign[apiHead](address)
	const headBytes = unsafe.Sizeof(apiHead{})
	if api.size < headBytes || api.version.major != 0 {
		return nil, fmt.Errorf("%s speaks PJRT %d.%d, which has another layout than 0.x", path, api.version.major, api.version.minor)
	}
	p := &plugin{
		version:   fmt.Sprintf("%d.%d", api.version.major, api.version.minor),
		functions: unsafe.Slice(foreign[uintptr](address+headBytes), (api.size-headBytes)/unsafe.Sizeof(address)),
	}
	return p, p.call(pluginInitialize, unsafe.Pointer(sized(&head{})))
}

// invoke calls a C function of at most one argument. The directive moves the structure behind the argument to the heap during the call:
// on the goroutine's stack its address would become invalid when purego grows that stack.
//
//go:uintptrescapes
//go:noinline
func invoke(function, argument uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, argument)
	return r
}

// foreign views memory of the library at an address as a T.
func foreign[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// sized sets the size of an argument structure.
func sized[T any](args *T) *T {
	(*head)(unsafe.Pointer(args)).size = unsafe.Sizeof(*args)
	return args
}

// call calls a function of the table; an error of the plugin is a *statusError.
func (p *plugin) call(s slot, args unsafe.Pointer) error {
	if int(s) >= len(p.functions) || p.functions[s] == 0 {
		return fmt.Errorf("the plugin (PJRT %s) lacks function %d; use a newer one", p.version, s)
	}
	handle := invoke(p.functions[s], uintptr(args))
	runtime.KeepAlive(args)
	if handle == 0 {
		return nil
	}
	msg := sized(&text{object: object{handle: handle}})
	invoke(p.functions[errorMessage], uintptr(unsafe.Pointer(msg)))
	code := sized(&number{object: object{handle: handle}})
	invoke(p.functions[errorGetCode], uintptr(unsafe.Pointer(code)))
	err := &statusError{code: int(int32(code.value)), msg: msg.string()}
	invoke(p.functions[errorDestroy], uintptr(unsafe.Pointer(sized(&object{handle: handle}))))
	return err
}

// string copies the returned text.
func (t *text) string() string {
	if t.data == nil {
		return ""
	}
	return string(unsafe.Slice(t.data, t.len))
}

// pinned returns the bytes of s, which C may read until pin is released; never nil.
func pinned(pin *runtime.Pinner, s string) (*byte, uintptr) {
	b := append([]byte(s), 0)
	pin.Pin(&b[0])
	return &b[0], uintptr(len(s))
}

// topology describes devices, which need not be attached.
type topology struct {
	p      *plugin
	handle uintptr
}

// newTopology describes devices by a name, and by options with text values.
func (p *plugin) newTopology(name string, device map[string]string) (*topology, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	var options []namedValue
	for _, key := range slices.Sorted(maps.Keys(device)) {
		option := namedValue{count: uintptr(len(device[key]))}
		option.size = unsafe.Sizeof(option)
		option.name, option.nameLen = pinned(&pin, key)
		text, _ := pinned(&pin, device[key])
		*(**byte)(unsafe.Pointer(&option.value)) = text
		options = append(options, option)
	}
	args := sized(&struct {
		head
		name        *byte
		nameLen     uintptr
		options     uintptr
		optionCount uintptr
		topology    uintptr // out
	}{})
	args.name, args.nameLen = pinned(&pin, name)
	if len(options) > 0 {
		pin.Pin(&options[0])
		args.options, args.optionCount = uintptr(unsafe.Pointer(&options[0])), uintptr(len(options))
	}
	if err := p.call(topologyCreate, unsafe.Pointer(args)); err != nil {
		return nil, err
	}
	return &topology{p, args.topology}, nil
}

// executable is a compiled program.
type executable struct {
	p      *plugin
	handle uintptr
}

// compile compiles StableHLO text; options is a serialized CompileOptionsProto.
func (t *topology) compile(module string, options []byte) (*executable, error) {
	type program struct {
		_         head
		code      *byte
		codeLen   uintptr
		format    *byte
		formatLen uintptr
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	prog := sized(&program{})
	pin.Pin(prog)
	prog.code, prog.codeLen = pinned(&pin, module)
	prog.format, prog.formatLen = pinned(&pin, "mlir")
	args := sized(&struct {
		head
		topology   uintptr
		program    *program
		options    *byte
		optionsLen uintptr
		client     uintptr
		executable uintptr // out
	}{topology: t.handle, program: prog})
	args.options, args.optionsLen = pinned(&pin, string(options))
	if err := t.p.call(compileForTopology, unsafe.Pointer(args)); err != nil {
		return nil, err
	}
	return &executable{t.p, args.executable}, nil
}

func (e *executable) destroy() error {
	return e.p.call(executableDestroy, unsafe.Pointer(sized(&object{handle: e.handle})))
}

func (e *executable) codeBytes() (int64, error) {
	args := sized(&number{object: object{handle: e.handle}})
	err := e.p.call(executableCodeBytes, unsafe.Pointer(args))
	return args.value, err
}

// fingerprint returns the raw bytes of the fingerprint.
func (e *executable) fingerprint() (string, error) {
	args := sized(&text{object: object{handle: e.handle}})
	if err := e.p.call(executableFingerprint, unsafe.Pointer(args)); err != nil {
		return "", err
	}
	return args.string(), nil
}

func (e *executable) memory() (MemoryStats, error) {
	args := sized(&struct {
		object
		device      struct{ code, arguments, outputs, alias, temp int64 }
		host        [5]int64
		peak, total int64
		reserve     [16]int64 // fields that newer plugins append
	}{object: object{handle: e.handle}})
	err := e.p.call(executableMemory, unsafe.Pointer(args))
	d := args.device
	return MemoryStats{Code: d.code, Arguments: d.arguments, Outputs: d.outputs, Alias: d.alias, Temp: d.temp,
		Peak: args.peak, Total: args.total}, err
}

// namedValue is PJRT_NamedValue.
type namedValue struct {
	head
	name    *byte
	nameLen uintptr
	kind    int32
	_       int32
	value   [8]byte // a union
	count   uintptr
}

// Kinds of namedValue that are numbers.
const (
	kindInt64   = 1
	kindFloat32 = 3
)

// cost returns the numeric properties of XLA's cost analysis.
func (e *executable) cost() (map[string]float64, error) {
	args := sized(&struct {
		object
		count      uintptr
		properties uintptr // array of namedValue, owned by the executable
	}{object: object{handle: e.handle}})
	if err := e.p.call(executableCost, unsafe.Pointer(args)); err != nil {
		return nil, err
	}
	cost := make(map[string]float64, args.count)
	address := args.properties
	for range args.count {
		v := foreign[namedValue](address)
		name := string(unsafe.Slice(v.name, v.nameLen))
		switch v.kind {
		case kindInt64:
			cost[name] = float64(*(*int64)(unsafe.Pointer(&v.value)))
		case kindFloat32:
			cost[name] = float64(*(*float32)(unsafe.Pointer(&v.value)))
		}
		address += max(v.size, unsafe.Sizeof(*v))
	}
	return cost, nil
}
