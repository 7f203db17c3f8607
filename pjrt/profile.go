package pjrt

import (
	"fmt"
	"time"

	"github.com/gdngen/gdngen/ir/array"
)

// Piece is a program of a step, with its arguments.
type Piece struct {
	Program *Program
	Times   int // executions in a step
	Args    []*array.Array
}

// ProfileOptions says how many steps run, and which of them are profiled.
type ProfileOptions struct {
	Steps int // steps that run
	Start int // the first profiled step
	Count int // number of profiled steps
	Batch int // how often a step runs its pieces
}

// Check returns an error for invalid options.
func (o ProfileOptions) Check() error {
	if o.Steps < 1 || o.Batch < 1 || o.Count < 1 || o.Start < 0 || o.Start+o.Count > o.Steps {
		return fmt.Errorf("profile of steps %d to %d, of %d steps that run %d times: want at least one of each, and those profiled among those that run", o.Start, o.Start+o.Count, o.Steps, o.Batch)
	}
	return nil
}

// Profile has the host time of each piece in each step, and the profiler's serialised XSpace.
type Profile struct {
	Steps [][]time.Duration
	Space []byte
}

// NoProfilerError says that a plugin can not profile.
type NoProfilerError struct{ Reason string }

func (e *NoProfilerError) Error() string { return e.Reason }
