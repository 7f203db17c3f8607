//go:build cgo

package pjrt

import (
	"errors"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	xla "github.com/gomlx/go-xla/pkg/pjrt"
)

// The binding has no call for the kind of a device, so it is made here: function 26 of PJRT's table, after a head of 40 bytes.
const (
	apiHeadBytes   = 40
	kindOfFunction = 26
)

// kindArgs is PJRT_DeviceDescription_Kind_Args.
type kindArgs struct {
	size, extension uintptr
	description     uintptr
	kind            *byte // lives as long as the device
	kindSize        uintptr
}

// Kind is the vendor's name of the first device's kind, such as "TPU v6 lite" or "cpu".
func (e *Engine) Kind() (string, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return "", errClosed
	}
	return KindOf(e.client)
}

// KindOf is the kind of the first device of a client of the binding.
func KindOf(client *xla.Client) (string, error) {
	devices := client.AddressableDevices()
	if len(devices) == 0 {
		return "", errors.New("pjrt: the client has no device")
	}
	description, err := devices[0].GetDescription()
	if err != nil {
		return "", err
	}
	api, device := pointer(client.Plugin(), "api"), pointer(description, "deviceDescription")
	if api == nil || device == nil {
		return "", errors.New("pjrt: this version of the binding does not show what the kind of a device is read from")
	}
	args := &kindArgs{description: uintptr(device)}
	args.size = unsafe.Sizeof(*args)
	function := *(*uintptr)(unsafe.Add(api, apiHeadBytes+kindOfFunction*unsafe.Sizeof(uintptr(0))))
	if bad := invoke(function, uintptr(unsafe.Pointer(args))); bad != 0 || args.kind == nil {
		return "", errors.New("pjrt: the plugin does not tell the kind of its device")
	}
	kind := string(unsafe.Slice(args.kind, args.kindSize))
	runtime.KeepAlive(args)
	return kind, nil
}

// pointer reads a field of the binding that points into the plugin; nil where there is no such field.
func pointer(of any, field string) unsafe.Pointer {
	v := reflect.Indirect(reflect.ValueOf(of)).FieldByName(field)
	if !v.IsValid() || v.Kind() != reflect.Pointer {
		return nil
	}
	return v.UnsafePointer()
}

// invoke calls a C function. The directive keeps the structure that the argument was made from in place.
//
//go:uintptrescapes
//go:noinline
func invoke(function, argument uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, argument)
	return r
}
