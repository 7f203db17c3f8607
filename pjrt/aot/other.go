//go:build !linux || !(amd64 || arm64)

package aot

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// RunWorkerIfAsked must be the first call of main and of TestMain. Plugins exist only for 64-bit Linux: here it returns at once, and
// every compile is an InfraError.
func RunWorkerIfAsked() { plugins.RunTrialIfAsked() }

type worker struct {
	passes string
	served int
	rss    int64
}

func startWorker(library string, variables []string) (*worker, error) {
	return nil, fmt.Errorf("compilers for absent devices run on 64-bit Linux, this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

func cpuOf(int64) time.Duration { return 0 }

func (*worker) Pid() int         { return 0 }
func (*worker) Alive() bool      { return false }
func (*worker) Stop()            {}
func (*worker) Obituary() string { return "" }
func (*worker) words() string    { return "" }

func (*Compiler) exchange(context.Context, *worker, child.Limits, *order, *reply) error {
	return child.ErrDied
}
