package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/layer/device"
)

// A sequence in parts is the whole, but for rounding in float32.
func TestParts(t *testing.T) {
	b, err := device.Open(context.Background(), device.Go, device.Options{})
	require.NoError(t, err)
	for _, way := range ways {
		off, err := way.do(b, 4)
		require.NoError(t, err, way.name)
		require.Less(t, off, 1e-5, way.name)
	}
	require.ErrorContains(t, run(3), "2, 4, 8 or 16")
}
