// Package machine is a lock for work that keeps this machine's processors busy. Measurements of time hold it exclusively, computations
// share it.
//
// Rules:
//
//  1. A hold lasts for one piece of work, such as a compile or a timing, not for a whole run, since others wait for it.
//  2. A waiting measurement goes before computations that come later.
//  3. A hold belongs to a context. Work under a context with a hold takes no second one; a measurement under a computation's hold gives that hold
//     up meanwhile.
//  4. The lock is made of file locks, which the system releases when a process ends in any way.
package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
)

// Use is the purpose of a hold.
type Use string

// The uses.
const (
	Computes Use = "computes" // shared
	Measures Use = "measures" // exclusive
)

// Holder is a process that holds the machine, or that waits to measure and so keeps others from starting.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Use     Use       `json:"use"`
	Since   time.Time `json:"since"`
	Waits   bool      `json:"waits,omitempty"` // it is still waiting
}

func (h Holder) String() string {
	verb := string(h.Use)
	if h.Waits {
		verb = "waits to measure"
	}
	return fmt.Sprintf("%s (process %d, %s since %s)", h.Command, h.PID, verb, h.Since.Local().Format(time.TimeOnly))
}

// BusyError says who holds the machine, for a caller that does not wait.
type BusyError struct{ Holders []Holder }

func (e *BusyError) Error() string {
	return "the machine is in use: " + list(e.Holders)
}

func list(holders []Holder) string {
	text := make([]string, len(holders))
	for i, h := range holders {
		text[i] = h.String()
	}
	return strings.Join(text, "; ")
}

// Waiting returns a message for a caller that waits.
func Waiting(holders []Holder) string { return "waiting for the machine: " + list(holders) }

// Lock is the lock of a folder. With a nil Lock, every hold is granted at once.
type Lock struct {
	dir  string
	tell func([]Holder)

	mu   sync.Mutex
	told time.Time
	next atomic.Int64 // number of this process's next hold
}

// New returns the lock of a folder, which is created when needed. tell, if not nil, is called while a hold is waited for: after
// tellAfter, then at most once per tellEvery.
func New(dir string, tell func([]Holder)) *Lock { return &Lock{dir: dir, tell: tell} }

const (
	pollEvery = 20 * time.Millisecond
	tellAfter = 2 * time.Second
	tellEvery = time.Minute

	turnName = "turn" // held while a hold is taken; a waiting measurement keeps it
	lockName = "lock"
	holdGlob = "hold-*"
)

// hold is what a context holds.
type hold struct {
	lock *Lock
	use  Use
	free func() // releases it
}

type (
	holdKey struct{}
	lockKey struct{}
)

// With puts the lock into a context for Of, without a hold.
func (l *Lock) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, lockKey{}, l)
}

// Of returns the lock that ctx holds, or that With put there; nil for none.
func Of(ctx context.Context) *Lock {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok {
		return h.lock
	}
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

// Compute waits until no process measures. It returns a context with a shared hold, and a function that releases the hold. It errs if
// ctx ends.
func (l *Lock) Compute(ctx context.Context) (context.Context, func(), error) {
	if l == nil || l.of(ctx) != nil {
		return ctx, func() {}, nil
	}
	return l.take(ctx, Computes)
}

// Measure waits until no other process computes or measures. It returns a context with an exclusive hold, and a function that releases
// the hold.
func (l *Lock) Measure(ctx context.Context) (context.Context, func(), error) {
	if l == nil {
		return ctx, func() {}, nil
	}
	outer := l.of(ctx)
	if outer == nil {
		return l.take(ctx, Measures)
	}
	if outer.use == Measures {
		return ctx, func() {}, nil
	}
	outer.free()
	held, free, err := l.take(ctx, Measures)
	again := func() { // without a hold only if ctx has ended, and its work with it
		outer.free = func() {}
		if f, err := l.acquire(ctx, Computes); err == nil {
			outer.free = f
		}
	}
	if err != nil {
		again()
		return ctx, nil, err
	}
	return held, func() { free(); again() }, nil
}

// of returns ctx's hold of this lock, or nil.
func (l *Lock) of(ctx context.Context) *hold {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok && h.lock == l {
		return h
	}
	return nil
}

func (l *Lock) take(ctx context.Context, use Use) (context.Context, func(), error) {
	free, err := l.acquire(ctx, use)
	if err != nil {
		return ctx, nil, err
	}
	h := &hold{lock: l, use: use, free: free}
	return context.WithValue(ctx, holdKey{}, h), func() { h.free() }, nil
}

// acquire takes the turn, then the lock, then releases the turn. A process that waits to measure keeps the turn, so that computations
// can not lock it out by taking the lock again and again.
func (l *Lock) acquire(ctx context.Context, use Use) (free func(), err error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("the lock of the machine: %w", err)
	}
	begun := time.Now()
	turn := flock.New(filepath.Join(l.dir, turnName))
	defer turn.Close()
	if err := l.wait(ctx, begun, use, turn.TryLock); err != nil {
		return nil, err
	}
	all := flock.New(filepath.Join(l.dir, lockName))
	try := all.TryRLock
	if use == Measures {
		try = all.TryLock
	}
	ok, err := try()
	if err == nil && !ok {
		var waits func()
		if waits, err = l.sign(Holder{Use: use, Waits: true}); err == nil {
			err = l.wait(ctx, begun, use, try)
			waits()
		}
	}
	var signed func()
	if err == nil {
		signed, err = l.sign(Holder{Use: use})
	}
	if err != nil {
		all.Close()
		return nil, err
	}
	return sync.OnceFunc(func() { signed(); all.Close() }), nil
}

// wait retries until it succeeds, and reports who is waited for.
func (l *Lock) wait(ctx context.Context, begun time.Time, use Use, try func() (bool, error)) error {
	for {
		ok, err := try()
		if err != nil {
			return fmt.Errorf("the lock of the machine: %w", err)
		}
		if ok {
			return nil
		}
		l.say(begun, use)
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Lock) say(begun time.Time, use Use) {
	if l.tell == nil || time.Since(begun) < tellAfter {
		return
	}
	l.mu.Lock()
	silent := time.Since(l.told) < tellEvery
	if !silent {
		l.told = time.Now()
	}
	l.mu.Unlock()
	if silent {
		return
	}
	if holders := l.hinder(use); len(holders) > 0 {
		l.tell(holders)
	}
}

// sign writes the holder's description to its own file, which is locked during the hold.
func (l *Lock) sign(h Holder) (remove func(), err error) {
	h.PID, h.Since = os.Getpid(), time.Now().UTC().Round(time.Second)
	h.Command = strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%d", h.PID, l.next.Add(1))
	name, draft := filepath.Join(l.dir, "hold-"+id), filepath.Join(l.dir, "new-"+id)
	file := flock.New(draft)
	if _, err = file.TryLock(); err == nil {
		err = os.WriteFile(draft, text, 0o644)
	}
	if err == nil {
		err = os.Rename(draft, name) // renamed while locked, so that it is never seen unlocked
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("the lock of the machine: %w", err)
	}
	return func() { os.Remove(name); file.Close() }, nil
}

// Holders returns the holders of the machine, the longest first. It removes files left by killed processes.
func (l *Lock) Holders() (all []Holder) {
	if l == nil {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(l.dir, holdGlob))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		file := flock.New(name, flock.SetFlag(os.O_RDWR)) // it is not created if it was removed meanwhile
		free, err := file.TryLock()
		if err == nil && free {
			os.Remove(name)
		}
		file.Close()
		var h Holder
		if err == nil && !free && json.Unmarshal(text, &h) == nil {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(x, y Holder) int { return x.Since.Compare(y.Since) })
	return all
}

// hinder returns the holders that a use must wait for: a computation waits for measurements, also waiting ones; a measurement for all.
func (l *Lock) hinder(use Use) []Holder {
	return slices.DeleteFunc(l.Holders(), func(h Holder) bool {
		return use == Computes && h.Use == Computes || h.PID == os.Getpid() && h.Waits
	})
}

// Free returns nil if a use could begin now, else a *BusyError.
func (l *Lock) Free(use Use) error {
	if l == nil {
		return nil
	}
	if holders := l.hinder(use); len(holders) > 0 {
		return &BusyError{holders}
	}
	return nil
}
