//go:build !unix

package autotune

import "time"

// ownCPU is not known here.
func ownCPU() time.Duration { return 0 }
