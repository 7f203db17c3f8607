//go:build cgo && ((linux && amd64) || darwin) && !noxla

package device

import (
	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/xla"
)

// openXLA loads a plugin by path or name. Nothing is downloaded: plugins are pinned elsewhere.
func openXLA(config string) (backends.Backend, error) {
	xla.EnableAutoInstall(false)
	return xla.New(config)
}
