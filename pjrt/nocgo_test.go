//go:build !cgo

package pjrt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutCgo(t *testing.T) {
	e, err := Open("any.so")
	require.Nil(t, e)
	require.ErrorIs(t, err, ErrNoCgo)
}
