package measure

import (
	"fmt"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Ruler names the unit in which the cycles of programs are compared.
type Ruler string

// The rulers. Figures of different rulers can not be compared.
const (
	Wall       Ruler = "wall"       // in-order cycles of a schedule: issue, waits, transfers, copies around kernels
	Throughput Ruler = "throughput" // issue cycles and waits for matrix units, without waits for results and for HBM
)

// ParseRuler reads the name of a ruler; an empty name is Wall.
func ParseRuler(name string) (Ruler, error) {
	switch r := Ruler(name); r {
	case "":
		return Wall, nil
	case Wall, Throughput:
		return r, nil
	}
	return "", fmt.Errorf("unknown ruler %q (known: %s %s)", name, Wall, Throughput)
}

// On returns the ruler to use on a target: throughput if the target's latencies are unknown.
func (r Ruler) On(generation string) Ruler {
	if t, err := target.Lookup(generation); err != nil || t.Timing == nil {
		return Throughput
	}
	return r
}

// Cycles returns a schedule's cycles by the ruler on its target. Unknown in-order cycles are a *Refusal.
func (r Ruler) Cycles(x *llo.Report) (int64, error) {
	switch {
	case r.On(x.Target) == Throughput:
		return x.Cycles, nil
	case x.Wall.Unknown != "":
		return 0, &Refusal{Verdict: CostUnknown, Err: fmt.Errorf("the wall of the schedule is not known: %s", x.Wall.Unknown)}
	}
	return x.Wall.Cycles, nil
}

// Op returns the cycles of all calls of an op of a report, without the ops that it calls.
func (r Ruler) Op(x *llo.Report, op *llo.OpReport) int64 {
	if r.On(x.Target) == Wall && x.Wall.Unknown == "" {
		return op.Calls * op.Wall.Own
	}
	return op.Calls * op.Cycles
}

// Stage returns the cycles of a stage of a report.
func (r Ruler) Stage(x *llo.Report, s llo.Location) int64 {
	if r.On(x.Target) == Wall {
		return s.Cycles + s.Wait
	}
	return s.Cycles
}
