package plan

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/ir"
)

// Held names scratch by its contents: the formula of the stored value, or the window that it was loaded from.
type Held struct {
	plan   *Plan
	window func(*loops.Item) string // returns the name of a reference
	stored map[*ir.Value][]string   // per parameter
}

// Held finds the values stored to a kernel's scratch; window returns the names of references.
func (k *Plan) Held(window func(*loops.Item) string) *Held {
	h := &Held{plan: k, window: window, stored: map[*ir.Value][]string{}}
	k.In.Body.Walk(func(in *ir.Instr) {
		if in.Op != ir.OpStore {
			return
		}
		name, to := h.origin(in.Args[0]), in.Args[1]
		if !slices.Contains(h.stored[to], name) {
			h.stored[to] = append(h.stored[to], name)
		}
	})
	return h
}

// origin returns the name of a value by its formula, or of the window or scratch that it is a form of; "" for none.
func (h *Held) origin(v *ir.Value) string {
	turned := ""
	for ; v.Def != nil && len(v.Def.Args) > 0; v = v.Def.Args[0] {
		if name := ir.NameOf(v); name != "" {
			return naming.Plain(name) + turned
		}
		if v.Def.Op == ir.OpLoad {
			ref := v.Def.Args[0]
			for ref.Def != nil && ref.Def.Op == ir.OpRefCast {
				ref = ref.Def.Args[0]
			}
			i := slices.Index(h.plan.In.Body.Params, ref)
			switch held := h.stored[ref]; {
			case i < 0 || i >= len(h.plan.Params):
				return ""
			case !h.plan.Params[i].Scratch:
				return naming.Plain(h.window(h.plan.Params[i])) + turned
			case len(held) == 1 && held[0] != "":
				return held[0] + turned
			}
			return ""
		}
		switch {
		case v.Def.Op == ir.OpTranspose:
			turned = "_t"
		case naming.FormOf(v.Def) == "" && !slices.Contains(formless, v.Def.Op):
			return ""
		}
	}
	return ""
}

// formless are ops that make a form without its own name: parts, halves of words, and clamped numbers.
var formless = []ir.Op{ir.OpReshape, ir.OpSlice, ir.OpBitcast, ir.OpShl, ir.OpAnd, ir.OpMax}

// In returns the names of the values stored to a list of scratch, in order; "" for one without a name.
func (h *Held) In(list *loops.Item) (names []string) {
	for _, e := range list.Elems {
		if e.Param == 0 {
			return nil
		}
		for _, name := range h.stored[h.plan.In.Body.Params[e.Param-1]] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// at returns the name of the values at positions of a list of scratch; "" if they have none or more than two. With q and k in turn,
//
//	[2 * h + 1]   is k
//	[i + 2 * h]   is q_k, for i from 0 to 1
func (h *Held) at(list *loops.Item, at []loops.Form) string {
	if len(at) == 0 {
		return ""
	}
	var some loops.Item
	places := at[0].Values(len(list.Elems))
	for i, e := range list.Elems {
		if places[i] {
			some.Elems = append(some.Elems, e)
		}
	}
	return naming.Both(h.In(&some))
}

// Loaded returns the name of the value that a node, or the node it is a form of, loads from a list of scratch; "" if its formula says
// the same, and for other nodes.
func (h *Held) Loaded(n *loops.Node) string {
	for n != nil && n.Call == "" && len(n.Args) > 0 && naming.FormOf(n.In) != "" && !n.Args[0].Item.Typ.IsRef() {
		n = n.Args[0].Item.Maker
	}
	if n == nil || n.Call != "" || n.In == nil || n.In.Op != ir.OpLoad || len(n.Args) == 0 || !n.Args[0].Item.Scratch || !n.Args[0].Item.IsList() {
		return ""
	}
	if name := h.at(n.Args[0].Item, n.Args[0].At); name != naming.Plain(ir.NameOf(n.In.Result())) {
		return name
	}
	return ""
}
