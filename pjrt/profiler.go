//go:build cgo

package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	xla "github.com/gomlx/go-xla/pjrt"

	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/table"
)

// The binding has no call for profiles. The extension of type 1 in PJRT's table points to a table of functions
// (xla/backends/profiler/plugin/profiler_c_api.h), which are called here. Newer plugins append to both tables.
const profilerExtension = 1

// profilerTable is PLUGIN_Profiler_Api.
type profilerTable struct {
	size, private                         uintptr
	errorDestroy, errorMessage, errorCode uintptr
	create, destroy, start, stop, collect uintptr
}

// sessionArgs is the argument of session functions: PLUGIN_Profiler_Start_Args and others.
type sessionArgs struct {
	size    uintptr
	session uintptr
}

type createArgs struct {
	size        uintptr
	options     *byte
	optionsSize uintptr
	session     uintptr
}

type collectArgs struct {
	size       uintptr
	session    uintptr
	buffer     *byte
	bufferSize uintptr
}

type errorArgs struct {
	size, private, fault uintptr
	message              *byte
	messageSize          uintptr
}

// errorDestroySize is the size of the part of errorArgs that the destroy function takes.
const errorDestroySize = 3 * unsafe.Sizeof(uintptr(0))

// profileOptions is tensorflow.ProfileOptions as JAX sets it: version 1 (field 5), host events of level 2 (2), device events (3),
// programs (7), and input pipeline data (1).
var profileOptions = []byte{0x08, 1, 0x10, 2, 0x18, 1, 0x28, 1, 0x38, 1}

// profiler returns the plugin's profiler functions, or a *NoProfilerError.
func (e *Engine) profiler() (*profilerTable, error) {
	x := e.table.Extension(profilerExtension)
	if x == nil {
		return nil, &NoProfilerError{"this plugin has no profiler (extension 1 of PJRT)"}
	}
	t := (*profilerTable)(x.Data)
	if x.Size < unsafe.Sizeof(*x) || t == nil || t.size < unsafe.Sizeof(profilerTable{}) {
		return nil, &NoProfilerError{"the profiler of this plugin is of an older form than is known here"}
	}
	return t, nil
}

// check converts an error of the profiler to a Go error, and frees it.
func (t *profilerTable) check(doing string, fault uintptr) error {
	if fault == 0 {
		return nil
	}
	a := &errorArgs{fault: fault}
	a.size = unsafe.Sizeof(*a)
	table.Invoke(t.errorMessage, uintptr(unsafe.Pointer(a)))
	message := "no message"
	if a.message != nil {
		message = string(unsafe.Slice(a.message, a.messageSize))
	}
	a.size = errorDestroySize
	table.Invoke(t.errorDestroy, uintptr(unsafe.Pointer(a)))
	runtime.KeepAlive(a)
	return fmt.Errorf("pjrt: the profiler failed %s: %s", doing, message)
}

// session calls a function of a session.
func (t *profilerTable) session(doing string, function, session uintptr) error {
	a := &sessionArgs{session: session}
	a.size = unsafe.Sizeof(*a)
	err := t.check(doing, table.Invoke(function, uintptr(unsafe.Pointer(a))))
	runtime.KeepAlive(a)
	return err
}

// begin creates and starts a session.
func (t *profilerTable) begin() (uintptr, error) {
	a := &createArgs{options: &profileOptions[0], optionsSize: uintptr(len(profileOptions))}
	a.size = unsafe.Sizeof(*a)
	if err := t.check("as it was made", table.Invoke(t.create, uintptr(unsafe.Pointer(a)))); err != nil {
		return 0, err
	}
	session := a.session
	runtime.KeepAlive(a)
	if err := t.session("as it started", t.start, session); err != nil {
		return 0, errors.Join(err, t.session("as it was freed", t.destroy, session))
	}
	return session, nil
}

// end stops a session, returns its data, and frees it.
func (t *profilerTable) end(session uintptr) (space []byte, err error) {
	if err = t.session("as it stopped", t.stop, session); err == nil {
		space, err = t.data(session)
	}
	return space, errors.Join(err, t.session("as it was freed", t.destroy, session))
}

// data returns the bytes of a serialised XSpace: one call for the size, one for the bytes.
func (t *profilerTable) data(session uintptr) ([]byte, error) {
	a := &collectArgs{session: session}
	a.size = unsafe.Sizeof(*a)
	defer runtime.KeepAlive(a)
	if err := t.check("as it was asked for its size", table.Invoke(t.collect, uintptr(unsafe.Pointer(a)))); err != nil || a.bufferSize == 0 {
		return nil, err
	}
	space := make([]byte, a.bufferSize)
	a.buffer = &space[0]
	if err := t.check("as it was asked for its data", table.Invoke(t.collect, uintptr(unsafe.Pointer(a)))); err != nil {
		return nil, err
	}
	return space[:min(uintptr(len(space)), a.bufferSize)], nil
}

// Profile runs steps of pieces, and profiles some of the steps. Each execution gets fresh copies of its arguments, made before its
// piece's clock starts. With a plugin without a profiler, it still runs the steps and returns their times, with a *NoProfilerError.
func (e *Engine) Profile(o ProfileOptions, pieces ...Piece) (*Profile, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	profiler, absent := e.profiler()
	if none := (*NoProfilerError)(nil); absent != nil && !errors.As(absent, &none) {
		return nil, absent
	}
	x := &Profile{}
	var session uintptr
	var err error
	for i := range o.Steps {
		if i == o.Start && absent == nil {
			if session, err = profiler.begin(); err != nil {
				return x, err
			}
		}
		var step []time.Duration
		var err error
		for _, p := range pieces {
			var took time.Duration
			if took, err = p.Program.repeat(p.Times*o.Batch, p.Args); err != nil {
				break
			}
			step = append(step, took)
		}
		if err == nil {
			x.Steps = append(x.Steps, step)
		}
		if session != 0 && (err != nil || i == o.Start+o.Count-1) {
			var bad error
			x.Space, bad = profiler.end(session)
			session, err = 0, errors.Join(err, bad)
		}
		if err != nil {
			return x, err
		}
	}
	return x, absent
}

// repeat runs a program several times, each on copies of the arguments.
func (p *Program) repeat(times int, args []*array.Array) (took time.Duration, err error) {
	sets := make([][]*xla.Buffer, times)
	defer func() {
		for _, s := range sets {
			destroy(s)
		}
	}()
	for i := range sets {
		if sets[i], err = p.upload(args); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	for _, s := range sets {
		outputs, err := p.execute(s)
		destroy(outputs)
		if err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}
