//go:build !linux

package bench

import "syscall"

// processAttributes are the default; the child ends when its pipes close.
func processAttributes() *syscall.SysProcAttr { return nil }
