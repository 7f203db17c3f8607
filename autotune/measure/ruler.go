package measure

import (
	"fmt"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// CyclesBy returns a schedule's cycles by a ruler on its target. Unknown in-order cycles are a *Refusal.
func CyclesBy(r ruler.Ruler, x *llo.Report) (int64, error) {
	switch {
	case r.On(x.Target) == ruler.Issue:
		return x.Cycles, nil
	case x.Wall.Unknown != "":
		return 0, &Refusal{Verdict: CostUnknown, Err: fmt.Errorf("the in-order cycles of the schedule are not known: %s", x.Wall.Unknown)}
	}
	return x.Wall.Cycles, nil
}

// OpBy returns the cycles of all calls of an op of a report, without the ops that it calls.
func OpBy(r ruler.Ruler, x *llo.Report, op *llo.OpReport) int64 {
	if r.On(x.Target) == ruler.InOrder && x.Wall.Unknown == "" {
		return op.Calls * op.Wall.Own
	}
	return op.Calls * op.Cycles
}

// StageBy returns the cycles of a stage of a report.
func StageBy(r ruler.Ruler, x *llo.Report, s llo.Location) int64 {
	if r.On(x.Target) == ruler.InOrder {
		return s.Cycles + s.Wait
	}
	return s.Cycles
}
