// Package layertest opens backends for tests.
package layertest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

var open = map[string]func() (compute.Backend, error){}

func init() {
	for _, name := range device.Names {
		open[name] = sync.OnceValues(func() (compute.Backend, error) {
			return device.Open(context.Background(), name, device.Options{})
		})
	}
}

// Backend opens a backend once per process. Without the XLA plugin the test is skipped, but fails in CI.
func Backend(t testing.TB, name string) compute.Backend {
	t.Helper()
	b, err := open[name]()
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return b
}

// Each runs a test on every backend.
func Each(t *testing.T, f func(t *testing.T, b compute.Backend)) {
	for _, name := range device.Names {
		t.Run(name, func(t *testing.T) { f(t, Backend(t, name)) })
	}
}
