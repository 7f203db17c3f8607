package plan

import (
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/windows"
	"github.com/gdngen/gdngen/ir"
)

// Begins is the condition that sets states in the second step, before the phase that is one step late takes them through the first chunks. Where it
// holds at the second step of each row, batch rows follow one another. It is nil where they can not: a kernel has more conditions, sets states in
// its first step, or has windows that are not of one row.
func (k *Plan) Begins() *loops.Node {
	if _, _, ok := windows.InLine(k.In.Attrs.Grid); !ok {
		return nil
	}
	var begins *loops.Node
	for _, n := range k.Prologue {
		if n.In == nil || n.In.Op != ir.OpWhen {
			continue
		}
		cond := n.In.Args[0].Def
		if begins != nil || cond.Op != ir.OpCompare || cond.Attrs.Cmp != ir.EQ || cond.Args[0].Def.Op != ir.OpProgramID || cond.Args[1].Def.Attrs.Value != 1 {
			return nil
		}
		begins = n
	}
	return begins
}
