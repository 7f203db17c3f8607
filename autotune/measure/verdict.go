package measure

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gdngen/gdngen/pjrt/aot"
)

// Verdict says why a program has no cost.
type Verdict string

// The verdicts. A search records them by the same words.
const (
	Invalid       Verdict = "invalid"        // the spec by the variant can not be built
	EmitError     Verdict = "emit-error"     // a backend refuses the program
	VMEM          Verdict = "vmem"           // needs more vector memory than the target has
	CompileReject Verdict = "compile-reject" // the compiler refuses it
	CostUnknown   Verdict = "cost-unknown"   // compiled, and the cost model can not read the schedule
	Timeout       Verdict = "timeout"        // the compile did not end in its time
	Crash         Verdict = "crash"          // the compiler died of it
	Internal      Verdict = "internal"       // a pass or a backend of this program panicked
)

// Refusal says what became of a program in place of a cost. It wraps what was said.
type Refusal struct {
	Verdict Verdict
	Err     error
	Log     string // all that the compiler said, or the stack of a panic; empty where Err has it all
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

// FromCompiler says whether the compiler gave the answer.
func (r *Refusal) FromCompiler() bool { return verdictOf(r.Err) != "" }

// refused makes a refusal; one that is in err stays as it is.
func refused(v Verdict, err error) error {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return err
	}
	return &Refusal{Verdict: v, Err: err}
}

// verdictOf tells what an error of the compiler says of the program; empty where it says nothing of it.
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

// ofCompiler makes a refusal of an error that tells something of the program; other errors stay as they are.
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

// Panicked makes a refusal of a recovered panic; it is called in the deferred function that recovers. Verified programs make no pass
// panic, so the fault is ours, not the candidate's.
func Panicked(doing string, p any) *Refusal {
	stack := string(debug.Stack())
	return &Refusal{Verdict: Internal, Err: fmt.Errorf("%s panics: %v%s", doing, p, panicSite(stack)), Log: stack}
}

// guard runs a step of ours and makes a refusal of its panic.
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
