package child

import (
	"os/exec"
	"runtime"
	"time"
)

// Command is any program that was started in a process group of its own and ends with this process.
type Command struct {
	cmd    *exec.Cmd
	reaped chan struct{}
	exit   error
}

// StartCommand starts a program. Its attributes and the time to wait for its pipes are set here.
func StartCommand(cmd *exec.Cmd) (*Command, error) {
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = time.Second
	c := &Command{cmd: cmd, reaped: make(chan struct{})}
	// Linux sends the signal of a parent's death when the thread that started the child ends, so that thread waits for the child.
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

// Pid is the number of the process.
func (c *Command) Pid() int { return c.cmd.Process.Pid }

// Reaped is closed when the process has ended.
func (c *Command) Reaped() <-chan struct{} { return c.reaped }

// Exit says how the process ended, once it is reaped; nil for status 0.
func (c *Command) Exit() error { return c.exit }

// Alive says whether the process has not been reaped.
func (c *Command) Alive() bool {
	select {
	case <-c.reaped:
		return false
	default:
		return true
	}
}

// Kill ends the process and its group.
func (c *Command) Kill() {
	if c.Alive() {
		kill(c.cmd.Process)
	}
}
