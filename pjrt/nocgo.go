//go:build !cgo

package pjrt

import (
	"context"
	"errors"
	"time"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// HasCgo tells whether this binary can run programs.
const HasCgo = false

// ErrNoCgo is the error of Open in a binary built without cgo.
var ErrNoCgo = errors.New("pjrt: this binary was built without cgo, which running programs needs: install a C compiler (gcc or clang) and build again with CGO_ENABLED=1")

// Engine can not be opened without cgo.
type Engine struct{}

// Program can not be compiled without cgo.
type Program struct{}

// Open gives ErrNoCgo.
func Open(string) (*Engine, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Engine) Close() error { return nil }

// Platform is empty.
func (*Engine) Platform() string { return "" }

// Version is empty.
func (*Engine) Version() string { return "" }

// Devices is empty.
func (*Engine) Devices() []string { return nil }

// Kind gives ErrNoCgo.
func (*Engine) Kind() (string, error) { return "", ErrNoCgo }

// Attributes is empty.
func (*Engine) Attributes() map[string]string { return nil }

// Compile gives ErrNoCgo.
func (*Engine) Compile(string) (*Program, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Program) Close() error { return nil }

// Run gives ErrNoCgo.
func (*Program) Run(...*array.Array) ([]*array.Array, error) { return nil, ErrNoCgo }

// Time gives ErrNoCgo.
func (*Program) Time(TimeOptions, ...*array.Array) (Timing, error) { return Timing{}, ErrNoCgo }

// Profile gives ErrNoCgo.
func (*Engine) Profile(ProfileOptions, ...Piece) (*Profile, error) { return nil, ErrNoCgo }

// Bench gives ErrNoCgo.
func (*Program) Bench(context.Context, BenchOptions, ...*array.Array) (Timing, error) {
	return Timing{}, ErrNoCgo
}

// Buffer can not be made without cgo.
type Buffer struct{}

// Put gives ErrNoCgo.
func (*Engine) Put(*array.Array) (*Buffer, error) { return nil, ErrNoCgo }

// Call gives ErrNoCgo.
func (*Program) Call(...*Buffer) ([]*Buffer, error) { return nil, ErrNoCgo }

// Type is the zero type.
func (*Buffer) Type() ir.Type { return ir.Type{} }

// Get gives ErrNoCgo.
func (*Buffer) Get() (*array.Array, error) { return nil, ErrNoCgo }

// Close does nothing.
func (*Buffer) Close() error { return nil }

// Interleave gives ErrNoCgo.
func Interleave(TimeOptions, *Program, *Program, ...*array.Array) ([][2]time.Duration, error) {
	return nil, ErrNoCgo
}

// Flush can not be made without cgo.
type Flush struct{}

// NewFlush gives ErrNoCgo.
func (*Engine) NewFlush(int) (*Flush, error) { return nil, ErrNoCgo }
