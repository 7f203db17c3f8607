//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/gdn/internal/layertest"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// A CPU gets plain StableHLO, and its plugin refuses PTX: the probe says so.
func TestOnCPU(t *testing.T) {
	b := layertest.Backend(t, device.XLA)
	o, err := OnDevice(t.Context(), b, plugins.Options{Offline: true})
	require.NoError(t, err)
	require.Zero(t, o)
	k, err := Wrap(b, o)
	require.NoError(t, err)
	err = ptx.Try(k.runProbe)
	require.ErrorIs(t, err, ptx.ErrNotTaken)
	require.ErrorContains(t, err, ptx.Target)
}
