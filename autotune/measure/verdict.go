package measure

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gdngen/gdngen/pjrt/aot"
)

// Verdict is the kind of reason why a program has no cost.
type Verdict string

// The verdicts. A search records the same words.
const (
	Invalid       Verdict = "invalid"        // the spec with the variant can not be built
	EmitError     Verdict = "emit-error"     // a backend refuses the program
	VMEM          Verdict = "vmem"           // needs more VMEM than the target has
	CompileReject Verdict = "compile-reject" // the compiler refuses it
	CostUnknown   Verdict = "cost-unknown"   // compiled, and the cost model can not read the schedule
	Timeout       Verdict = "timeout"        // the compile exceeded its time limit
	Crash         Verdict = "crash"          // the compiler crashed
	Internal      Verdict = "internal"       // a pass or a backend of gdngen panicked
)

// Refusal says why a program has no cost. It wraps the compiler's or gdngen's error.
type Refusal struct {
	Verdict Verdict
	Err     error
	Log     string // the compiler's full output, or the stack of a panic; empty if Err has it all
}

func (r *Refusal) Error() string {
	switch r.Verdict {
	case CostUnknown:
		return "compiled, but its cost is unknown: " + r.Err.Error()
	case Internal:
		return "internal fault, please report it: " + r.Err.Error()
	}
	return r.Err.Error()
}

func (r *Refusal) Unwrap() error { return r.Err }

// FromCompiler reports whether the compiler refused.
func (r *Refusal) FromCompiler() bool { return verdictOf(r.Err) != "" }

// refused returns a *Refusal; a *Refusal within err stays as it is.
func refused(v Verdict, err error) error {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return err
	}
	return &Refusal{Verdict: v, Err: err}
}

// verdictOf returns the verdict that a compiler's error implies; empty if the error is not about the program.
func verdictOf(err error) Verdict {
	for _, row := range []struct {
		is      func(error) bool
		verdict Verdict
	}{
		{is[*aot.RejectError], CompileReject},
		{is[*aot.VMEMError], VMEM},
		{is[*aot.TimeoutError], Timeout},
		{is[*aot.CrashError], Crash},
		{is[*aot.MemoryError], Crash},
	} {
		if row.is(err) {
			return row.verdict
		}
	}
	return ""
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// ofCompiler turns a compiler's error about the program into a *Refusal; other errors stay as they are.
func ofCompiler(err error) error {
	v := verdictOf(err)
	if v == "" {
		return err
	}
	r := &Refusal{Verdict: v, Err: err}
	if crash := (*aot.CrashError)(nil); errors.As(err, &crash) {
		r.Log = crash.Stderr
	}
	if refused := (*aot.RejectError)(nil); errors.As(err, &refused) && !strings.Contains(err.Error(), refused.Msg) {
		r.Log = refused.Msg
	}
	return r
}

// Panicked turns a recovered panic into a *Refusal; call it in the deferred function that recovers. Verified programs
// must not make a pass panic, so the fault is gdngen's, not the candidate's.
func Panicked(doing string, p any) *Refusal {
	stack := string(debug.Stack())
	return &Refusal{Verdict: Internal, Err: fmt.Errorf("%s panics: %v%s", doing, p, panicSite(stack)), Log: stack}
}

// guard runs step and turns a panic into a *Refusal.
func guard(doing string, step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(doing, p)
		}
	}()
	return step()
}

// panicSite finds the function that panicked in a stack.
func panicSite(stack string) string {
	_, after, _ := strings.Cut(stack, "panic(")
	lines := strings.Split(after, "\n")
	for i := 2; i+1 < len(lines); i += 2 {
		name, _, ok := strings.Cut(lines[i], "(")
		if ok && !strings.HasPrefix(name, "runtime.") {
			return " in " + name[strings.LastIndexByte(name, '/')+1:]
		}
	}
	return ""
}
