package autotune

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gdngen/gdngen/autotune/report"
)

// interruptGrace is the time that a session gets to end once its context is done. Compilers and devices are other processes, and
// are killed at once; the interpreter, or a strategy that weighs its moves, run in this process and may not look at the context.
const interruptGrace = 3 * time.Second

// interruptible drives a session and returns at most interruptGrace after ctx ends. A session that is still busy then
// is abandoned: it records nothing more, and keeps the run's lock until it notices. The summary describes the journal.
func interruptible(ctx context.Context, c Config, fresh bool) (*report.Summary, error) {
	var left atomic.Bool
	if tell := c.Progress; tell != nil {
		c.Progress = func(p Progress) {
			if !left.Load() {
				tell(p)
			}
		}
	}
	if warn := c.Warn; warn != nil {
		c.Warn = func(text string) {
			if !left.Load() {
				warn(text)
			}
		}
	}
	type outcome struct {
		sum *report.Summary
		err error
	}
	ended := make(chan outcome, 1)
	go func() {
		sum, err := drive(ctx, c, fresh)
		ended <- outcome{sum, err}
	}()
	select {
	case o := <-ended:
		return o.sum, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-ended:
		return o.sum, o.err
	case <-time.After(interruptGrace):
		left.Store(true)
	}
	sum, err := Status(c.Dir)
	if err != nil {
		return nil, ctx.Err()
	}
	sum.Stopped = interrupted
	return sum, nil
}
