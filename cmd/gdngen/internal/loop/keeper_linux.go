package loop

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supported returns why loops can not run here, or nil.
func supported() error { return nil }

// keeperAttributes move a keeper out of the terminal's process group.
func keeperAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// keep runs a command to its end and ends the processes that outlive it.
func keep(life *os.File, words []string) (s status) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	syscall.CloseOnExec(lifeFD)
	syscall.CloseOnExec(statusFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return status{Exit: -1, Fault: err.Error()}
	}
	c := exec.Command(words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the user's terminal is out of reach
	if err := c.Start(); err != nil {
		return status{Exit: -1, Fault: err.Error()}
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	gone := make(chan struct{})
	go func() {
		io.Copy(io.Discard, life)
		close(gone)
	}()
	var err error
	select {
	case err = <-ended:
		s.Left = sweep(0)
	case <-gone:
		sweep(c.Process.Pid)
		err = <-ended
		sweep(0)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		s.Exit = exit.ExitCode()
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			s.Fault = "ended by signal " + w.Signal().String()
		}
	} else if err != nil {
		s.Exit, s.Fault = -1, err.Error()
	}
	return s
}

// Rounds of a sweep. A process that forks repeatedly is stopped before it is killed, or its children would escape.
const (
	stopRounds  = 50
	sweepRounds = 500
)

// sweep ends and reaps all descendants of this process, except waited, for which someone else waits. It returns their number.
func sweep(waited int) int {
	stopped := map[int]bool{}
	for range stopRounds {
		fresh := false
		for _, p := range descendants() {
			if !stopped[p] {
				fresh, stopped[p] = true, true
				syscall.Kill(p, syscall.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	for range sweepRounds {
		left := descendants()
		for _, p := range left {
			stopped[p] = true
			syscall.Kill(p, syscall.SIGKILL)
		}
		for _, p := range children(true) {
			if p != waited {
				syscall.Wait4(p, nil, syscall.WNOHANG, nil)
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(stopped)
}

// process is a row of the process table.
type process struct {
	parent int
	dead   bool // it ended, and waits to be reaped
	start  string
}

func processOf(pid int) (p process, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may hold any bytes
	if len(f) < 20 {
		return p, false
	}
	p.parent, err = strconv.Atoi(f[1])
	p.dead, p.start = f[0] == "Z" || f[0] == "X", f[19]
	return p, err == nil
}

func table() map[int]process {
	entries, _ := os.ReadDir("/proc")
	m := map[int]process{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := processOf(pid); ok {
				m[pid] = p
			}
		}
	}
	return m
}

// children returns the child processes of this process, with ended ones if dead.
func children(dead bool) (l []int) {
	for pid, p := range table() {
		if p.parent == os.Getpid() && (dead || !p.dead) {
			l = append(l, pid)
		}
	}
	return l
}

// descendants returns the living processes below this one.
func descendants() (l []int) {
	all := table()
	below := map[int][]int{}
	for pid, p := range all {
		below[p.parent] = append(below[p.parent], pid)
	}
	for todo := []int{os.Getpid()}; len(todo) > 0; todo = todo[1:] {
		for _, pid := range below[todo[0]] {
			todo = append(todo, pid)
			if !all[pid].dead {
				l = append(l, pid)
			}
		}
	}
	return l
}

// allocated returns the size of a file on the disk, in bytes; holes take none.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return 512 * s.Blocks
	}
	return info.Size()
}
