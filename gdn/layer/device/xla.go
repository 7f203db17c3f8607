//go:build cgo && ((linux && amd64) || darwin) && !noxla

package device

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/gdngen/gdngen/pjrt/table"
)

// openXLA loads a plugin by path or name. Nothing is downloaded: plugins are pinned elsewhere.
func openXLA(config string) (compute.Backend, error) {
	xla.EnableAutoInstall(false)
	name, _, _ := strings.Cut(config, ",") // options of the backend follow the name
	path := name
	if !filepath.IsAbs(name) {
		path = pjrt.AvailablePlugins()[name]
	}
	if path != "" {
		if _, err := table.Load(name, path); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", path, err)
		}
	}
	return xla.New(config)
}
