package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What no program reaches is left, what the list has is not, and an entry that nothing needs is told.
func TestDead(t *testing.T) {
	t.Chdir("../..")
	left, err := dead("ir/build.go:131:19: unreachable func: Builder.Pack\nir/build.go:9:6: unreachable func: lost\ninternal/rotate/rotate.go:18:6: unreachable func: All\ntests/arith/arith.go:35:6: unreachable func: Run\n")
	require.NoError(t, err)
	require.Contains(t, left, "ir/build.go:9:6: unreachable func: lost\n")
	require.NotContains(t, left, "Pack")
	require.NotContains(t, left, "rotate")
	require.NotContains(t, left, "no program imports")
	require.Contains(t, left, "a program reaches internal/disk: Use: take it off the list")
}
