//go:build linux && (amd64 || arm64)

package aot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
)

// worker is a running compile worker, seen from the parent.
type worker struct {
	*child.Process
	passes string // extra passes it dumps
	served int    // requests answered
	rss    int64  // bytes resident after the last of them
	noise  child.Noise
}

// workerEnvironment is what libtpu must find before it is loaded: without it, its start queries a metadata server
// for minutes, takes a lock file and prints.
var workerEnvironment = []string{
	"TPU_SKIP_MDS_QUERY=1",
	"TPU_ACCELERATOR_TYPE=v5litepod-4",
	"TPU_WORKER_HOSTNAMES=localhost",
	"ALLOW_MULTIPLE_LIBTPU_LOAD=1",
	"TPU_MIN_LOG_LEVEL=3",
}

// hiddenPrefixes are variables of the caller that could change what libtpu does.
var hiddenPrefixes = []string{"TPU_", "LIBTPU_", "XLA_", "TF_", "MEGASCALE_", "ALLOW_MULTIPLE_LIBTPU_LOAD=", workerVariable}

// startWorker starts a worker. It dies with this process.
func startWorker(libtpu, link, passes, extra string) (*worker, error) {
	environment := append([]string{workerVariable + "=" + libtpu, "LIBTPU_INIT_ARGS=" + initArgs(link, passes, extra)}, workerEnvironment...)
	for _, kv := range os.Environ() {
		if !hidden(kv) {
			environment = append(environment, kv)
		}
	}
	w := &worker{passes: passes}
	var err error
	w.Process, err = child.Start(environment, &w.noise)
	return w, err
}

func hidden(kv string) bool {
	for _, p := range hiddenPrefixes {
		if strings.HasPrefix(kv, p) {
			return true
		}
	}
	return false
}

// exchange is an exchange with the worker that the closing of its compiler ends too.
func (c *Compiler) exchange(ctx context.Context, w *worker, l child.Limits, o *order, a *reply) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.closing, func() { cancel(errClosed()) })
	defer stop()
	var orders any
	if o != nil {
		w.noise.Reset()
		orders = o
	}
	err := w.Exchange(ctx, l, orders, a)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return stopped(ctx)
	}
	return err
}

// tick is the unit of processor times that Linux shows, whatever its own.
const tick = time.Second / 100

// cpuOf is the processor time of a process and of the children that it reaped; 0 if the kernel does not tell.
func cpuOf(pid int64) (sum time.Duration) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(after)
	if len(f) < 15 {
		return 0
	}
	for _, text := range f[11:15] {
		n, _ := strconv.ParseInt(text, 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

// symbolizer matches the lines of a stack trace that only its makers can resolve.
var symbolizer = regexp.MustCompile(`(?m)^https?://symbolize.*\n?`)

// words is what the worker printed.
func (c *worker) words() string { return symbolizer.ReplaceAllString(c.noise.String(), "") }
