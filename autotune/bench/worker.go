package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
)

// workerVariable marks the process of a worker.
const workerVariable = "GDNGEN_BENCH_WORKER"

// RunWorkerIfAsked must be called first of all in main and in TestMain of programs that evaluate. In a process that a Worker
// started it serves jobs and never returns; in any other it returns at once.
func RunWorkerIfAsked() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	os.Unsetenv(workerVariable)
	orders, replies := child.Pipes()
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
	child  *child.Process // nil: the next job starts one
	output *tail          // what it prints
}

// Evaluate does a job within a limit. The error is a *TimeoutError, a *CrashError, or that of ctx; the child is gone then, and the next job
// starts another.
func (w *Worker) Evaluate(ctx context.Context, j *Job, limit time.Duration) (*Outcome, error) {
	if w.child == nil {
		out := &tail{}
		c, err := child.Start(append(os.Environ(), workerVariable+"=1"), out)
		if err != nil {
			return nil, fmt.Errorf("starting the process that evaluates: %w", err)
		}
		w.child, w.output = c, out
	}
	c := w.child
	done := make(chan error, 1)
	var o Outcome
	go func() {
		err := c.Send(j)
		if err == nil {
			err = c.Receive(&o)
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
		if err := c.Exit(); err != nil {
			how = err.Error()
		}
		return nil, &CrashError{how, w.output.String()}
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
	if w.child != nil {
		w.child.Stop()
		w.child = nil
	}
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
