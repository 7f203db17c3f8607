//go:build !linux

package loop

import (
	"errors"
	"os"
	"syscall"
)

func supported() error {
	return errors.New("gdngen loop needs Linux, whose process table tells what an agent left behind")
}

func keeperAttributes() *syscall.SysProcAttr { return nil }

func keep(*os.File, []string) status { return status{Exit: -1, Fault: supported().Error()} }
