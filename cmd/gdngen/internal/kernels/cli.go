// Package kernels has the commands about one kernel: make, check, run, compile, cost, compare and pack it.
package kernels

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI gives the commands.
type CLI struct{ *app.App }
