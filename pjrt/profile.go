package pjrt

import (
	"fmt"
	"time"

	"github.com/gdngen/gdngen/ir/array"
)

// Piece is a program of a step, with the arguments that it runs on.
type Piece struct {
	Program *Program
	Times   int // executions in a step
	Args    []*array.Array
}

// ProfileOptions say which steps run, and which of them are profiled.
type ProfileOptions struct {
	Steps int // that run
	Start int // the first that is profiled
	Count int // how many are
	Batch int // how often a step runs its pieces
}

// Check says what is wrong with the options.
func (o ProfileOptions) Check() error {
	if o.Steps < 1 || o.Batch < 1 || o.Count < 1 || o.Start < 0 || o.Start+o.Count > o.Steps {
		return fmt.Errorf("profile of steps %d to %d, of %d steps that run %d times: want at least one of each, and those profiled among those that run", o.Start, o.Start+o.Count, o.Steps, o.Batch)
	}
	return nil
}

// Profile is what each piece of each step took on the host, and a serialised XSpace of what the profiler saw.
type Profile struct {
	Steps [][]time.Duration
	Space []byte
}

// NoProfilerError says that a plugin can not profile.
type NoProfilerError struct{ Reason string }

func (e *NoProfilerError) Error() string { return e.Reason }
