package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/child"
	"github.com/gdngen/gdngen/pjrt/device"
)

// workerVariable marks the process of a worker.
const workerVariable = "GDNGEN_BENCH_WORKER"

// RunWorkerIfAsked must be the first call in main, and in TestMain of programs that evaluate. In a child process of a
// Worker it serves jobs and never returns; in any other process it returns at once.
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

// CrashError says that the process died during a job.
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
	target *target.Target // of the device, once it is known; its compile options are in the environment of the child
	output *child.Noise   // what it prints
}

// Evaluate does a job within a limit. The error is a *TimeoutError, a *CrashError, or ctx's. After an error the child
// is gone; the next job starts another.
func (w *Worker) Evaluate(ctx context.Context, j *Job, limit time.Duration) (*Outcome, error) {
	if w.child == nil {
		out := &child.Noise{}
		c, err := child.Start(append(device.Environment(w.target), workerVariable+"=1"), out)
		if err != nil {
			return nil, fmt.Errorf("starting the process that evaluates: %w", err)
		}
		w.child, w.output = c, out
	}
	c := w.child
	var o Outcome
	err := c.Exchange(ctx, child.Limits{Time: limit}, j, &o)
	if err == nil {
		return &o, nil
	}
	died := err == child.ErrDied
	how := ""
	if died {
		how = c.Obituary()
	}
	w.Close()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case died:
		return nil, &CrashError{how, w.output.String()}
	case err == child.ErrLate:
		return nil, &TimeoutError{limit}
	}
	return nil, err
}

// Close stops the child.
func (w *Worker) Close() {
	if w.child != nil {
		w.child.Stop()
		w.child = nil
	}
}
