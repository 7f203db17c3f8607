package main

import "github.com/gdngen/gdngen/cmd/gdngen/internal/app"

// CLI gives the commands.
type CLI struct{ *app.App }
