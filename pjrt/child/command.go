package child

import (
	"os/exec"
	"runtime"
	"time"
)

// Command is a program that was started in its own process group and ends with this process.
type Command struct {
	cmd    *exec.Cmd
	reaped chan struct{}
	exit   error
}

// StartCommand starts a program. It sets cmd's attributes and wait delay.
func StartCommand(cmd *exec.Cmd) (*Command, error) {
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = time.Second
	c := &Command{cmd: cmd, reaped: make(chan struct{})}
	// Linux sends the parent-death signal when the thread that started the child ends, so this thread waits for the child.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.exit = cmd.Wait()
			close(c.reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// Pid returns the process id.
func (c *Command) Pid() int { return c.cmd.Process.Pid }

// Reaped is closed when the process has ended.
func (c *Command) Reaped() <-chan struct{} { return c.reaped }

// Exit returns how the process ended, once reaped; nil for status 0.
func (c *Command) Exit() error { return c.exit }

// Alive reports whether the process has not been reaped yet.
func (c *Command) Alive() bool {
	select {
	case <-c.reaped:
		return false
	default:
		return true
	}
}

// Kill kills the process and its group.
func (c *Command) Kill() {
	if c.Alive() {
		kill(c.cmd.Process)
	}
}
