package main

import (
	"github.com/gomlx/gomlx/backends"

	"github.com/gdngen/gdngen/gdn/layer/device"
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
