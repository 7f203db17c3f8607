//go:build !linux || !(amd64 || arm64)

package aot

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// RunWorkerIfAsked must be the first call of main and of TestMain. libtpu exists for 64-bit Linux only: elsewhere
// it returns at once, and every compile is an InfraError.
func RunWorkerIfAsked() {}

var (
	errDied  = errors.New("the worker ended")
	errLate  = errors.New("the worker is late")
	errLarge = errors.New("the worker takes too much memory")
)

type worker struct {
	passes string
	served int
	rss    int64
}

func startWorker(libtpu, link, passes, extra string) (*worker, error) {
	return nil, fmt.Errorf("libtpu runs on 64-bit Linux, this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

func cpuOf(int64) time.Duration { return 0 }

func (*worker) Pid() int                        { return 0 }
func (*worker) Alive() bool                     { return false }
func (*worker) Stop()                           {}
func (*worker) obituary() (exit, stderr string) { return "", "" }
func (*worker) exchange(context.Context, <-chan struct{}, limits, *order, *reply) error {
	return errDied
}
