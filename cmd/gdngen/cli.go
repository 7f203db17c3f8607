package main

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI holds the tree of commands, and the commands about this installation.
type CLI struct{ *app.App }
