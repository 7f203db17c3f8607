package plan

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// arithmetic are ops that make new numbers, beside which a stage moves some.
var arithmetic = []ir.Op{ir.OpDot, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpNeg, ir.OpMax, ir.OpExp, ir.OpExp2, ir.OpLog2, ir.OpSelect, ir.OpOr, ir.OpAnd}

// Computes are those of a segment.
func (s *Segment) Computes() map[ir.Op]bool { return computed(s.Nodes) }

func computed(nodes []*loops.Node) map[ir.Op]bool {
	all := map[ir.Op]bool{}
	for _, n := range nodes {
		switch {
		case n.Loop != nil:
			maps.Copy(all, computed(n.Loop.Body))
		case n.Call != "":
			all[ir.OpOr] = true
		case n.In != nil && slices.Contains(arithmetic, n.In.Op):
			all[n.In.Op] = true
		}
		maps.Copy(all, computed(n.Body))
	}
	return all
}
