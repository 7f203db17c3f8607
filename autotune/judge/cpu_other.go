//go:build !unix

package judge

import "time"

// ownCPU is unknown on this platform.
func ownCPU() time.Duration { return 0 }
