package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/autotune/bench"
	"github.com/gdngen/gdngen/autotune/contest"
	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/worker"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gpu"
	"github.com/gdngen/gdngen/gpu/front"
	"github.com/gdngen/gdngen/gpu/ptx"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ladder"
	"github.com/gdngen/gdngen/loop"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/device"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
	"github.com/gdngen/gdngen/remote"
	"github.com/gdngen/gdngen/selftest"
)

// The exit statuses.
const (
	exitOK            = 0
	exitFailure       = 1
	exitUsage         = 2
	exitNumerics      = 3
	exitRejected      = 4
	exitRegression    = 5
	exitNoEngine      = 6
	exitInfra         = 7
	exitNoImprovement = 8
	exitCostUnknown   = 9
	exitInternal      = 10
	exitTimeout       = 124
	exitInterrupted   = 130
)

const exitHelp = `Exit status:
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

// codeError is an error with the exit status that it asks for.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// failed makes an error with an exit status.
func failed(code int, format string, args ...any) error {
	return &codeError{code, fmt.Errorf(format, args...)}
}

// usage marks an error as the fault of the command line; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &codeError{exitUsage, err}
}

// exits tells the exit status of errors that carry none, the first row that fits deciding.
var exits = []struct {
	code int
	fits func(error) bool
}{
	{exitInfra, isA[*autotune.PauseError]},
	{exitTimeout, is(context.DeadlineExceeded)},
	{exitTimeout, isA[*aot.TimeoutError]},
	{exitInterrupted, is(context.Canceled)},
	{exitNoEngine, isA[*plugins.MissingError]},
	{exitCostUnknown, verdict(measure.CostUnknown)},
	{exitInternal, verdict(measure.Internal)},
	{exitRejected, verdict(measure.EmitError, measure.VMEM, measure.Crash)},
	{exitRejected, isA[*aot.RejectError]},
	{exitRejected, isA[*ptx.Error]},
	{exitRejected, isA[*aot.VMEMError]},
	{exitRejected, isA[*aot.CrashError]},
	{exitRejected, isA[*pjrt.CompileError]},
	{exitRejected, isA[*codegen.Error]},
	{exitUsage, isA[*aot.RequestError]},
	{exitUsage, isA[*autotune.ConfigError]},
	{exitNoEngine, isA[*aot.LoadError]},
	{exitInfra, isA[*aot.InfraError]},
	{exitInfra, isA[*journal.LockedError]},
	{exitInfra, isA[*bench.LockedError]},
	{exitInfra, isA[*machine.BusyError]},
	{exitNoEngine, isA[*gpu.NoDevice]},
	{exitNumerics, isA[*front.MissError]},
	{exitNoEngine, isA[*device.OpenError]},
	{exitNoEngine, isA[*device.KindError]},
	{exitTimeout, isA[*device.TimeoutError]},
	{exitInfra, isA[*device.CrashError]},
	{exitInfra, isA[*device.RunError]},
	{exitInfra, isA[*selftest.LostError]},
	{exitNoEngine, isA[*bench.DeviceError]},
	{exitNoEngine, isA[*autotune.DeviceError]},
	{exitNoEngine, isA[*worker.NoWorkerError]},
	{exitUsage, is(remote.ErrPlace)},
	{exitUsage, isA[*loop.ConfigError]},
	{exitInfra, isA[*loop.LockedError]},
	{exitInfra, isA[*loop.PauseError]},
	{exitInfra, isA[*contest.ServerError]},
	{exitInfra, isA[*contest.TaskError]},
	{exitUsage, isA[*ladder.OtherError]},
	{exitInfra, isA[*ladder.LockedError]},
	{exitRejected, isA[*ladder.BaseError]},
	{exitNoImprovement, isA[*loop.FailuresError]},
	{exitTimeout, isA[*remote.LimitError]},
	{exitInfra, isA[*remote.PendingError]},
	{exitInfra, isA[*remote.UnreachableError]},
	{exitInfra, isA[*remote.NotStoppedError]},
	{exitInfra, isA[*remote.NoMachineError]},
	{exitInfra, isA[*remote.RayError]},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

// verdict finds what was measured and has one of some verdicts.
func verdict(list ...measure.Verdict) func(error) bool {
	return func(err error) bool {
		var r *measure.Refusal
		return errors.As(err, &r) && slices.Contains(list, r.Verdict)
	}
}

func isA[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

func exitCode(err error) int {
	if e := (*codeError)(nil); errors.As(err, &e) {
		return e.code
	}
	for _, x := range exits {
		if x.fits(err) {
			return x.code
		}
	}
	if strings.HasPrefix(err.Error(), "unknown command") { // cobra's own, on the root command
		return exitUsage
	}
	return exitFailure
}

// complain prints an error with what helps next.
func (a *app) complain(err error, code int) {
	message := err.Error()
	switch {
	case code == exitInterrupted:
		message = "interrupted"
	case code == exitTimeout && errors.Is(err, context.DeadlineExceeded):
		message = fmt.Sprintf("not done within --timeout %v", a.timeout)
	}
	fmt.Fprintf(a.stderr, "%s %s\n", terminal.Paint(a.stderr, terminal.Red, "gdngen:"), message)
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) {
		fmt.Fprintln(a.stderr, "        `gdngen doctor` shows what this machine has and lacks")
	}
}
