//go:build !cgo || !((linux && amd64) || darwin) || noxla

package device

import (
	"errors"

	"github.com/gomlx/compute"
)

func openXLA(string) (compute.Backend, error) {
	return nil, errors.New("the backend xla is not in this binary: build with cgo on Linux x86-64 or macOS, without the tag noxla; the backend go works everywhere")
}
