package plan

import (
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/windows"
	"github.com/gdngen/gdngen/ir"
)

// InLine is how batch rows follow one another in a kernel.
type InLine struct {
	Begins  *loops.Node // the condition that sets states in the second step: it holds at the second step of each row
	In, Out []int       // how many steps late each window is
}

// InLine gives how batch rows follow one another: states are set before the phase that is one step late takes them through the first chunks of a row.
// It is nil where rows can not: a kernel has other conditions before its steps, sets states in its first step, has windows that are not of one row,
// or computes by the number of a point, which is then another.
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

// atSecond says whether a condition holds in the second step alone.
func atSecond(cond *ir.Instr) bool {
	if cond == nil || cond.Op != ir.OpCompare || cond.Attrs.Cmp != ir.EQ {
		return false
	}
	step, one := cond.Args[0].Def, cond.Args[1].Def
	return step != nil && step.Op == ir.OpProgramID && step.Attrs.Axis == 2 && one != nil && one.Op == ir.OpConst && one.Attrs.Value == 1
}

// computesByPoint says whether more than conditions of steps is made of the number of a point.
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
