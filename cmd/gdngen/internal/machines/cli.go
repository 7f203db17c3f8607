// Package machines has the commands about other machines: jobs on them, leases, and traces of what they ran.
package machines

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI gives the commands.
type CLI struct{ *app.App }
