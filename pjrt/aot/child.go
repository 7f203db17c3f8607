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

// worker is a running compile worker, as the parent sees it.
type worker struct {
	*child.Process
	passes string // extra passes it dumps
	served int    // requests answered
	rss    int64  // resident bytes after the last request
	noise  child.Noise
}

// hiddenPrefixes are variables of the caller that could change a plugin's behaviour.
var hiddenPrefixes = []string{"TPU_", "LIBTPU_", "XLA_", "TF_", "MEGASCALE_", "ALLOW_MULTIPLE_LIBTPU_LOAD=", "CUDA_", workerVariable}

// startWorker starts a worker with variables for its plugin. The worker dies with this process.
func startWorker(library string, variables []string) (*worker, error) {
	environment := append([]string{workerVariable + "=" + library}, variables...)
	for _, kv := range os.Environ() {
		if !hidden(kv) {
			environment = append(environment, kv)
		}
	}
	w := &worker{}
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

// exchange is an exchange with the worker that also ends when the compiler is closed.
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

// tick is the unit in which Linux reports processor time.
const tick = time.Second / 100

// cpuOf returns the processor time of a process and its reaped children; 0 if unknown.
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

// symbolizer matches lines of a stack trace that only the plugin's makers can resolve.
var symbolizer = regexp.MustCompile(`(?m)^https?://symbolize.*\n?`)

// words returns the worker's output.
func (c *worker) words() string { return symbolizer.ReplaceAllString(c.noise.String(), "") }
