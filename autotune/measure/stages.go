package measure

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/pjrt/llo"
)

// The compiler keeps the locations of a kernel if its grid is a loop over separate bodies, as overlapping phases are. It drops the locations
// of other kernels, and of ops that XLA makes itself. Cycles without a stage count for their op, so that all cycles are listed.

// Stage returns the stage of the algorithm from a location stage.chunk.head of a generated kernel; empty if the
// location names none: the compiler puts ops without a location in the file "-".
func Stage(place string) string {
	stage, _, _ := strings.Cut(place, ".")
	return strings.TrimPrefix(stage, "-")
}

// topLevel is the location of cycles between the program's ops.
const topLevel = "(top level)"

// OpStage returns the stage at a location of an op. If the location names none, it is the op in brackets, without XLA's
// number. Locations of a foreign program are its source files.
func (p *Program) OpStage(op, place string) string {
	if !p.IsForeign() {
		place = Stage(place)
	}
	if place == "" || place == "-" {
		name, _, _ := strings.Cut(op, ".")
		return "(" + name + ")"
	}
	return place
}

// Stages sums the cycles of a report by stage, and the waits that in-order issue adds to each. Both columns add up to
// the report's totals; if in-order cycles are unknown, the waits are zero. The largest stages come first.
func (p *Program) Stages(r *llo.Report) []llo.Location {
	sums := map[string]*llo.Location{}
	add := func(stage string, cycles, wait, instructions int64) {
		if sums[stage] == nil {
			sums[stage] = &llo.Location{File: stage}
		}
		s := sums[stage]
		s.Cycles, s.Wait, s.Instructions = s.Cycles+cycles, s.Wait+wait, s.Instructions+instructions
	}
	known := int64(1)
	if r.Wall.Unknown != "" {
		known = 0
	}
	for _, op := range r.Ops {
		left, wait := op.Calls*op.Cycles, known*op.Calls*(op.Wall.Own-op.Cycles)
		for _, l := range op.Locations {
			w := known * op.Calls * l.Wait
			add(p.OpStage(op.Name, l.File), op.Calls*l.Cycles, w, op.Calls*l.Instructions)
			left, wait = left-op.Calls*l.Cycles, wait-w
		}
		add(p.OpStage(op.Name, ""), left, wait, 0)
	}
	add(topLevel, r.TopLevel, known*(r.Wall.Own-r.TopLevel), 0)
	var list []llo.Location
	for _, s := range sums {
		if s.Cycles > 0 || s.Wait != 0 || s.Instructions > 0 {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(x, y llo.Location) int {
		return cmp.Or(cmp.Compare(y.Cycles+y.Wait, x.Cycles+x.Wait), strings.Compare(x.File, y.File))
	})
	return list
}

// Kernels returns the names of the kernels that the backend makes; nil for a foreign program.
func (p *Program) Kernels() (names []string) {
	if p.Lowered == nil {
		return nil
	}
	p.Lowered.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel && !slices.Contains(names, in.Attrs.Grid.Name) {
			names = append(names, in.Attrs.Grid.Name)
		}
	})
	return names
}

// InKernels returns the cycles of a report inside of kernels. XLA adds a dot and a number to the name of a kernel that it calls again.
func (p *Program) InKernels(r *llo.Report, by ruler.Ruler) (cycles int64) {
	kernels := p.Kernels()
	for _, op := range r.Ops {
		plain := strings.TrimSuffix(strings.TrimRight(op.Name, "0123456789"), ".")
		if slices.Contains(kernels, op.Name) || slices.Contains(kernels, plain) {
			cycles += OpBy(by, r, &op)
		}
	}
	return cycles
}
