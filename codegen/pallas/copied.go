package pallas

import (
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// nameCopied names scratch after the operands that a kernel copies to it, or the results that it copies from it, and semaphores alike.
func (k *kernel) nameCopied() {
	of := map[*ir.Value]*loops.Item{}
	for i, p := range k.In.Body.Params {
		x := k.Params[i]
		for x.In != nil {
			x = x.In
		}
		of[p] = x
	}
	whole := func(v *ir.Value) *loops.Item {
		for v.Def != nil && v.Def.Op == ir.OpRefCast {
			v = v.Def.Args[0]
		}
		return of[v]
	}
	var order []*loops.Item
	arrays, ends := map[*loops.Item][]string{}, map[*loops.Item]string{}
	note := func(x *loops.Item, array, end string) {
		if x == nil || k.names[x] != "" || slices.Contains(arrays[x], array) {
			return
		}
		if arrays[x] == nil {
			order, ends[x] = append(order, x), end
		}
		arrays[x] = append(arrays[x], array)
	}
	var visit func([]*ir.Instr)
	visit = func(instrs []*ir.Instr) {
		for _, in := range instrs {
			if in.Body != nil {
				visit(in.Body.Instrs)
			}
			if in.Op != ir.OpDMAStart && in.Op != ir.OpDMAWait {
				continue
			}
			named, scratch, end := whole(in.Args[0]), whole(in.Args[1]), "_in"
			if k.names[named] == "" {
				named, scratch, end = scratch, named, "_out"
			}
			if array := baseName(k.names[named]); array != "" {
				note(scratch, array, end)
				note(whole(in.Args[2]), array, end+"_sem")
			}
		}
	}
	visit(k.In.Body.Instrs)
	for _, x := range order {
		k.nameRef(x, strings.Join(arrays[x], "_")+ends[x])
	}
}

// arithmetic are ops that make new numbers, beside which a stage moves some.
var arithmetic = []ir.Op{ir.OpDot, ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpNeg, ir.OpMax, ir.OpExp, ir.OpExp2, ir.OpLog2, ir.OpSelect, ir.OpOr, ir.OpAnd}

// computed are those of some nodes.
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

// unstored is the name of scratch that is read before anything is stored: that of its parts, or of what a step before left.
func (k *kernel) unstored(x *loops.Item) string {
	var parts []string
	for _, e := range x.Elems {
		if name, ok := strings.CutSuffix(baseName(k.names[e]), "_in"); ok && !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, "_") + "_in"
	}
	return "prior"
}
