//go:build !cgo

package pjrt

import (
	"context"
	"errors"
	"time"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// HasCgo reports whether this binary can run programs.
const HasCgo = false

// ErrNoCgo is returned by Open in a binary built without cgo.
var ErrNoCgo = errors.New("pjrt: this binary was built without cgo, which running programs needs: install a C compiler (gcc or clang) and build again with CGO_ENABLED=1")

// Engine can not be opened without cgo.
type Engine struct{}

// Program can not be compiled without cgo.
type Program struct{}

// Open returns ErrNoCgo.
func Open(string) (*Engine, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Engine) Close() error { return nil }

// Platform returns "".
func (*Engine) Platform() string { return "" }

// Version returns "".
func (*Engine) Version() string { return "" }

// Devices returns nil.
func (*Engine) Devices() []string { return nil }

// Kind returns ErrNoCgo.
func (*Engine) Kind() (string, error) { return "", ErrNoCgo }

// Attributes returns nil.
func (*Engine) Attributes() map[string]string { return nil }

// Compile returns ErrNoCgo.
func (*Engine) Compile(string) (*Program, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Program) Close() error { return nil }

// Run returns ErrNoCgo.
func (*Program) Run(...*array.Array) ([]*array.Array, error) { return nil, ErrNoCgo }

// Time returns ErrNoCgo.
func (*Program) Time(TimeOptions, ...*array.Array) (Timing, error) { return Timing{}, ErrNoCgo }

// Profile returns ErrNoCgo.
func (*Engine) Profile(ProfileOptions, ...Piece) (*Profile, error) { return nil, ErrNoCgo }

// Bench returns ErrNoCgo.
func (*Program) Bench(context.Context, BenchOptions, ...*array.Array) (Timing, error) {
	return Timing{}, ErrNoCgo
}

// Buffer can not be made without cgo.
type Buffer struct{}

// Put returns ErrNoCgo.
func (*Engine) Put(*array.Array) (*Buffer, error) { return nil, ErrNoCgo }

// Call returns ErrNoCgo.
func (*Program) Call(...*Buffer) ([]*Buffer, error) { return nil, ErrNoCgo }

// Type returns the zero type.
func (*Buffer) Type() ir.Type { return ir.Type{} }

// Get returns ErrNoCgo.
func (*Buffer) Get() (*array.Array, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Buffer) Close() error { return nil }

// Interleave returns ErrNoCgo.
func Interleave(TimeOptions, *Program, *Program, ...*array.Array) ([][2]time.Duration, error) {
	return nil, ErrNoCgo
}

// Flush can not be made without cgo.
type Flush struct{}

// NewFlush returns ErrNoCgo.
func (*Engine) NewFlush(int) (*Flush, error) { return nil, ErrNoCgo }
