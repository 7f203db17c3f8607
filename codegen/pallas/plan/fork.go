package plan

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// fork splits the nodes of a phase for stages on the side (Sched.Side) into four lists. They are: nodes that the side stages need, and
// loads that both read, which would be late as part of a side stage; the rest; the side stages; and nodes that need results of both.
func (k *Plan) fork(nodes []*loops.Node, stages []string) (out [4][]*loops.Node) {
	const first, rest, side, after = 0, 1, 2, 3
	beside := func(n *loops.Node) bool { return slices.Contains(stages, n.Stage) }
	if !slices.ContainsFunc(nodes, beside) {
		out[first] = nodes
		return out
	}
	needs := k.needs(nodes)
	place, light := map[*loops.Node]int{}, map[*loops.Node]bool{}
	var early func(n *loops.Node)
	early = func(n *loops.Node) {
		if _, ok := place[n]; !ok {
			place[n] = first
			for _, d := range needs[n] {
				early(d)
			}
		}
	}
	joins := map[string]bool{} // stages that need results of the side stages
	for _, n := range nodes {
		light[n] = lightOps[n.In.Op] && n.In.Body == nil && !slices.ContainsFunc(needs[n], func(d *loops.Node) bool { return !light[d] })
		for _, d := range needs[n] {
			switch {
			case beside(n) == beside(d):
			case beside(n) || light[d]:
				early(d)
			default:
				joins[n.Stage] = true
			}
		}
	}
	for _, n := range nodes {
		_, ok := place[n]
		switch {
		case ok:
			if beside(n) {
				n.Stage = "load"
			}
		case beside(n):
			place[n] = side
		case joins[n.Stage] || slices.ContainsFunc(needs[n], func(d *loops.Node) bool { return place[d] == after }):
			place[n] = after
		default:
			place[n] = rest
		}
		out[place[n]] = append(out[place[n]], n)
	}
	return out
}

// lightOps are loads and cheap work on them.
var lightOps = map[ir.Op]bool{ir.OpLoad: true, ir.OpRefCast: true, ir.OpShl: true, ir.OpShr: true, ir.OpAnd: true, ir.OpBitcast: true,
	ir.OpConvert: true, ir.OpHalves: true, ir.OpSlice: true, ir.OpReshape: true, ir.OpBroadcast: true}

// needs returns the nodes that each node must follow: definitions of its operands, and accesses to the same memory.
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
