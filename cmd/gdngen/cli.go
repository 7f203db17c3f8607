package main

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI gives the tree of commands, and those about this installation.
type CLI struct{ *app.App }
