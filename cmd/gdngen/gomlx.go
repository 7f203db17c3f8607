package main

import (
	"github.com/gomlx/gomlx/backends"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/layer"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// graphs opens the backend of GoMLX, once: GOMLX_BACKEND, or xla.
func (a *app) graphs() (backends.Backend, error) {
	if a.backend != nil {
		return a.backend, nil
	}
	b, err := device.Open(a.ctx, "", device.Options{Plugin: plugins.Options{Path: a.cpuPlugin, Progress: a.stderr, Offline: a.offline}})
	if err != nil {
		return nil, failed(exitNoEngine, "the GoMLX backend can not be opened: %w; GOMLX_BACKEND=go needs neither cgo nor a plugin", err)
	}
	a.backend = b
	return b, nil
}

// graphCompute computes specs as GoMLX graph code, gradients by GoMLX's reverse pass.
func (a *app) graphCompute(p plan) (compute, error) {
	b, err := a.graphs()
	if err != nil {
		return nil, err
	}
	return func(s gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		if p.auto() && p.target == nil { // what is best in graph code
			return layer.Compute(b, s, nil, inputs)
		}
		f, err := p.form(s)
		if err != nil {
			return nil, err
		}
		return layer.Compute(b, s, &f.Variant, inputs)
	}, nil
}

// graphLayer computes whole layers.
func (a *app) graphLayer(p plan) (computeLayer, error) {
	b, err := a.graphs()
	if err != nil {
		return nil, err
	}
	return func(c gdn.LayerCase, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return layer.ComputeLayer(b, c, p.text, inputs)
	}, nil
}
