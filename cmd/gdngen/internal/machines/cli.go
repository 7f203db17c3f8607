// Package machines has the commands about other machines: jobs on them, leases, and traces of what they ran.
package machines

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI has the commands of the package.
type CLI struct{ *app.App }
