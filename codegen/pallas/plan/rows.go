package plan

import (
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/windows"
	"github.com/gdngen/gdngen/ir"
)

// InLine is how batch rows run back to back in a kernel.
type InLine struct {
	Begins  *loops.Node // the condition that sets states in the second step; it must hold at the second step of each row
	In, Out []int       // how many steps late each window is
}

// InLine returns how batch rows run back to back: states are set before the phase that is one step late takes them through the first
// chunks of a row. It is nil if the kernel has other conditions before its steps, sets states in its first step, has windows that do not
// follow a row, or computes with the number of a point, which would change.
func (k *Plan) InLine() *InLine {
	in, out, ok := windows.InLine(k.In.Attrs.Grid)
	if !ok || k.computesByPoint() {
		return nil
	}
	var begins *loops.Node
	for _, n := range k.Prologue {
		if n.In == nil || n.In.Op != ir.OpWhen {
			continue
		}
		if begins != nil || !atSecond(n.In.Args[0].Def) {
			return nil
		}
		begins = n
	}
	if begins == nil {
		return nil
	}
	return &InLine{begins, in, out}
}

// atSecond reports whether a condition holds only in the second step.
func atSecond(cond *ir.Instr) bool {
	if cond == nil || cond.Op != ir.OpCompare || cond.Attrs.Cmp != ir.EQ {
		return false
	}
	step, one := cond.Args[0].Def, cond.Args[1].Def
	return step != nil && step.Op == ir.OpProgramID && step.Attrs.Axis == 2 && one != nil && one.Op == ir.OpConst && one.Attrs.Value == 1
}

// computesByPoint reports whether the number of a point is used for more than conditions on steps.
func (k *Plan) computesByPoint() bool {
	found := false
	k.In.Body.Walk(func(in *ir.Instr) {
		for _, x := range in.Args {
			if x.Def != nil && x.Def.Op == ir.OpProgramID {
				found = found || x.Def.Attrs.Axis != 2 || in.Op != ir.OpCompare && in.Op != ir.OpAnd // an and with 1 asks whether a number is odd
			}
		}
	})
	return found
}
