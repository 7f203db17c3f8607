package pipeline

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// rows describes back-to-back batch rows in a kernel: after each `every` chunks the state is set again, for the next row. The phases do
// not stop: while the state's phase has the last chunks of a row, the first phase has the first chunks of the next.
//
// Two rows of two chunks each, lags 0 and 1:
//
//	step      0       1       2       3       4
//	phase 0   row 0   row 0   row 1   row 1
//	state             row 0   row 0   row 1   row 1
//	set               row 0           row 1
//
// A window of states shows one row for all of its chunks (ir.Index.Every), with the delay of the state's phase. So the compiler fetches
// the next row's initial state, and writes the last row's final state, during the work.
type rows struct {
	every  int // chunks of a row; 0: states are set only once
	behind int // the delay of the state's phase
}

// begin reports whether a condition holds at the first chunk of each row, and records the chunks per row.
func (r *rows) begin(cond *ir.Value, seq int) bool {
	n := tiles.BeginsOf(cond, seq)
	if n > 0 {
		r.every = n
	}
	return n > 0
}

// find sets the delay of the state's phase. A step with chunks of two rows would need two windows of states. So it errs unless rows and
// the lag of the phase are whole steps.
func (r *rows) find(s *ir.Sched) error {
	if r.every == 0 {
		return nil
	}
	lag := s.Lags[s.State()]
	if lag%s.Steps != 0 || r.every%s.Steps != 0 {
		return fmt.Errorf("rows of %d chunks follow one another in steps of %d, whose state is %d chunks behind: rows and lag must be whole steps", r.every, s.Steps, lag)
	}
	r.behind = lag / s.Steps
	return nil
}
