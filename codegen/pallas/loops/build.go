package loops

import (
	"maps"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
)

// ToNodes makes nodes of instructions, and adds their items to of; tasks are the places of instructions. Constants have no node: they
// are inlined. Neither have casts of references, which are made again for each user, since no list can hold them.
func ToNodes(instrs []*ir.Instr, of map[*ir.Value]*Item, tasks map[*ir.Instr]tpu.Place) []*Node {
	var out []*Node
	for _, in := range instrs {
		if in.Op == ir.OpConst || in.Op == ir.OpRefCast {
			continue
		}
		n := &Node{In: in, Stage: in.Task.Stage, Head: Number(in.Task.Head), Ints: bodyInts(in)}
		if t, ok := tasks[in]; ok {
			if t.Task.Stage != n.Stage && n.Head.C >= 0 { // made again for a user, whose head it takes
				n.Head = Number(t.Task.Head)
			}
			n.Stage = t.Task.Stage
		}
		var operand func(a *ir.Value) *Item
		operand = func(a *ir.Value) *Item {
			if a.Def == nil || a.Def.Op != ir.OpRefCast {
				return of[a]
			}
			c := *n
			c.In, c.Ints, c.Args = a.Def, bodyInts(a.Def), []Ref{{Item: operand(a.Def.Args[0])}}
			x := &Item{Typ: a.Type, Maker: &c}
			c.Defs = []*Item{x}
			out = append(out, &c)
			return x
		}
		for _, a := range in.Args {
			if _, ok := Constant(a); !ok {
				n.Args = append(n.Args, Ref{Item: operand(a)})
			}
		}
		for _, r := range in.Results {
			x := &Item{Typ: r.Type, Maker: n}
			of[r] = x
			n.Defs = append(n.Defs, x)
		}
		if in.Body != nil && in.Op != ir.OpKernel {
			inner := maps.Clone(of)
			for _, p := range in.Body.Params {
				x := &Item{Typ: p.Type, Maker: n}
				inner[p] = x
				n.Params = append(n.Params, x)
			}
			n.Body = Roll(ToNodes(in.Body.Instrs, inner, tasks))
			for _, y := range in.Body.Yield {
				n.Yield = append(n.Yield, Ref{Item: inner[y]})
			}
			n.guard()
		}
		out = append(out, n)
	}
	return out
}

// guard makes one node of a condition around a copy; the condition becomes its last operand.
func (n *Node) guard() {
	if n.In.Op != ir.OpWhen || len(n.Body) != 1 || n.Body[0].Loop != nil || n.Body[0].List != nil {
		return
	}
	if b := n.Body[0]; b.Call == "" && (b.In.Op == ir.OpDMAStart || b.In.Op == ir.OpDMAWait) {
		n.Call, n.In, n.Ints, n.Args, n.Body = "guarded", b.In, b.Ints, append(slices.Clone(b.Args), n.Args...), nil
	}
}
