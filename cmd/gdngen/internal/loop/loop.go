package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gofrs/flock"
)

// Loop is a session of a run.
type Loop struct {
	Config
	repo  *repository
	store *store
	book  *book
	box   *box
	hot   string  // hot spots of the base
	noted []Noted // by the judge's commands on the change
	start time.Time
	spent float64 // last output of --spend
	tools string  // folder with gdngen, ahead of PATH

	seals   []seal
	holdout string   // the run's copy
	baseSum string   // of the base's tracked files, after the last command on it
	goEnv   []string // paths of Go modules, in a sandbox
}

// ConfigError says why a configuration is invalid.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// LockedError says that another loop uses the run or the branch.
type LockedError struct{ What string }

func (e *LockedError) Error() string { return "another loop is at work on " + e.What }

// PauseError says that the machinery failed. The same command resumes the run.
type PauseError struct{ Err error }

func (e *PauseError) Error() string {
	return fmt.Sprintf("the loop pauses: %v; nothing is lost: mend it and give the same command", e.Err)
}
func (e *PauseError) Unwrap() error { return e.Err }

// FailuresError says that Count consecutive iterations kept nothing.
type FailuresError struct{ Count int }

func (e *FailuresError) Error() string {
	return fmt.Sprintf("%d iterations in a row kept nothing: the loop ends (--max-failures; gdngen loop status shows why)", e.Count)
}

func (l *Loop) records() []Record {
	if l.book == nil {
		return nil
	}
	return l.book.records
}

func (l *Loop) path(words ...string) string {
	return filepath.Join(append([]string{l.Dir}, words...)...)
}

// folder returns the folder of an iteration.
func (l *Loop) folder(n int) string { return l.path(fmt.Sprintf("iter-%03d", n)) }

// Folders of a run that an agent may write, and the folder of the judge's rooms.
var (
	agentFolders = []string{"root", "work", "work/home", "work/tmp"}
	judgeFolders = []string{"judge"}
)

// stageName is the folder of a run where a sandbox mounts its root.
var stageName = "root"

// Ref returns the ref of an iteration's attempt in the user's repository.
func Ref(dir string, n int) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, filepath.Base(dir))
	return fmt.Sprintf("refs/gdngen/%s/%03d", cmp.Or(strings.Trim(name, "-"), "run"), n)
}

// Run begins a loop, or resumes the one in c.Dir. It ends after c.Iterations iterations, when the budget is spent, at the goal, or with ctx;
// then the agent is ended and its iteration is interrupted. Errors are *ConfigError, *LockedError, *PauseError or *FailuresError.
func Run(ctx context.Context, c Config) (err error) {
	if err := errors.Join(supported(), c.Validate()); err != nil {
		return &ConfigError{err}
	}
	l := &Loop{Config: c, start: time.Now()}
	if l.repo, err = openRepository(ctx, c.Repo); err != nil {
		return &ConfigError{err}
	}
	if err := l.repo.prepare(ctx, l.Branch); err != nil {
		return &ConfigError{err}
	}
	for _, dir := range append(append([]string{"."}, agentFolders...), judgeFolders...) {
		if err := os.MkdirAll(l.path(dir), 0o755); err != nil {
			return err
		}
	}
	for what, file := range map[string]string{"run " + c.Dir: l.path("lock"), "branch " + c.Branch: filepath.Join(l.repo.common, "gdngen-loop-"+strings.ReplaceAll(c.Branch, "/", "%")+".lock")} {
		lock := flock.New(file)
		locked, err := lock.TryLock()
		if err != nil {
			return err
		}
		if !locked {
			return &LockedError{what}
		}
		defer lock.Unlock()
	}
	if was, err := Load(c.Dir); err == nil && (was.Repo != c.Repo || was.Branch != c.Branch) {
		return &ConfigError{fmt.Errorf("run %s is one of branch %s in %s: choose another --run", c.Dir, was.Branch, was.Repo)}
	}
	if err := l.prepare(ctx); err != nil {
		return pause(err)
	}
	stopped, err := l.drive(ctx)
	if err != nil {
		stopped = err.Error()
	}
	return pause(errors.Join(err, l.book.add(Record{Kind: KindStop, Reason: clip(stopped, 400)}), l.clean()))
}

// pause wraps an error in a *PauseError, unless it is a regular way to end.
func pause(err error) error {
	for _, other := range []any{new(*ConfigError), new(*LockedError), new(*PauseError), new(*FailuresError)} {
		if err == nil || errors.As(err, other) {
			return err
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &PauseError{err}
}

// prepare opens everything that a session needs, and finishes an iteration left open by the last session.
func (l *Loop) prepare(ctx context.Context) (err error) {
	if l.store, err = openStore(ctx, l.path("own.git"), l.repo); err != nil {
		return err
	}
	if l.book, err = openBook(l.Dir); err != nil {
		return err
	}
	if err := l.save(); err != nil {
		return err
	}
	if err := l.sealAll(holdoutSum(l.records())); err != nil {
		return err
	}
	if err := l.chooseBox(ctx); err != nil {
		return &ConfigError{err}
	}
	if err := l.recover(ctx); err != nil {
		return err
	}
	r := Record{Kind: KindSession, Process: os.Getpid(), Sandbox: l.box.Name, Network: l.network()}
	for _, s := range l.seals {
		if s.path == l.holdout {
			r.Holdout = s.sum
		}
	}
	return l.book.add(r)
}

// chooseBox chooses the session's sandbox by trying it: a machine can have the programs and refuse their use.
func (l *Loop) chooseBox(ctx context.Context) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	folders, env := goFolders(ctx)
	base := box{Stage: l.path(stageName), Hidden: append(hidden(home), l.Dir), Writable: []string{l.path("work")}, Home: home, Own: l.path("work", "home"), Run: l.Dir,
		Shown: slices.Concat(l.Show, l.Readable, folders, resolver(), []string{l.tools})}
	if l.Holdout != "" {
		base.Masked = []string{l.Holdout}
	}
	var why error
	if l.box, why, err = newBox(l.Sandbox, base); err != nil {
		return err
	}
	if !l.box.none() {
		l.goEnv = env
	}
	if why != nil && l.Unwatched && l.box.none() {
		return fmt.Errorf("no sandbox can be had here (%s), and nobody watches: --sandbox none says that agents may change all that you may", clip(why.Error(), 300))
	}
	if why != nil && l.box.none() {
		l.Warn("NO SANDBOX can be had here (" + clip(why.Error(), 300) + "): the agent and what it leaves may read and change all that you may, the judge too; --sandbox none says that this is meant")
	}
	if l.box.none() && l.Holdout != "" {
		l.Note("without a sandbox the agent can read " + l.Holdout)
	}
	return nil
}

// network describes who has access to the machine's network.
func (l *Loop) network() string {
	switch agent, checks := l.AgentNetwork, l.CheckNetwork || l.On != ""; {
	case l.box.none() || agent && checks:
		return "open"
	case agent:
		return "open to the agent"
	case checks:
		return "open to checks"
	}
	return "closed"
}

// goFolders returns the folders of Go and its modules to show in a sandbox, and the variable that names the modules.
func goFolders(ctx context.Context) (folders, env []string) {
	exe, err := program("go")
	if err != nil {
		return nil, nil
	}
	c := exec.CommandContext(ctx, exe, "env", "GOMODCACHE", "GOROOT")
	c.Dir = "/"
	out, err := c.Output()
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); err == nil && len(lines) == 2 {
		return lines, []string{"GOMODCACHE=" + lines[0]}
	}
	return nil, nil
}

// clean removes clones; results are in the folders of iterations and on refs.
func (l *Loop) clean() error {
	return errors.Join(remove(l.path("work")), remove(l.path("judge")), remove(l.path("root")))
}

// recover ends an iteration that was killed. A recorded decision is carried out.
func (l *Loop) recover(ctx context.Context) error {
	was := open(l.records())
	if was == nil {
		return nil
	}
	last := was[len(was)-1]
	end := Record{Kind: KindEnd, Iteration: last.Iteration, Base: was[0].Base, Commit: last.Commit, Plan: last.Plan, Verdict: Interrupted, Reason: "the loop was killed"}
	if last.Kind == KindDecide {
		end = last
		end.Kind = KindEnd
		if err := l.carryOut(ctx, &end); err != nil {
			return err
		}
	}
	return l.finish(end)
}

// drive runs iterations until a limit.
func (l *Loop) drive(ctx context.Context) (stopped string, err error) {
	failures, pause := 0, time.Second
	for {
		n, counted := 1, 0
		for _, r := range ends(l.records()) {
			n = r.Iteration + 1
			if r.Verdict != Interrupted {
				counted++
			}
			if l.reached(&r) {
				return "the goal is reached", l.final(ctx)
			}
		}
		switch {
		case counted >= l.Iterations:
			return "all iterations are done", l.final(ctx)
		case l.Budget > 0 && time.Since(l.start) >= l.Budget:
			return "the budget is spent", l.final(ctx)
		}
		if err := l.afford(ctx); err != nil {
			return "", err
		}
		r, err := l.iterate(ctx, n)
		r.Spent = l.spent
		if err != nil {
			err = l.broken(ctx, &r, err)
		}
		if bad := l.finish(r); bad != nil {
			return "", &PauseError{errors.Join(err, bad)}
		}
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil && !l.Resilient:
			return "", &PauseError{err}
		case err != nil:
			l.Note(fmt.Sprintf("iteration %d: %v; again in %v", n, err, pause))
			if !sleep(ctx, pause) {
				return "", ctx.Err()
			}
			pause = min(2*pause, maxPause)
			continue
		}
		pause = time.Second
		if l.GoalMFU > 0 && r.Figures != nil && r.MFU() == 0 {
			l.Note(fmt.Sprintf("no command noted a utilisation, so --goal mfu is not seen: gdngen loop figure --ladder and gdngen model cost note theirs, and others write {\"mfu\": 0.4} to $%s", journal.NoteEnv))
		}
		switch m := meaning(r.Verdict); {
		case m.Moves:
			failures = 0
		case m.Fails:
			failures++
		}
		if l.MaxFailures > 0 && failures >= l.MaxFailures {
			return "", errors.Join(l.final(ctx), &FailuresError{failures})
		}
	}
}

// broken gives an iteration that an error of the machinery or of ctx ended its verdict, and returns the error.
func (l *Loop) broken(ctx context.Context, r *Record, err error) error {
	switch {
	case ctx.Err() != nil:
		r.Verdict, r.Reason = Interrupted, "the loop was stopped"
		return ctx.Err()
	case l.Resilient:
		r.Verdict = Blocked
	default:
		r.Verdict = Interrupted // it is repeated
	}
	r.Reason = clip(err.Error(), 400)
	return err
}

// reached reports whether a kept commit meets the goal.
func (l *Loop) reached(r *Record) bool {
	if !meaning(r.Verdict).Moves || r.Figures == nil {
		return false
	}
	return l.Goal > 0 && r.Figures.After <= l.Goal || l.GoalMFU > 0 && r.MFU() >= l.GoalMFU
}

// maxPause is the longest wait before the machinery is tried again.
const maxPause = 10 * time.Minute

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// finish writes the log and the end of an iteration.
func (l *Loop) finish(r Record) error {
	r.Kind = KindEnd
	l.Step("log")
	if err := l.writeLog(append(ends(l.records()), r)); err != nil {
		return err
	}
	l.Step("end")
	if err := l.book.add(r); err != nil {
		return err
	}
	l.Ended(r)
	return nil
}

// resolver lists files below hidden folders that any program needs: for name resolution, and of NixOS.
func resolver() (l []string) {
	if to, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && to != "/etc/resolv.conf" {
		l = append(l, to)
	}
	return existing(slices.Concat(l, []string{"/run/current-system"}))
}
