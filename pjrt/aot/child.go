//go:build linux && (amd64 || arm64)

package aot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a running compile worker, seen from the parent.
type child struct {
	passes string // extra passes it dumps
	served int    // requests answered
	rss    int64  // bytes resident after the last of them

	cmd     *exec.Cmd
	orders  *os.File
	replies *os.File
	enc     *json.Encoder
	dec     *json.Decoder
	noise   noise
	reaped  chan struct{}
	exit    error // valid once reaped is closed
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

// startChild starts a worker in its own process group. It dies with this process.
func startChild(libtpu, link, passes, extra string) (*child, error) {
	orders, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	repliesR, replies, err := os.Pipe()
	if err != nil {
		orders.Close()
		ordersW.Close()
		return nil, err
	}
	// The running program under whatever name it was started, even if its file was replaced or removed since.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(cmd.Env, workerVariable+"="+libtpu, "LIBTPU_INIT_ARGS="+initArgs(link, passes, extra))
	cmd.Env = append(cmd.Env, workerEnvironment...)
	for _, kv := range os.Environ() {
		if !hidden(kv) {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.ExtraFiles = []*os.File{orders, replies} // become ordersFD and repliesFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	c := &child{passes: passes, cmd: cmd, orders: ordersW, replies: repliesR,
		enc: json.NewEncoder(ordersW), dec: json.NewDecoder(repliesR), reaped: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.noise, &c.noise

	// Linux sends Pdeathsig when the thread that started the child ends, so that thread waits for the child.
	started := make(chan error)
	go func() {
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
		ordersW.Close()
		repliesR.Close()
		return nil, err
	}
	return c, nil
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
func (c *child) exchange(ctx context.Context, closing <-chan struct{}, l limits, o *order, a *reply) error {
	done := make(chan error, 1)
	if o != nil {
		c.noise.reset()
	}
	go func() {
		var err error
		if o != nil {
			err = c.enc.Encode(o)
		}
		if err == nil {
			err = c.dec.Decode(a)
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
			if residentOf(strconv.Itoa(c.cmd.Process.Pid)) > l.memory {
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
	c.kill()
	<-done
	return err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

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

func (c *child) alive() bool {
	select {
	case <-c.reaped:
		return false
	default:
		return true
	}
}

func (c *child) kill() {
	if c.alive() {
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// stop kills the child, reaps it and frees what the parent held for it.
func (c *child) stop() {
	c.kill()
	<-c.reaped
	c.orders.Close()
	c.replies.Close()
}

// obituary says how a child whose pipe broke ended, and what it printed. One that closed its pipe and lives is killed.
func (c *child) obituary() (exit, stderr string) {
	select {
	case <-c.reaped:
	case <-time.After(5 * time.Second):
		c.kill()
		<-c.reaped
	}
	exit = "exit status 0"
	if c.exit != nil {
		exit = c.exit.Error()
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
