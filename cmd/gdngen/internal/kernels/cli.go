// Package kernels has the commands about one kernel: generate, check, run, compile, cost, compare and pack it.
package kernels

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI has the commands of the package.
type CLI struct{ *app.App }
