// Package device opens GoMLX backends with the options that this module needs, and converts between arrays and tensors.
package device

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gdngen/gdngen/gdn/layer/irgraph"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// The backends. XLA runs the pinned CPU plugin (package plugins); Go is GoMLX's own, without cgo or plugins.
const (
	XLA = "xla"
	Go  = "go"
)

// Names lists the backends.
var Names = []string{XLA, Go}

// Options says how to open a backend.
type Options struct {
	Plugin plugins.Options // source of the xla plugin
}

// Open opens a backend by name. A name with a configuration, such as "xla:/path/plugin.so" or "go:parallelism=4", is
// passed on unchanged. An empty name means GOMLX_BACKEND, or xla.
//
// The go backend gets ops_sequential: without it, a batched product requests a worker from inside a worker, which deadlocks on a machine
// with few cores.
func Open(ctx context.Context, name string, opts Options) (compute.Backend, error) {
	if name == "" {
		name = os.Getenv("GOMLX_BACKEND")
	}
	kind, config, configured := strings.Cut(name, ":")
	switch {
	case kind == Go && !configured:
		return gobackend.New("ops_sequential")
	case kind == Go:
		return gobackend.New(config)
	case kind == XLA && configured:
		return openXLA(config)
	case kind == XLA || kind == "":
		p, err := plugins.CPU(ctx, opts.Plugin)
		if err != nil {
			return nil, err
		}
		return openXLA(p.Path)
	}
	return nil, fmt.Errorf("unknown backend %q (known: %s)", name, strings.Join(Names, " "))
}

// elementTypes is the inverse of irgraph.Types.
var elementTypes = map[dtypes.DType]ir.DType{}

func init() {
	for d, t := range irgraph.Types {
		elementTypes[t] = d
	}
}

// ElementType converts a GoMLX element type to ir; false if there is none.
func ElementType(d dtypes.DType) (ir.DType, bool) {
	e, ok := elementTypes[d]
	return e, ok
}

// Tensor copies an array to a new tensor.
func Tensor(a *array.Array) (*tensors.Tensor, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	d, ok := irgraph.Types[a.Type]
	if !ok {
		return nil, fmt.Errorf("%v has no tensor type", a)
	}
	t := tensors.FromShape(shapes.Make(d, a.Shape...))
	if err := t.MutableBytes(func(b []byte) { copy(b, a.Data) }); err != nil {
		return nil, err
	}
	return t, nil
}

// Array copies a tensor to a new array.
func Array(t *tensors.Tensor) (*array.Array, error) {
	d, ok := ElementType(t.DType())
	if !ok {
		return nil, fmt.Errorf("tensor %s has an element type that arrays have not", t.Shape())
	}
	a := array.New(d, t.Shape().Dimensions...)
	if err := t.ConstBytes(func(b []byte) { copy(a.Data, b) }); err != nil {
		return nil, err
	}
	return a, nil
}
