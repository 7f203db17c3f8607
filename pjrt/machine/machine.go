// Package machine is one lock for all that keeps the processors of this machine busy: what measures time has the machine for itself, what
// computes shares it.
//
// Rules:
//
//  1. A hold lasts for one piece of work, such as a compile or a timing, not for a run: all others wait for it.
//  2. Who waits to measure goes before those who come to compute after him.
//  3. A hold belongs to a context. Work under a context that holds the machine takes nothing again; what measures under one that computes
//     gives that up meanwhile.
//  4. The lock is of files, which the system frees when a process ends, however it does.
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

// Use is what a hold is for.
type Use string

// The uses.
const (
	Computes Use = "computes" // shared
	Measures Use = "measures" // alone
)

// Holder is a process that holds the machine, or waits to measure and keeps others from beginning.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Use     Use       `json:"use"`
	Since   time.Time `json:"since"`
	Waits   bool      `json:"waits,omitempty"` // it does not have the machine yet
}

func (h Holder) String() string {
	verb := string(h.Use)
	if h.Waits {
		verb = "waits to measure"
	}
	return fmt.Sprintf("%s (process %d, %s since %s)", h.Command, h.PID, verb, h.Since.Local().Format(time.TimeOnly))
}

// BusyError says who has the machine, where nobody wants to wait.
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

// Waiting is the text for somebody who waits.
func Waiting(holders []Holder) string { return "waiting for the machine: " + list(holders) }

// Lock is the lock of a folder. Of a nil Lock everybody has a hold at once.
type Lock struct {
	dir  string
	tell func([]Holder)

	mu   sync.Mutex
	told time.Time
	next atomic.Int64 // number of a hold of this process
}

// New gives the lock of a folder, which is made when it is needed. tell, if not nil, is called where a hold is waited for: after a moment,
// and at most once in tellEvery.
func New(dir string, tell func([]Holder)) *Lock { return &Lock{dir: dir, tell: tell} }

const (
	pollEvery = 20 * time.Millisecond
	tellAfter = 2 * time.Second
	tellEvery = time.Minute

	turnName = "turn" // held while a hold is taken: who waits to measure keeps it
	lockName = "lock"
	holdGlob = "hold-*"
)

// hold is what a context holds.
type hold struct {
	lock *Lock
	use  Use
	free func() // gives it back
}

type (
	holdKey struct{}
	lockKey struct{}
)

// With lets Of find the lock, without a hold.
func (l *Lock) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, lockKey{}, l)
}

// Of is the lock that ctx holds, or was given by With; nil: none.
func Of(ctx context.Context) *Lock {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok {
		return h.lock
	}
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

// Compute waits until nobody measures, and holds the machine with all others that compute until the function is called.
func (l *Lock) Compute(ctx context.Context) (context.Context, func(), error) {
	if l == nil || l.of(ctx) != nil {
		return ctx, func() {}, nil
	}
	return l.take(ctx, Computes)
}

// Measure waits until nobody else computes or measures, and holds the machine alone until the function is called.
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
	again := func() { // without a hold only where ctx has ended, and with it the work
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

// of is what ctx holds of this lock; nil: nothing.
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

// acquire takes the turn, then the lock, then gives the turn to the next. Whoever waits to measure keeps the turn, so that those who
// compute can not, by taking the lock again and again, keep it from him.
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

// wait tries until it can, and tells who is waited for.
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

// sign writes who holds the machine into a file of its own, which is locked for as long as it is true.
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
		err = os.Rename(draft, name) // with its lock: nobody sees it without
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("the lock of the machine: %w", err)
	}
	return func() { os.Remove(name); file.Close() }, nil
}

// Holders lists who holds the machine now, the longest first. What killed processes left is removed.
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
		file := flock.New(name, flock.SetFlag(os.O_RDWR)) // it is not made anew where it has gone meanwhile
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

// hinder lists those that somebody waits for: to compute, those that measure or wait to; to measure, all.
func (l *Lock) hinder(use Use) []Holder {
	return slices.DeleteFunc(l.Holders(), func(h Holder) bool {
		return use == Computes && h.Use == Computes || h.PID == os.Getpid() && h.Waits
	})
}

// Free says whether a use could begin now; else the error is a *BusyError.
func (l *Lock) Free(use Use) error {
	if l == nil {
		return nil
	}
	if holders := l.hinder(use); len(holders) > 0 {
		return &BusyError{holders}
	}
	return nil
}
