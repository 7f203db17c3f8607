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
	"sync"
	"time"

	"github.com/gdngen/gdngen/pjrt/child"
)

// worker is a running compile worker, seen from the parent.
type worker struct {
	*child.Process
	passes string // extra passes it dumps
	served int    // requests answered
	rss    int64  // bytes resident after the last of them
	noise  noise
}

var (
	errDied  = errors.New("the worker ended")
	errLate  = errors.New("the worker is late")
	errLarge = errors.New("the worker takes too much memory")
)

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

// exchange sends o, unless nil, and waits for one reply. When it returns an error the child is dead or must be
// stopped: errDied, errLate and errLarge beyond the limits, the error of a done ctx, or that of a closing compiler.
func (c *worker) exchange(ctx context.Context, closing <-chan struct{}, l limits, o *order, a *reply) error {
	done := make(chan error, 1)
	if o != nil {
		c.noise.reset()
	}
	go func() {
		var err error
		if o != nil {
			err = c.Send(o)
		}
		if err == nil {
			err = c.Receive(a)
		}
		done <- err
	}()
	timer := time.NewTimer(l.time)
	defer timer.Stop()
	var weigh <-chan time.Time
	if l.memory > 0 {
		ticker := time.NewTicker(weighEvery)
		defer ticker.Stop()
		weigh = ticker.C
	}
	var err error
	for err == nil {
		select {
		case e := <-done:
			if e != nil {
				return errDied
			}
			return nil
		case <-weigh:
			if residentOf(strconv.Itoa(c.Pid())) > l.memory {
				err = errLarge
			}
		case <-timer.C:
			err = errLate
		case <-ctx.Done():
			err = stopped(ctx)
		case <-closing:
			err = errClosed()
		}
	}
	c.Kill()
	<-done
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

// weighEvery is how often the memory of a child at work is read.
const weighEvery = 25 * time.Millisecond

// obituary says how a child whose pipe broke ended, and what it printed. One that closed its pipe and lives is killed.
func (c *worker) obituary() (exit, stderr string) {
	select {
	case <-c.Reaped():
	case <-time.After(5 * time.Second):
		c.Kill()
		<-c.Reaped()
	}
	exit = "exit status 0"
	if err := c.Exit(); err != nil {
		exit = err.Error()
	}
	return exit, c.noise.String()
}

// noise keeps the head and the tail of what a worker prints during one request.
type noise struct {
	mu         sync.Mutex
	head, tail []byte
	cut        int // bytes dropped between them
}

const noiseKept = 4 << 10 // bytes of head and of tail

// symbolizer matches the lines of a stack trace that only its makers can resolve.
var symbolizer = regexp.MustCompile(`(?m)^https?://symbolize.*\n?`)

func (n *noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := min(noiseKept-len(n.head), len(p))
	n.head = append(n.head, p[:k]...)
	n.tail = append(n.tail, p[k:]...)
	if over := len(n.tail) - noiseKept; over > 0 {
		n.cut += over
		n.tail = append(n.tail[:0], n.tail[over:]...)
	}
	return len(p), nil
}

func (n *noise) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.head, n.tail, n.cut = n.head[:0], n.tail[:0], 0
}

func (n *noise) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	gap := ""
	if n.cut > 0 {
		gap = fmt.Sprintf("\n... %d bytes ...\n", n.cut)
	}
	return strings.TrimSpace(symbolizer.ReplaceAllString(string(n.head)+gap+string(n.tail), ""))
}
