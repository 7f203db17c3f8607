package plan

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// arithmetic lists ops that make new numbers, other than moves.
var arithmetic = []ir.Op{ir.OpDot, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpNeg, ir.OpMax, ir.OpExp, ir.OpExp2, ir.OpLog2, ir.OpSelect, ir.OpOr, ir.OpAnd}

// Moves reports whether a segment makes no new numbers.
func (s *Segment) Moves() bool { return len(computed(s.Nodes)) == 0 }

// Multiplies reports whether a segment has matrix products.
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

// Work counts the work of a point of the grid in its largest step: floating-point operations of products, and elements of powers, roots
// and logarithms.
func (k *Plan) Work() (flops, powers int) {
	flops, powers = work(k.before)
	f, p := 0, 0
	for _, s := range k.Steps {
		if g, q := work(s.all); g+q > f+p {
			f, p = g, q
		}
	}
	return flops + f, powers + p
}

func work(instrs []*ir.Instr) (flops, powers int) {
	for _, in := range instrs {
		switch in.Op {
		case ir.OpDot:
			flops += 2 * in.Result().Type.Size() * in.Args[0].Type.Shape[in.Attrs.Dot.LC[0]]
		case ir.OpExp, ir.OpExp2, ir.OpLog, ir.OpLog2, ir.OpLog1p, ir.OpSqrt, ir.OpRsqrt, ir.OpTanh, ir.OpLogistic:
			powers += in.Result().Type.Size()
		}
		if in.Body != nil {
			f, p := work(in.Body.Instrs)
			rounds := max(1, in.Attrs.Count)
			flops, powers = flops+rounds*f, powers+rounds*p
		}
	}
	return flops, powers
}
