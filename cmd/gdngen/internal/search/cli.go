// Package search has the commands of searches: runs and their journals, reports, workers, ladders and loops.
package search

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI has the commands of the package.
type CLI struct{ *app.App }
