package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// workerVariable marks the process of a worker.
const workerVariable = "GDNGEN_BENCH_WORKER"

// The pipes of a worker.
const (
	ordersFD  = 3
	repliesFD = 4
)

// RunWorkerIfAsked must be called first of all in main and in TestMain of programs that evaluate. In a process that a Worker
// started it serves jobs and never returns; in any other it returns at once.
func RunWorkerIfAsked() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	os.Unsetenv(workerVariable)
	orders, replies := json.NewDecoder(os.NewFile(ordersFD, "orders")), json.NewEncoder(os.NewFile(repliesFD, "replies"))
	var b bencher
	for {
		var j Job
		if orders.Decode(&j) != nil {
			os.Exit(0)
		}
		if replies.Encode(b.evaluate(context.Background(), &j)) != nil {
			os.Exit(1)
		}
	}
}

// TimeoutError says that a job was stopped at its time limit.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("not done within %v", e.Limit) }

// CrashError says that the process died of a job.
type CrashError struct{ How, Output string }

func (e *CrashError) Error() string {
	text := "the process that evaluates died: " + e.How
	if e.Output != "" {
		text += "; it wrote:\n" + e.Output
	}
	return text
}

// Worker evaluates jobs in a child process, one at a time.
type Worker struct {
	child *child
}

type child struct {
	cmd     *exec.Cmd
	orders  *os.File
	replies *os.File
	enc     *json.Encoder
	dec     *json.Decoder
	output  tail
	reaped  chan struct{}
	exit    error
}

// Evaluate does a job within a limit. The error is a *TimeoutError, a *CrashError, or that of ctx; the child is gone then, and the next job
// starts another.
func (w *Worker) Evaluate(ctx context.Context, j *Job, limit time.Duration) (*Outcome, error) {
	if w.child == nil {
		c, err := startChild()
		if err != nil {
			return nil, fmt.Errorf("starting the process that evaluates: %w", err)
		}
		w.child = c
	}
	c := w.child
	done := make(chan error, 1)
	var o Outcome
	go func() {
		err := c.enc.Encode(j)
		if err == nil {
			err = c.dec.Decode(&o)
		}
		done <- err
	}()
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case err := <-done:
		if err == nil {
			return &o, nil
		}
		w.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		how := "it ended early"
		if c.exit != nil {
			how = c.exit.Error()
		}
		return nil, &CrashError{how, c.output.String()}
	case <-late:
		w.Close()
		return nil, &TimeoutError{limit}
	case <-ctx.Done():
		w.Close()
		return nil, ctx.Err()
	}
}

// Close stops the child.
func (w *Worker) Close() {
	if c := w.child; c != nil {
		c.orders.Close()
		c.cmd.Process.Kill()
		<-c.reaped
		c.replies.Close()
		w.child = nil
	}
}

// startChild starts this program again as a worker, which ends with this process.
func startChild() (*child, error) {
	exe, err := os.Executable()
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
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	cmd.ExtraFiles = []*os.File{orders, replies}
	cmd.SysProcAttr = processAttributes()
	cmd.WaitDelay = time.Second
	c := &child{cmd: cmd, orders: ordersW, replies: repliesR, enc: json.NewEncoder(ordersW), dec: json.NewDecoder(repliesR), reaped: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	started := make(chan error)
	go func() { // a signal at the death of the parent comes at that of its thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		orders.Close()
		replies.Close()
		started <- err
		if err == nil {
			c.exit = cmd.Wait()
			close(c.reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, ordersW.Close(), repliesR.Close())
	}
	return c, nil
}

// tail keeps the end of what a child writes.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if over := t.b.Len() - tailBytes; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.b.String())
}
