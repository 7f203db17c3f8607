//go:build !linux

package strategy

import "os/exec"

// isolate needs Linux.
func isolate(*exec.Cmd) {}

// killGroup kills a command; its children end when their input does.
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }
