//go:build cgo

package table

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
	xla "github.com/gomlx/go-xla/pjrt"
)

// The functions that are called or replaced, by index in the table after its head of 40 bytes.
const (
	headBytes             = 40
	extensionOffset       = 8 // of the first extension
	clientCreate          = 10
	clientPlatformName    = 12
	clientDevices         = 16 // the devices that the client can use
	clientCompile         = 20
	descriptionAttributes = 25
	descriptionKind       = 26
	deviceDescription     = 29
	functions             = 30 // least number of functions in a table
)

// Table is the PJRT API table of a loaded plugin, PJRT_Api.
type Table struct {
	api    unsafe.Pointer // the plugin's table
	client atomic.Uintptr // the newest client; all clients of a plugin have the same devices
}

// Extension is PJRT_Extension_Base, followed by the pointer that most extensions begin with.
type Extension struct {
	Size uintptr
	Kind int32
	next *Extension
	Data unsafe.Pointer
}

var (
	loading sync.Mutex
	loaded  = map[string]*Table{}
)

// Load loads a plugin from its library's path and registers it with the binding by name, once. It stays loaded.
func Load(name, path string) (*Table, error) {
	loading.Lock()
	defer loading.Unlock()
	if t := loaded[name]; t != nil {
		return t, nil
	}
	library, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	get, err := purego.Dlsym(library, xla.GetPJRTApiFunctionName)
	if err != nil {
		return nil, fmt.Errorf("not a PJRT plugin: %w", err)
	}
	var table func() unsafe.Pointer
	purego.RegisterFunc(&table, get)
	t := &Table{api: table()}
	if t.api == nil {
		return nil, errors.New("the plugin has no table of functions")
	}
	size := *(*uintptr)(t.api)
	if least := headBytes + functions*unsafe.Sizeof(uintptr(0)); size < least {
		return nil, fmt.Errorf("the plugin's table has %d bytes, want at least %d", size, least)
	}
	hooked := xla.AlignedAlloc(size, 64)
	copy(unsafe.Slice((*byte)(hooked), size), unsafe.Slice((*byte)(t.api), size))
	*function(hooked, clientCreate) = purego.NewCallback(t.create)
	*function(hooked, clientCompile) = purego.NewCallback(t.compile)
	if err := xla.RegisterPreloadedPlugin(name, uintptr(hooked)); err != nil {
		return nil, err
	}
	loaded[name] = t
	return t, nil
}

// Of returns the table loaded by a name, or nil.
func Of(name string) *Table {
	loading.Lock()
	defer loading.Unlock()
	return loaded[name]
}

// function returns the address of a table entry.
func function(table unsafe.Pointer, i uintptr) *uintptr {
	return (*uintptr)(unsafe.Add(table, headBytes+i*unsafe.Sizeof(uintptr(0))))
}

// createArgs is PJRT_Client_Create_Args up to the client.
type createArgs struct {
	size, extension          uintptr
	options, optionsSize     uintptr
	getCallback, getArgument uintptr
	putCallback, putArgument uintptr
	client                   uintptr
}

func (t *Table) create(a *createArgs) uintptr {
	fault := Invoke(*function(t.api, clientCreate), uintptr(unsafe.Pointer(a)))
	if fault == 0 {
		t.client.Store(a.client)
	}
	return fault
}

// compileArgs is PJRT_Client_Compile_Args up to the program.
type compileArgs struct {
	size, extension, client uintptr
	program                 *program
}

// program is PJRT_Program.
type program struct {
	_, _     uintptr // size and extension
	code     *byte
	codeSize uintptr
	_        *byte // format
	_        uintptr
}

// completion is the last argument of Complete.
var completion atomic.Pointer[struct {
	mark []byte
	f    func(text string) (string, error)
}]

// Complete sets a function that replaces the text of each program containing mark, before it is compiled. If f fails, the compiler gets
// its error instead of a program, and refuses it.
func Complete(mark string, f func(text string) (string, error)) {
	completion.Store(&struct {
		mark []byte
		f    func(string) (string, error)
	}{[]byte(mark), f})
}

func (t *Table) compile(a *compileArgs) uintptr {
	call := func() uintptr { return Invoke(*function(t.api, clientCompile), uintptr(unsafe.Pointer(a))) }
	p, c := a.program, completion.Load()
	if c == nil {
		return call()
	}
	given := unsafe.Slice(p.code, p.codeSize)
	if !bytes.Contains(given, c.mark) {
		return call()
	}
	text, err := c.f(string(given))
	if err != nil {
		text = err.Error()
	}
	whole := append([]byte(text), 0)
	var pin runtime.Pinner
	pin.Pin(&whole[0])
	defer pin.Unpin()
	code, size := p.code, p.codeSize
	p.code, p.codeSize = &whole[0], uintptr(len(text))
	defer func() { p.code, p.codeSize = code, size }()
	return call()
}

// fromClient is the argument of functions that return a list or text of a client, device or description.
type fromClient struct {
	size, extension, of uintptr
	data                unsafe.Pointer
	n                   uintptr
}

// ask calls a function of the table.
func (t *Table) ask(i, of uintptr, what string) (*fromClient, error) {
	a := &fromClient{of: of}
	a.size = unsafe.Sizeof(*a)
	if i == deviceDescription {
		a.size = unsafe.Offsetof(a.n) // it returns one pointer
	}
	if bad := Invoke(*function(t.api, i), uintptr(unsafe.Pointer(a))); bad != 0 || a.data == nil {
		return nil, fmt.Errorf("pjrt: the plugin does not tell %s", what)
	}
	return a, nil
}

// Platform returns the plugin's name for its kind of devices, such as cpu; it errs before a client exists.
func (t *Table) Platform() (string, error) {
	client := t.client.Load()
	if client == 0 {
		return "", errors.New("pjrt: there is no client yet")
	}
	a, err := t.ask(clientPlatformName, client, "its platform")
	if err != nil {
		return "", err
	}
	return string(unsafe.Slice((*byte)(a.data), a.n)), nil
}

// description returns the description of the first device.
func (t *Table) description() (uintptr, error) {
	client := t.client.Load()
	if client == 0 {
		return 0, errors.New("pjrt: there is no client yet")
	}
	devices, err := t.ask(clientDevices, client, "its devices")
	if err != nil {
		return 0, err
	}
	if devices.n == 0 {
		return 0, errors.New("pjrt: the client has no device")
	}
	device, err := t.ask(deviceDescription, *(*uintptr)(devices.data), "what its device is")
	if err != nil {
		return 0, err
	}
	return uintptr(device.data), nil
}

// Kind returns the vendor's name of the first device's kind, such as "TPU v6 lite" or "cpu".
func (t *Table) Kind() (string, error) {
	device, err := t.description()
	if err != nil {
		return "", err
	}
	kind, err := t.ask(descriptionKind, device, "the kind of its device")
	if err != nil {
		return "", err
	}
	return string(unsafe.Slice((*byte)(kind.data), kind.n)), nil
}

// namedValue is PJRT_NamedValue.
type namedValue struct {
	_, _      uintptr // size and extension
	name      *byte
	nameBytes uintptr
	kind      int32 // 0: text, 1: int64
	value     uintptr
	bytes     uintptr // of a text
}

// Attributes returns the plugin's attributes of the first device, numbers as text; nil if there are none.
func (t *Table) Attributes() map[string]string {
	device, err := t.description()
	if err != nil {
		return nil
	}
	a := struct {
		size, extension, of, n uintptr
		data                   *namedValue
	}{of: device}
	a.size = unsafe.Sizeof(a)
	if bad := Invoke(*function(t.api, descriptionAttributes), uintptr(unsafe.Pointer(&a))); bad != 0 || a.data == nil {
		return nil
	}
	values := map[string]string{}
	for _, v := range unsafe.Slice(a.data, a.n) {
		name := string(unsafe.Slice(v.name, v.nameBytes))
		switch v.kind {
		case 0:
			values[name] = string(unsafe.Slice(*(**byte)(unsafe.Pointer(&v.value)), v.bytes))
		case 1:
			values[name] = strconv.Itoa(int(v.value))
		}
	}
	return values
}

// Extension returns the plugin's extension of a type, or nil.
func (t *Table) Extension(kind int32) *Extension {
	for x := *(**Extension)(unsafe.Add(t.api, extensionOffset)); x != nil; x = x.next {
		if x.Kind == kind {
			return x
		}
	}
	return nil
}

// Invoke calls a C function. The directive keeps the structure behind the argument in place during the call.
//
//go:uintptrescapes
//go:noinline
func Invoke(function, argument uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, argument)
	return r
}
