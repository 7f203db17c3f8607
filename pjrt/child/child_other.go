//go:build !linux

package child

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// attributes returns the defaults; the child ends when its pipes close.
func attributes() *syscall.SysProcAttr { return nil }

func kill(p *os.Process) { p.Kill() }
