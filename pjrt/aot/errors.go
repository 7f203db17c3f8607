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

// RejectError says that the compiler refused the program. Code is the PJRT (absl) status code. Msg is the whole message, which may
// contain the kernel; the error's text is only the cause.
type RejectError struct {
	Code int
	Msg  string
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("aot: the compiler refused the module (code %d): %s", e.Code, libtpu.Cause(e.Msg))
}

// VMEMError says that the program needs more VMEM than its limit. Size and Limit are in bytes, as precise as libtpu prints them
// (sometimes two decimals of a unit), and 0 if it does not.
type VMEMError struct {
	Size, Limit int64
	Msg         string
}

func (e *VMEMError) Error() string {
	return fmt.Sprintf("aot: out of VMEM: the module needs %d bytes of %d: %s", e.Size, e.Limit, e.Msg)
}

// CrashError says that the compiler crashed its process on this request; twice, if the process had served other requests. Exit is the
// exit status in words. Stderr is the process's output during the request, its middle cut if long.
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

// MemoryError says that the worker exceeded Limit bytes of memory during the compile, and was stopped.
type MemoryError struct {
	Limit int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("aot: the compiler needs more than %d MiB for the module", e.Limit>>20)
}

// RequestError says that a field of the request is invalid for any module: the caller's mistake.
type RequestError struct {
	Field, Msg string
}

func (e *RequestError) Error() string { return fmt.Sprintf("aot: bad request: %s: %s", e.Field, e.Msg) }

// InfraError says that the program could not be judged: the worker does not start, libtpu is missing, a disk is full. The same request
// may succeed later.
type InfraError struct {
	Op  string
	Err error
}

func (e *InfraError) Error() string { return fmt.Sprintf("aot: can not %s: %v", e.Op, e.Err) }
func (e *InfraError) Unwrap() error { return e.Err }

// LoadError says why a file can not be loaded as a plugin. An InfraError wraps it.
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

// judge converts a worker's reply to a result or a typed error.
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
	// Three wordings: scratch and windows above the scoped limit, or above the memory; one buffer above the memory.
	vmemSizes = regexp.MustCompile(`(?:with size |Used |\(size=)([0-9.]+[BKMGT]?)(?: and limit | of |\) would exceed memory \(size=)([0-9.]+[BKMGT]?)`)
	vmemSpace = regexp.MustCompile(`E1001|scoped vmem limit|memory space vmem|space=vmem`)
	badFlag   = regexp.MustCompile(`^No such compile option|^Failed to parse '.*' into flag`)
)

// refusal converts a compiler's refusal: too much VMEM, an unknown flag, or else a wrong program.
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

// unknownFlag returns the flag that libtpu reports as unknown; "" for other errors.
func unknownFlag(err error) string {
	if bad := (*RequestError)(nil); errors.As(err, &bad) && bad.Field == "Flags" {
		return libtpu.UnknownOption(bad.Msg)
	}
	return ""
}

// parseBytes parses libtpu's sizes: 372.0K, 16.36M, 512B; 0 if s is none.
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

// diskTrouble returns libtpu's message if it died because it could not write a dump; else "".
func diskTrouble(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "WriteStringToFile") || strings.Contains(line, "No space left on device") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
