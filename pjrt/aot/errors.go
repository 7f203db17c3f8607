package aot

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/pjrt/internal/libtpu"
)

// RejectError says that the compiler refused the program. Code is the PJRT (absl) status code, and Msg all that it said, which
// may hold the kernel; the text of the error is the cause alone.
type RejectError struct {
	Code int
	Msg  string
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("aot: the compiler refused the module (code %d): %s", e.Code, libtpu.Cause(e.Msg))
}

// VMEMError says that the program needs more vector memory than it may use. Size and Limit are in bytes, as
// precise as libtpu prints them (some wordings give two decimals of a unit), and 0 where it does not say.
type VMEMError struct {
	Size, Limit int64
	Msg         string
}

func (e *VMEMError) Error() string {
	return fmt.Sprintf("aot: out of VMEM: the module needs %d bytes of %d: %s", e.Size, e.Limit, e.Msg)
}

// CrashError says that the compiler killed its process on this request, twice if it had served others before. Exit
// is the exit status in words. Stderr is what the process printed during the request, its middle cut when long.
type CrashError struct {
	Exit, Stderr string
}

func (e *CrashError) Error() string {
	first, _, _ := strings.Cut(e.Stderr, "\n")
	return fmt.Sprintf("aot: the compiler crashed on the module (%s): %s", e.Exit, first)
}

// TimeoutError says that the compile did not end within Limit. The worker was stopped.
type TimeoutError struct {
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("aot: the compile did not end within %v", e.Limit)
}

// Timeout reports true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// MemoryError says that the worker needed more than Limit bytes of memory for the compile. It was stopped.
type MemoryError struct {
	Limit int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("aot: the compiler needs more than %d MiB for the module", e.Limit>>20)
}

// RequestError says that a field of the request is wrong whatever the module: the caller's mistake, not a verdict on
// a program.
type RequestError struct {
	Field, Msg string
}

func (e *RequestError) Error() string { return fmt.Sprintf("aot: bad request: %s: %s", e.Field, e.Msg) }

// InfraError says that no verdict could be reached: the worker does not start, libtpu is missing, a disk is full.
// The same request may succeed later.
type InfraError struct {
	Op  string
	Err error
}

func (e *InfraError) Error() string { return fmt.Sprintf("aot: can not %s: %v", e.Op, e.Err) }
func (e *InfraError) Unwrap() error { return e.Err }

// LoadError says why a file can not be loaded as a plugin. It is in an InfraError.
type LoadError struct{ Msg string }

func (e *LoadError) Error() string { return e.Msg }

// Stages at which a worker can fail.
const (
	stageLoad     = "load"
	stageTopology = "topology"
	stageCompile  = "compile"
	stageQuery    = "query"
	stageDump     = "dump"
)

// judge turns a worker's answer into a result or a typed error.
func (a *reply) judge() (*Result, error) {
	switch a.Stage {
	case "":
		return a.Result, nil
	case stageTopology:
		return nil, &RequestError{Field: "Topology", Msg: a.Msg}
	case stageCompile:
		return nil, refusal(a.Code, a.Msg)
	default:
		return nil, &InfraError{Op: a.Stage, Err: fmt.Errorf("code %d: %s", a.Code, a.Msg)}
	}
}

var (
	// Three wordings: the sum of scratch and windows over the scoped limit, over the memory, one buffer over the memory.
	vmemSizes = regexp.MustCompile(`(?:with size |Used |\(size=)([0-9.]+[BKMGT]?)(?: and limit | of |\) would exceed memory \(size=)([0-9.]+[BKMGT]?)`)
	vmemSpace = regexp.MustCompile(`E1001|scoped vmem limit|memory space vmem|space=vmem`)
	badFlag   = regexp.MustCompile(`^No such compile option|^Failed to parse '.*' into flag`)
)

// refusal tells a program that is too large for VMEM, and flags that libtpu does not have, from a wrong program.
func refusal(code int, msg string) error {
	if badFlag.MatchString(msg) {
		return &RequestError{Field: "Flags", Msg: strings.TrimRight(msg, ": ")}
	}
	if !vmemSpace.MatchString(msg) {
		return &RejectError{Code: code, Msg: msg}
	}
	e := &VMEMError{Msg: msg}
	if m := vmemSizes.FindStringSubmatch(msg); m != nil {
		e.Size, e.Limit = parseBytes(m[1]), parseBytes(m[2])
	}
	return e
}

// unknownFlag is the flag that libtpu says it does not have; empty where the error is another.
func unknownFlag(err error) string {
	if bad := (*RequestError)(nil); errors.As(err, &bad) && bad.Field == "Flags" {
		return libtpu.UnknownOption(bad.Msg)
	}
	return ""
}

// parseBytes reads libtpu's sizes: 372.0K, 16.36M, 512B; 0 when s is none.
func parseBytes(s string) int64 {
	unit := 1.0
	if i := strings.IndexByte("BKMGT", s[len(s)-1]); i >= 0 {
		unit, s = float64(int64(1)<<(10*i)), s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return int64(v*unit + 0.5)
}

// diskTrouble returns libtpu's words when it died because it could not write a dump, and "" otherwise.
func diskTrouble(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "WriteStringToFile") || strings.Contains(line, "No space left on device") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
