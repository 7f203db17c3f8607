package pipeline

import (
	"fmt"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// rows is how batch rows follow one another in a kernel: after as many chunks the state is set again, as that of the next row. Phases go on meanwhile: while the
// state goes through the last chunks of a row, the first phase has the first chunks of the next.
//
// Two rows of two chunks each, lags 0 and 1:
//
//	step      0       1       2       3       4
//	phase 0   row 0   row 0   row 1   row 1
//	state             row 0   row 0   row 1   row 1
//	set               row 0           row 1
//
// Windows of states show a row to all of its chunks (ir.Index.Every), with the delay of the state's phase: the compiler fetches the next row's first state
// and writes the last one's final state beside the work.
type rows struct {
	every  int // chunks of a row; 0: states are set once
	behind int // the delay of the state's phase
}

// begin says whether a condition holds at the first chunk of each row, and notes how many these are.
func (r *rows) begin(cond *ir.Value, seq int) bool {
	n := tiles.BeginsOf(cond, seq)
	if n > 0 {
		r.every = n
	}
	return n > 0
}

// find finds the delay of the state's phase. A step that had chunks of two rows in it would need two windows of states, so rows are whole steps, and so is the
// lag of the phase.
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
