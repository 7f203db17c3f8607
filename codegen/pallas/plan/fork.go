package plan

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// lines are the nodes of a phase: what comes first, two lines of work side by side, and what comes after both.
type lines [4][]*loops.Node

const (
	LineFirst = iota
	LineMain
	LineSide
	LineAfter
)

// fork parts the nodes of a phase where its schedule has stages stand beside the rest. First comes what those stages need of the
// rest, and the loads that both read; last what needs the results of both.
func (k *Plan) fork(nodes []*loops.Node, stages []string) (out lines) {
	if !slices.ContainsFunc(nodes, func(n *loops.Node) bool { return slices.Contains(stages, n.Stage) }) {
		out[LineFirst] = nodes
		return out
	}
	needs := k.needs(nodes)
	line, light := map[*loops.Node]int{}, map[*loops.Node]bool{}
	var first func(n *loops.Node)
	first = func(n *loops.Node) {
		if _, ok := line[n]; !ok {
			line[n] = LineFirst
			for _, d := range needs[n] {
				first(d)
			}
		}
	}
	beside := func(n *loops.Node) bool { return slices.Contains(stages, n.Stage) }
	after := map[string]bool{}
	for _, n := range nodes {
		light[n] = lightOps[n.In.Op] && n.In.Body == nil && !slices.ContainsFunc(needs[n], func(d *loops.Node) bool { return !light[d] })
		for _, d := range needs[n] {
			switch {
			case beside(n) == beside(d):
			case beside(n) || light[d]:
				first(d)
			default:
				after[n.Stage] = true
			}
		}
	}
	for _, n := range nodes {
		_, ok := line[n]
		switch {
		case ok:
			if beside(n) { // not due later than what else reads it
				n.Stage, n.At = "load", nodes[0].At
			}
		case beside(n):
			line[n] = LineSide
		case after[n.Stage] || slices.ContainsFunc(needs[n], func(d *loops.Node) bool { return line[d] == LineAfter }):
			line[n] = LineAfter
		default:
			line[n] = LineMain
		}
		out[line[n]] = append(out[line[n]], n)
	}
	return out
}

// lightOps are loads and what is cheap to do with them.
var lightOps = map[ir.Op]bool{ir.OpLoad: true, ir.OpRefCast: true, ir.OpShl: true, ir.OpShr: true, ir.OpAnd: true, ir.OpBitcast: true,
	ir.OpConvert: true, ir.OpHalves: true, ir.OpSlice: true, ir.OpReshape: true, ir.OpBroadcast: true}

// needs lists the nodes that each node must come after: those that make its operands, and accesses to the same memory.
func (k *Plan) needs(nodes []*loops.Node) map[*loops.Node][]*loops.Node {
	maker := map[*loops.Item]*loops.Node{}
	root := map[*loops.Item]*loops.Item{}
	type access struct {
		node  *loops.Node
		store bool
	}
	accesses := map[*loops.Item][]access{}
	out := map[*loops.Node][]*loops.Node{}
	for _, n := range nodes {
		touched, stores := []*loops.Item{}, n.In.Op == ir.OpStore || n.In.Op == ir.OpDMAStart || n.In.Op == ir.OpDMAWait || n.In.Body != nil
		loops.EachRef(n, func(r *loops.Ref) {
			for x := r.Item; x != nil; x = x.In { // made itself, or with a list
				if m := maker[x]; m != nil {
					out[n] = append(out[n], m)
					break
				}
			}
			x := r.Item
			if y := root[x]; y != nil {
				x = y
			}
			if x.Param != 0 && !k.inputs[x] {
				touched = append(touched, x)
			}
		})
		for _, d := range n.Defs {
			maker[d] = n
		}
		if n.In.Op == ir.OpRefCast {
			if x := n.Args[0].Item; root[x] != nil {
				root[n.Defs[0]] = root[x]
			} else {
				root[n.Defs[0]] = x
			}
			continue
		}
		for _, x := range touched {
			for _, a := range accesses[x] {
				if stores || a.store {
					out[n] = append(out[n], a.node)
				}
			}
			accesses[x] = append(accesses[x], access{n, stores})
		}
	}
	return out
}

// RollPhases finds the loops of phases, whose stages beside the rest are lines of work of their own.
func (k *Plan) RollPhases(beside []string) {
	for _, ph := range k.Phases {
		ph.Lines = k.fork(loops.Fuse(loops.Copies(ph.Nodes)), beside)
		for i, l := range ph.Lines {
			if len(l) > 0 {
				ph.Lines[i] = loops.Arrange(l, k.inputs)
			}
		}
		ph.Nodes = slices.Concat(ph.Lines[:]...)
	}
	k.pool()
	for _, ph := range k.Phases {
		for i, l := range ph.Lines {
			if len(l) > 0 {
				ph.Lines[i] = loops.Roll(l)
			}
		}
		ph.Nodes = slices.Concat(ph.Lines[:]...)
	}
}
