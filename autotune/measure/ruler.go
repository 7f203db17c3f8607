package measure

import (
	"fmt"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// Ruler is what the cycles of a program are counted by, so that programs are ranked.
type Ruler string

// The rulers. A figure of one compares with no figure of the other.
const (
	Wall       Ruler = "wall"       // all that a schedule takes in order: issue, waits, transfers, copies around kernels
	Throughput Ruler = "throughput" // what the schedule issues, and waits for matrix units; waits for results and for main memory are not in it
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

// On is the ruler on a target: throughput where the latencies of the target are not known.
func (r Ruler) On(generation string) Ruler {
	if t, err := target.Lookup(generation); err != nil || t.Timing == nil {
		return Throughput
	}
	return r
}

// Cycles counts a schedule by the ruler on its target. A wall that is not known is a *Refusal.
func (r Ruler) Cycles(x *llo.Report) (int64, error) {
	switch {
	case r.On(x.Target) == Throughput:
		return x.Cycles, nil
	case x.Wall.Unknown != "":
		return 0, &Refusal{Verdict: CostUnknown, Err: fmt.Errorf("the wall of the schedule is not known: %s", x.Wall.Unknown)}
	}
	return x.Wall.Cycles, nil
}

// Op counts all calls of an op of a report, what it calls left out.
func (r Ruler) Op(x *llo.Report, op *llo.OpReport) int64 {
	if r.On(x.Target) == Wall && x.Wall.Unknown == "" {
		return op.Calls * op.Wall.Own
	}
	return op.Calls * op.Cycles
}

// Stage counts a stage of a report.
func (r Ruler) Stage(x *llo.Report, s llo.Location) int64 {
	if r.On(x.Target) == Wall {
		return s.Cycles + s.Wait
	}
	return s.Cycles
}
