package pjrt

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/pjrt/internal/libtpu"
)

// TimeOptions says how often Time runs a program. The zero value means 2 warm-ups and 10 trials.
type TimeOptions struct {
	Warmup int // runs before the first timed one
	Trials int // timed runs
}

func (o TimeOptions) withDefaults() (TimeOptions, error) {
	if o.Warmup < 0 || o.Trials < 0 {
		return o, fmt.Errorf("pjrt: warm-up %d and trials %d must not be negative", o.Warmup, o.Trials)
	}
	if o == (TimeOptions{}) {
		o.Warmup = 2
	}
	if o.Trials == 0 {
		o.Trials = 10
	}
	return o, nil
}

// Timing is the wall-clock time of the trials, from the call to the end of the execution. Copies of arguments to the device and of
// results from it are not included.
type Timing struct {
	Min, Median time.Duration
	All         []time.Duration // in the order of the runs
}

func summarize(all []time.Duration) Timing {
	s := slices.Sorted(slices.Values(all))
	n := len(s)
	return Timing{Min: s[0], Median: (s[(n-1)/2] + s[n/2]) / 2, All: all}
}

// CompileError says that the compiler refused a program.
type CompileError struct {
	Code    int    // PJRT error code, 3 for a bad program; 0 if not known
	Message string // the compiler's message
}

func (e *CompileError) Error() string {
	return "the compiler refused the program: " + libtpu.Cause(e.Message)
}

var pjrtError = regexp.MustCompile(`(?s)^.*?PJRT error \(code=(\d+)\): (.*)$`)

// splitError separates the code of a PJRT error from its message.
func splitError(err error) (code int, message string) {
	m := pjrtError.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, err.Error()
	}
	code, _ = strconv.Atoi(m[1])
	return code, strings.TrimSpace(m[2])
}
