package kernels

import (
	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/gomlx/compute"
)

// graphs opens the backend of GoMLX, once: GOMLX_BACKEND, or xla.
func (a CLI) graphs() (compute.Backend, error) {
	if a.Backend != nil {
		return a.Backend, nil
	}
	b, err := device.Open(a.Ctx, "", device.Options{Plugin: plugins.Options{Path: a.CPUPlugin, Progress: a.Stderr, Offline: a.Offline}})
	if err != nil {
		return nil, app.Failed(app.ExitNoEngine, "the GoMLX backend can not be opened: %w; GOMLX_BACKEND=go needs neither cgo nor a plugin", err)
	}
	a.Backend = b
	return b, nil
}
