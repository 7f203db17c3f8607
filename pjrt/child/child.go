// Package child starts this program again as a worker: a process in its own group that ends with its parent. It takes orders as JSON on
// one pipe, and replies on another. The caller defines the orders, and the environment variable by which a process knows that it is a
// worker.
package child

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// The pipes of a worker.
const (
	ordersFD  = 3
	repliesFD = 4
)

// Pipes returns the pipes of this process, which must be a worker.
func Pipes() (orders *json.Decoder, replies *json.Encoder) {
	return json.NewDecoder(os.NewFile(ordersFD, "orders")), json.NewEncoder(os.NewFile(repliesFD, "replies"))
}

// Process is a running worker, as its parent sees it.
type Process struct {
	*Command
	orders  *os.File
	replies *os.File
	enc     *json.Encoder
	dec     *json.Decoder
}

// Start starts this program with an environment. The worker's output goes to output.
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
	cmd.Stdout, cmd.Stderr = output, output
	c, err := StartCommand(cmd)
	orders.Close()
	replies.Close()
	if err != nil {
		return nil, errors.Join(err, ordersW.Close(), repliesR.Close())
	}
	return &Process{Command: c, orders: ordersW, replies: repliesR, enc: json.NewEncoder(ordersW), dec: json.NewDecoder(repliesR)}, nil
}

// Send writes an order.
func (p *Process) Send(order any) error { return p.enc.Encode(order) }

// Receive waits for a reply, and decodes it.
func (p *Process) Receive(reply any) error { return p.dec.Decode(reply) }

// Stop kills and reaps the process, and closes its pipes.
func (p *Process) Stop() {
	p.Kill()
	<-p.reaped
	p.orders.Close()
	p.replies.Close()
}
