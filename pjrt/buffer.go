//go:build cgo

package pjrt

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	xla "github.com/gomlx/go-xla/pjrt"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Buffer is an array on an engine's device, for example a state that a server keeps between calls. It must be closed, or donated to a
// call that reuses its memory for a result.
type Buffer struct {
	engine *Engine
	typ    ir.Type
	buffer atomic.Pointer[xla.Buffer] // nil when closed or donated
}

var errGone = errors.New("the buffer was closed or given up already")

func (e *Engine) newBuffer(t ir.Type, b *xla.Buffer) *Buffer {
	x := &Buffer{engine: e, typ: t}
	x.buffer.Store(b)
	e.listing.Lock()
	defer e.listing.Unlock()
	e.buffers[x] = struct{}{}
	return x
}

// Put copies an array to the device.
func (e *Engine) Put(a *array.Array) (*Buffer, error) {
	if err := a.Check(); err != nil {
		return nil, fmt.Errorf("pjrt: %w", err)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.client == nil {
		return nil, errClosed
	}
	b, err := e.uploadOne(a)
	if err != nil {
		return nil, fmt.Errorf("pjrt: copying %s to the device: %w", a, err)
	}
	return e.newBuffer(a.IRType(), b), nil
}

// Type returns the element type and shape.
func (x *Buffer) Type() ir.Type { return x.typ }

// Get copies the buffer to the host; it errs if the buffer was closed or donated.
func (x *Buffer) Get() (*array.Array, error) {
	x.engine.mu.RLock()
	defer x.engine.mu.RUnlock()
	b := x.buffer.Load()
	if b == nil {
		return nil, fmt.Errorf("pjrt: %w", errGone)
	}
	a, err := download(b)
	if err != nil {
		return nil, fmt.Errorf("pjrt: %w", err)
	}
	return a, nil
}

// Close frees the buffer. Closing twice is allowed.
func (x *Buffer) Close() error {
	x.engine.mu.RLock()
	defer x.engine.mu.RUnlock()
	return x.free()
}

// free needs the engine's lock, at least for reading.
func (x *Buffer) free() error {
	b := x.buffer.Swap(nil)
	if b == nil {
		return nil
	}
	x.engine.listing.Lock()
	delete(x.engine.buffers, x)
	x.engine.listing.Unlock()
	return b.Destroy()
}

// Call executes the program on buffers of its engine; the results stay on the device. Arguments whose memory results reuse are donated:
// they are gone, even if the call fails. No other call may use them meanwhile.
func (p *Program) Call(args ...*Buffer) ([]*Buffer, error) {
	p.engine.mu.RLock()
	defer p.engine.mu.RUnlock()
	return p.call(args)
}

// call needs the engine's lock, at least for reading.
func (p *Program) call(args []*Buffer) ([]*Buffer, error) {
	if p.exec == nil {
		return nil, errClosed
	}
	types := make([]ir.Type, len(args))
	inputs := make([]*xla.Buffer, len(args))
	for i, x := range args {
		if x == nil || x.engine != p.engine {
			return nil, fmt.Errorf("pjrt: argument %d is nil or on another engine", i)
		}
		if inputs[i] = x.buffer.Load(); inputs[i] == nil {
			return nil, fmt.Errorf("pjrt: argument %d: %w", i, errGone)
		}
		types[i] = x.typ
	}
	if p.known {
		if err := p.signature.check(types); err != nil {
			return nil, fmt.Errorf("pjrt: %w", err)
		}
	}
	for _, r := range p.reused {
		if r.argument < len(args) && slices.Contains(append(slices.Clone(inputs[:r.argument]), inputs[r.argument+1:]...), inputs[r.argument]) {
			return nil, fmt.Errorf("pjrt: argument %d, whose memory a result takes, is another argument too", r.argument)
		}
	}
	outputs, err := p.execute(inputs)
	for _, r := range p.reused {
		if r.argument < len(args) {
			args[r.argument].free()
		}
	}
	if err != nil {
		return nil, err
	}
	results := make([]*Buffer, len(outputs))
	for i, b := range outputs {
		t, err := bufferType(b)
		if err != nil {
			destroy(outputs[i:])
			for _, x := range results[:i] {
				x.free()
			}
			return nil, fmt.Errorf("pjrt: result %d: %w", i, err)
		}
		results[i] = p.engine.newBuffer(t, b)
	}
	return results, nil
}
