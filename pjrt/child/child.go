// Package child starts this program again as a worker: a process in a group of its own that ends with its parent, takes orders as JSON on
// one pipe and gives replies on another. What work that is, and by which variable of its environment the worker knows itself, is the
// caller's.
package child

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// The pipes of a worker.
const (
	ordersFD  = 3
	repliesFD = 4
)

// Pipes are those of this process, which is a worker.
func Pipes() (orders *json.Decoder, replies *json.Encoder) {
	return json.NewDecoder(os.NewFile(ordersFD, "orders")), json.NewEncoder(os.NewFile(repliesFD, "replies"))
}

// Process is a running worker, seen from its parent.
type Process struct {
	cmd     *exec.Cmd
	orders  *os.File
	replies *os.File
	enc     *json.Encoder
	dec     *json.Decoder
	reaped  chan struct{}
	exit    error
}

// Start starts this program with an environment. What the worker prints goes to output.
func Start(environment []string, output io.Writer) (*Process, error) {
	exe, err := executable()
	if err != nil {
		return nil, err
	}
	orders, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	repliesR, replies, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), ordersW.Close())
	}
	cmd := exec.Command(exe)
	cmd.Args[0] = os.Args[0]
	cmd.Env = environment
	cmd.ExtraFiles = []*os.File{orders, replies} // become ordersFD and repliesFD
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = output, output
	p := &Process{cmd: cmd, orders: ordersW, replies: repliesR, enc: json.NewEncoder(ordersW), dec: json.NewDecoder(repliesR), reaped: make(chan struct{})}

	// Linux sends the signal of a parent's death when the thread that started the child ends, so that thread waits for the child.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		orders.Close()
		replies.Close()
		started <- err
		if err == nil {
			p.exit = cmd.Wait()
			close(p.reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, ordersW.Close(), repliesR.Close())
	}
	return p, nil
}

// Send writes an order.
func (p *Process) Send(order any) error { return p.enc.Encode(order) }

// Receive waits for a reply.
func (p *Process) Receive(reply any) error { return p.dec.Decode(reply) }

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Reaped is closed when the process has ended.
func (p *Process) Reaped() <-chan struct{} { return p.reaped }

// Exit says how the process ended, once it is reaped; nil for status 0.
func (p *Process) Exit() error { return p.exit }

// Alive says whether the process has not been reaped.
func (p *Process) Alive() bool {
	select {
	case <-p.reaped:
		return false
	default:
		return true
	}
}

// Kill ends the process and its group.
func (p *Process) Kill() {
	if p.Alive() {
		kill(p.cmd.Process)
	}
}

// Stop kills the process, reaps it and frees what the parent held for it.
func (p *Process) Stop() {
	p.Kill()
	<-p.reaped
	p.orders.Close()
	p.replies.Close()
}
