package plan

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// Copied names scratch, and semaphores likewise, after the arrays that a kernel copies to or from it. It returns them in the order of
// the copies. array returns the name of an operand or result, "" for others.
func (k *Plan) Copied(array func(*loops.Item) string) (order []*loops.Item, names map[*loops.Item]string) {
	of := map[*ir.Value]*loops.Item{}
	for i, p := range k.In.Body.Params {
		of[p] = top(k.Params[i])
	}
	whole := func(v *ir.Value) *loops.Item {
		for v.Def != nil && v.Def.Op == ir.OpRefCast {
			v = v.Def.Args[0]
		}
		return of[v]
	}
	arrays, ends := map[*loops.Item][]string{}, map[*loops.Item]string{}
	note := func(x *loops.Item, of, end string) {
		if x == nil || array(x) != "" || slices.Contains(arrays[x], of) {
			return
		}
		if arrays[x] == nil {
			order, ends[x] = append(order, x), end
		}
		arrays[x] = append(arrays[x], of)
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
			side, scratch, end := whole(in.Args[0]), whole(in.Args[1]), "_in"
			if array(side) == "" {
				side, scratch, end = scratch, side, "_out"
			}
			if name := array(side); name != "" {
				note(scratch, name, end)
				note(whole(in.Args[2]), name, end+"_sem")
			}
		}
	}
	visit(k.In.Body.Instrs)
	names = map[*loops.Item]string{}
	for _, x := range order {
		names[x] = strings.Join(arrays[x], "_") + ends[x]
	}
	return order, names
}

// top returns the outermost list that contains an item.
func top(x *loops.Item) *loops.Item {
	for x.In != nil {
		x = x.In
	}
	return x
}
