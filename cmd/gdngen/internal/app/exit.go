package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/calibrate"
	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/autotune/ladder"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/selftest"
	"github.com/gdngen/gdngen/autotune/worker"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/ptx"
	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/gpu"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// The exit statuses.
const (
	ExitOK            = 0
	ExitFailure       = 1
	ExitUsage         = 2
	ExitNumerics      = 3
	ExitRejected      = 4
	ExitRegression    = 5
	ExitNoEngine      = 6
	ExitInfra         = 7
	ExitNoImprovement = 8
	ExitCostUnknown   = 9
	exitInternal      = 10
	ExitTimeout       = 124
	ExitInterrupted   = 130
)

const ExitHelp = `Exit status:
  0    success
  1    failure: a file can not be read, a module can not be built
  2    wrong usage: an unknown command, flag, target, variant or spec
  3    numerics: a result is outside its tolerance
  4    rejected: a backend or a compiler refuses the program
  5    lint or regression
  6    an engine is absent: see gdngen doctor
  7    infrastructure: no verdict could be reached; the same command may succeed later
  8    a search found nothing better (only on request)
  9    cost unknown: the program compiles, and the cost model can not read its schedule
  10   internal: a fault of gdngen itself, please report it
  124  the time limit was reached
  130  interrupted`

// codeError is an error with an exit status.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// Failed returns an error with an exit status.
func Failed(code int, format string, args ...any) error {
	return &codeError{code, fmt.Errorf(format, args...)}
}

// Usage marks an error as a usage error; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &codeError{ExitUsage, err}
}

// exits maps errors without a status to one; the first matching row decides.
var exits = []struct {
	code int
	fits func(error) bool
}{
	{ExitInfra, IsA[*autotune.PauseError]},
	{ExitTimeout, late},
	{ExitTimeout, IsA[*aot.TimeoutError]},
	{ExitInterrupted, is(context.Canceled)},
	{ExitNoEngine, IsA[*plugins.MissingError]},
	{ExitCostUnknown, verdict(measure.CostUnknown)},
	{exitInternal, verdict(measure.Internal)},
	{ExitRejected, verdict(measure.EmitError, measure.VMEM, measure.Crash)},
	{ExitRejected, IsA[*aot.RejectError]},
	{ExitRejected, IsA[*ptx.Error]},
	{ExitRejected, IsA[*aot.VMEMError]},
	{ExitRejected, IsA[*aot.CrashError]},
	{ExitRejected, IsA[*pjrt.CompileError]},
	{ExitRejected, IsA[*codegen.Error]},
	{ExitUsage, IsA[*aot.RequestError]},
	{ExitUsage, IsA[*autotune.ConfigError]},
	{ExitNoEngine, IsA[*aot.LoadError]},
	{ExitInfra, IsA[*aot.InfraError]},
	{ExitInfra, IsA[*journal.LockedError]},
	{ExitInfra, IsA[*bench.LockedError]},
	{ExitInfra, IsA[*machine.BusyError]},
	{ExitNoEngine, IsA[*gpu.NoDevice]},
	{ExitNumerics, IsA[*calibrate.MissError]},
	{ExitNoEngine, IsA[*device.OpenError]},
	{ExitNoEngine, IsA[*device.KindError]},
	{ExitTimeout, IsA[*device.TimeoutError]},
	{ExitInfra, IsA[*device.CrashError]},
	{ExitInfra, IsA[*device.RunError]},
	{ExitInfra, IsA[*selftest.LostError]},
	{ExitNoEngine, IsA[*bench.DeviceError]},
	{ExitNoEngine, IsA[*judge.DeviceError]},
	{ExitNoEngine, IsA[*worker.NoWorkerError]},
	{ExitUsage, is(remote.ErrPlace)},
	{ExitUsage, IsA[*loop.ConfigError]},
	{ExitInfra, IsA[*loop.LockedError]},
	{ExitInfra, IsA[*loop.PauseError]},
	{ExitInfra, IsA[*contest.ServerError]},
	{ExitInfra, IsA[*contest.TaskError]},
	{ExitUsage, IsA[*ladder.OtherError]},
	{ExitInfra, IsA[*ladder.LockedError]},
	{ExitRejected, IsA[*ladder.BaseError]},
	{ExitNoImprovement, IsA[*loop.FailuresError]},
	{ExitTimeout, IsA[*remote.LimitError]},
	{ExitInfra, IsA[*remote.PendingError]},
	{ExitInfra, IsA[*remote.UnreachableError]},
	{ExitInfra, IsA[*remote.NotStoppedError]},
	{ExitInfra, IsA[*remote.NoMachineError]},
	{ExitInfra, IsA[*remote.RayError]},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

// late reports whether the user's --timeout is over. It unwraps errors itself: network errors claim to be a
// context.DeadlineExceeded at each of their own limits.
func late(err error) bool {
	if err == context.DeadlineExceeded {
		return true
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		return late(x.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), late)
	}
	return false
}

// verdict matches measure's refusals with one of some verdicts.
func verdict(list ...measure.Verdict) func(error) bool {
	return func(err error) bool {
		var r *measure.Refusal
		return errors.As(err, &r) && slices.Contains(list, r.Verdict)
	}
}

func IsA[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

func ExitCode(err error) int {
	if e := (*codeError)(nil); errors.As(err, &e) {
		return e.code
	}
	for _, x := range exits {
		if x.fits(err) {
			return x.code
		}
	}
	if strings.HasPrefix(err.Error(), "unknown command") { // cobra's own, on the root command
		return ExitUsage
	}
	return ExitFailure
}

// Complain prints an error with advice.
func (a *App) Complain(err error, code int) {
	message := err.Error()
	switch {
	case code == ExitInterrupted:
		message = "interrupted"
	case code == ExitTimeout && late(err):
		message = fmt.Sprintf("not done within --timeout %v", a.Timeout)
	}
	fmt.Fprintf(a.Stderr, "%s %s\n", terminal.Paint(a.Stderr, terminal.Red, "gdngen:"), terminal.Lines(message))
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) {
		fmt.Fprintln(a.Stderr, "        `gdngen doctor` shows what this machine has and lacks")
	}
	if cure := cureOf(err); cure != "" {
		fmt.Fprintln(a.Stderr, "        "+cure)
	}
}

// cureOf returns advice about a missing file or run; "" for other errors.
func cureOf(err error) string {
	at := (*fs.PathError)(nil)
	switch none := (*journal.NoRunError)(nil); {
	case errors.As(err, &none):
		return "`gdngen search run --run " + none.Dir + "` begins one; a run is named by its folder"
	case errors.As(err, &at) && errors.Is(at, syscall.EISDIR):
		return at.Path + " is a folder: name a file"
	case errors.As(err, &at) && (errors.Is(at, syscall.ENOTDIR) || at.Op == "mkdir" && errors.Is(at, fs.ErrExist)):
		return at.Path + " is a file, or below one: name a folder"
	case at == nil || !errors.Is(at, fs.ErrNotExist):
		return ""
	case at.Op == "write":
		return "the folder " + filepath.Dir(at.Path) + " is not there: make it, or name another"
	default:
		return "paths start at the folder where the command runs: is " + at.Path + " misspelt?"
	}
}
