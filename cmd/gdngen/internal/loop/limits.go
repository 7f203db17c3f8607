package loop

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/internal/terminal"
)

// Intervals between checks of the run's limits while an agent or a check runs.
var (
	diskEvery  = 2 * time.Second
	spendEvery = time.Minute
)

// spendLimit is the time limit of the command of --spend.
const spendLimit = time.Minute

// LimitError says that a limit of the run is exceeded. The run resumes once the limit is raised or the counted quantity
// has shrunk.
type LimitError struct{ Text string }

func (e *LimitError) Error() string { return e.Text }

// afford reports whether another iteration may begin. An exceeded limit is a pause, with a *LimitError.
func (l *Loop) afford(ctx context.Context) error {
	err := l.within(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return &PauseError{err}
}

func (l *Loop) within(ctx context.Context) error {
	if text := l.crowded(); text != "" {
		return &LimitError{text + "; raise it, or make room there"}
	}
	if l.Spend == "" {
		return nil
	}
	if err := l.ask(ctx); err != nil {
		return err
	}
	if text := l.poor(); text != "" {
		return &LimitError{text + "; raise it by --max-spend"}
	}
	return nil
}

// crowded says that the run takes too much of the disk; "" if not.
func (l *Loop) crowded() string {
	if l.MaxDisk <= 0 {
		return ""
	}
	if size := usage(l.Dir); size > l.MaxDisk {
		return fmt.Sprintf("the run's folder has %s, more than --max-disk %s", terminal.Size(size), terminal.Size(l.MaxDisk))
	}
	return ""
}

// poor says that agents have spent their limit; "" if not.
func (l *Loop) poor() string {
	if l.spent < l.MaxSpend {
		return ""
	}
	return fmt.Sprintf("--spend tells %g, and --max-spend is %g", l.spent, l.MaxSpend)
}

// ask runs the command of --spend. It is the user's, without a sandbox; its last line must be a number that never falls.
func (l *Loop) ask(ctx context.Context) error {
	c := command{text: l.Spend, dir: l.Repo, log: l.path("spend.log"), env: os.Environ(), limit: spendLimit}
	o, err := c.run(ctx)
	if err != nil {
		return err
	}
	x, bad := strconv.ParseFloat(strings.TrimSpace(o.last), 64)
	if o.fault != "" || bad != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return fmt.Errorf("--spend %s tells no amount: %s", clip(l.Spend, 60), clip(orElse(o.fault, fmt.Sprintf("its last line is %q", o.last)), 200))
	}
	l.spent = x
	return nil
}

// watch checks the limits while a command runs, and sends an exceeded one on over. The disk limit ends any command, the spending limit only an agent.
func (l *Loop) watch(ctx context.Context, agent bool) (over <-chan string, done func()) {
	if l.MaxDisk <= 0 && (l.Spend == "" || !agent) {
		return nil, func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	said, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		disk, money := time.NewTicker(diskEvery), time.NewTicker(spendEvery)
		defer disk.Stop()
		defer money.Stop()
		for {
			text := ""
			select {
			case <-ctx.Done():
				return
			case <-disk.C:
				text = l.crowded()
			case <-money.C:
				if l.Spend != "" && agent && l.ask(ctx) == nil {
					text = l.poor()
				}
			}
			if text != "" {
				said <- text
				return
			}
		}
	}()
	return said, func() { stop(); <-ended }
}

// usage returns the size of a folder on the disk, in bytes. Unreadable files count as 0.
func usage(dir string) (sum int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += allocated(info)
		}
		return nil
	})
	return sum
}
