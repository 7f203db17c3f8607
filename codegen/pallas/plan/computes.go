package plan

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// arithmetic are ops that make new numbers, beside which a stage moves some.
var arithmetic = []ir.Op{ir.OpDot, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpNeg, ir.OpMax, ir.OpExp, ir.OpExp2, ir.OpLog2, ir.OpSelect, ir.OpOr, ir.OpAnd}

// Moves says whether a segment makes no new numbers.
func (s *Segment) Moves() bool { return len(computed(s.Nodes)) == 0 }

// Multiplies says whether it has products of matrices.
func (s *Segment) Multiplies() bool { return computed(s.Nodes)[ir.OpDot] }

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
