package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gdngen/gdngen/pjrt"
)

// trialVariable tells this program to open a library and print its version.
const trialVariable = "GDNGEN_PLUGIN_TRIAL"

// trialLimit is the time limit to open a library.
const trialLimit = 2 * time.Minute

// RunTrialIfAsked is called first in main, by aot.RunWorkerIfAsked. In a process started by Try it opens the library, and exits.
func RunTrialIfAsked() {
	path := os.Getenv(trialVariable)
	if path == "" {
		return
	}
	e, err := pjrt.Open(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(e.Version())
	os.Exit(0)
}

// Try opens a library in a separate process, since a damaged one can crash its process. It returns the library's version.
func Try(ctx context.Context, path string) (version string, err error) {
	if os.Getenv(trialVariable) != "" {
		return "", errors.New("main does not begin with aot.RunWorkerIfAsked")
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	c := exec.CommandContext(limited, exe)
	c.Env = append(os.Environ(), trialVariable+"="+path)
	out, err := c.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", fmt.Errorf("%s did not open within %v", path, trialLimit)
	case err == nil:
		return last, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return "", errors.New(last)
	}
	return "", fmt.Errorf("%s ends the process that loads it (%w): it is damaged, or built for another machine", path, err)
}

// Open opens the library in this process; closed frees the engine. A library of the user's choice is first tried in another process. A
// pinned one is compared with its checksum if an earlier process did not close it, since that process may have crashed in it.
func (p Plugin) Open(ctx context.Context) (e *pjrt.Engine, closed func() error, err error) {
	unmark := func() {}
	if p.Pinned() {
		var crashed bool
		if crashed, unmark = p.mark(); crashed {
			err = p.Damaged()
		}
	} else {
		_, err = Try(ctx, p.Path)
	}
	if err == nil {
		e, err = pjrt.Open(p.Path)
	}
	if err != nil {
		unmark()
		return nil, nil, err
	}
	return e, func() error { defer unmark(); return e.Close() }, nil
}

// mark keeps a locked file while this process has the library open. crashed: there was one of another process, which has ended.
func (p Plugin) mark() (crashed bool, unmark func()) {
	unmark = func() {}
	dir, err := CacheDir()
	if err != nil {
		return false, unmark
	}
	dir = filepath.Join(dir, "open")
	name := filepath.Base(filepath.Dir(p.Path)) + "-"
	left, _ := filepath.Glob(filepath.Join(dir, name+"*"))
	for _, file := range left {
		l := flock.New(file, flock.SetFlag(os.O_RDONLY))
		if free, err := l.TryLock(); err == nil && free {
			crashed = true
			os.Remove(file)
			l.Unlock()
		}
	}
	if os.MkdirAll(dir, 0o755) != nil {
		return crashed, unmark // the cache is read-only
	}
	f, err := os.CreateTemp(dir, name)
	if err != nil {
		return crashed, unmark
	}
	f.Close()
	l := flock.New(f.Name(), flock.SetFlag(os.O_RDONLY))
	if taken, err := l.TryLock(); err != nil || !taken {
		os.Remove(f.Name())
		return crashed, unmark
	}
	return crashed, func() { os.Remove(f.Name()); l.Unlock() }
}
