package loops

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// moves is a place of a kernel that starts or awaits some copies.
type moves struct {
	at     []int // indices of nodes: one condition around all copies, or each copy
	body   []*Node
	op     ir.Op
	copies [][]*ir.Value // operands of each copy, then its condition
	args   []Ref         // arguments for the parameters
	made   []*Node       // nodes that compute them
	cond   []Ref
}

// fewCopies is the most copies that are written at each place instead of in a function.
const fewCopies = 4

// Copies makes one function for places that start or await copies and differ only in numbers: this step or the next, one half of a
// buffer or the other. One node has the common text (Call "copies"), and each place becomes a node that calls it (Call "copy").
func Copies(nodes []*Node) []*Node {
	c := &copier{item: map[*ir.Value]*Item{}, value: map[*Item]*ir.Value{}}
	for _, n := range nodes {
		for i, v := range n.results() {
			c.item[v], c.value[n.Defs[i]] = n.Defs[i], v
		}
		for i, j := 0, 0; n.Call == "" && i < len(n.In.Args); i++ { // operands made before
			if _, ok := Constant(n.In.Args[i]); !ok && j < len(n.Args) {
				c.item[n.In.Args[i]] = n.Args[j].Item
				j++
			}
		}
	}
	for all := c.moves(nodes); len(all) > 1; all = all[1:] {
		same := slices.DeleteFunc(slices.Clone(all), func(m *moves) bool { return len(m.copies) != len(all[0].copies) })
		if len(all[0].copies) < fewCopies || len(same) < 2 || !c.unify(same) {
			continue
		}
		if out := c.replace(nodes, same); out != nil {
			return Copies(out) // other places copy blocks that come a step later
		}
	}
	return nodes
}

// copier finds the common text of places.
type copier struct {
	item  map[*ir.Value]*Item
	value map[*Item]*ir.Value
	of    int           // the place whose text is used for all
	holes [][]*ir.Value // values that differ, one per place
	same  map[*ir.Value]bool
	done  map[string]bool
}

// moves returns the places among some nodes.
func (c *copier) moves(nodes []*Node) (out []*moves) {
	var open *moves // the place that the next copy may belong to
	for i, n := range nodes {
		switch {
		case n.Call == "copies" || n.Call == "copy":
			open = nil
		case n.In.Op == ir.OpDMAStart || n.In.Op == ir.OpDMAWait:
			if open == nil || open.op != n.In.Op {
				open = &moves{op: n.In.Op}
				out = append(out, open)
			}
			operands := slices.Clone(n.In.Args)
			if n.Call == "guarded" {
				operands = append(operands, c.value[n.Args[len(n.Args)-1].Item])
			}
			open.at, open.copies = append(open.at, i), append(open.copies, operands)
		case n.In.Op == ir.OpWhen:
			if open = conditional(n.In); open != nil {
				open.at, open.body, open.cond = []int{i}, n.Body, n.Args
				out = append(out, open)
			}
			open = nil
		case len(n.Defs) == 0:
			open = nil
		}
	}
	return out
}

// conditional returns the copies under a condition; nil if the body has other effects.
func conditional(when *ir.Instr) *moves {
	m := &moves{}
	for _, in := range when.Body.Instrs {
		var cond []*ir.Value
		if in.Op == ir.OpWhen && len(in.Body.Instrs) == 1 {
			cond, in = in.Args, in.Body.Instrs[0]
		}
		move := in.Op == ir.OpDMAStart || in.Op == ir.OpDMAWait
		if move && (m.op == in.Op || len(m.copies) == 0) {
			m.op, m.copies = in.Op, append(m.copies, slices.Concat(in.Args, cond))
		} else if move || len(cond) > 0 || !computes(in) {
			return nil
		}
	}
	return m
}

// unify finds the numbers in which places differ, and reports whether they differ in nothing else.
func (c *copier) unify(all []*moves) bool {
	c.holes, c.same, c.done = nil, map[*ir.Value]bool{}, map[string]bool{}
	if c.of = slices.IndexFunc(all, func(m *moves) bool { return m.body != nil }); c.of < 0 {
		return false
	}
	for i := range all[0].copies {
		for j := range all[0].copies[i] {
			var values []*ir.Value
			for _, m := range all {
				if len(m.copies[i]) != len(all[0].copies[i]) {
					return false
				}
				values = append(values, m.copies[i][j])
			}
			if !c.alike(values) {
				return false
			}
		}
	}
	return true
}

// alike reports whether the values of several places are equal except for numbers, which it records.
func (c *copier) alike(given []*ir.Value) bool {
	values := slices.Clone(given)
	for i, v := range values {
		for v != nil && v.Def != nil && neutral(v.Def) {
			v = v.Def.Args[0]
		}
		values[i] = v
	}
	first := values[0]
	if !slices.ContainsFunc(values, func(v *ir.Value) bool { return v != first }) {
		c.same[first] = true
		return first != nil
	}
	key := ""
	for _, v := range values {
		if v == nil || v.Type.String() != first.Type.String() {
			return false
		}
		key += fmt.Sprintf("%p ", v)
	}
	if c.done[key] {
		return true
	}
	c.done[key] = true
	if x, ok := Constant(first); ok {
		return !slices.ContainsFunc(values, func(v *ir.Value) bool { y, ok := Constant(v); return !ok || x != y })
	}
	of := first.Def
	if !slices.ContainsFunc(values, func(v *ir.Value) bool { return of == nil || v.Def == nil || !equal(v.Def, of) }) {
		for i := range of.Args {
			var args []*ir.Value
			for _, v := range values {
				args = append(args, v.Def.Args[i])
			}
			if !c.alike(args) {
				return false
			}
		}
		return true
	}
	for i, v := range given {
		if i == c.of {
			given[i] = values[i]
		} else if v.Def != nil && neutral(v.Def) {
			given[i] = v.Def.Args[0]
		}
	}
	for _, h := range c.holes {
		if identical(h[c.of], given[c.of]) { // the same number
			return slices.EqualFunc(h, given, identical)
		}
	}
	c.holes = append(c.holes, given)
	return first.Type.Rank() == 0 && !first.Type.IsRef()
}

// neutral reports whether an instruction adds 0 or multiplies by 1.
func neutral(in *ir.Instr) bool {
	if in.Op != ir.OpAdd && in.Op != ir.OpMul {
		return false
	}
	c, ok := Constant(in.Args[1])
	return ok && (in.Op == ir.OpAdd && c == 0 || in.Op == ir.OpMul && c == 1)
}

// identical reports whether two values are computed in the same way.
func identical(a, b *ir.Value) bool {
	return a == b || a.Def != nil && b.Def != nil && equal(a.Def, b.Def) && slices.EqualFunc(a.Def.Args, b.Def.Args, identical)
}

// equal reports whether two instructions differ only in operands.
func equal(a, b *ir.Instr) bool {
	return computes(a) && len(a.Args) == len(b.Args) && instrSig(a) == instrSig(b) && fmt.Sprint(bodyInts(a)) == fmt.Sprint(bodyInts(b))
}

// computes reports whether an instruction may move: it has no effect, or only reads SMEM, which no instruction writes.
func computes(in *ir.Instr) bool {
	return in.Body == nil && (in.Op.Pure() || in.Op == ir.OpLoad && len(in.Args) > 0 && in.Args[0].Type.Space == ir.SMEM)
}

// replace puts calls in the places, and the called function before the first; nil if that is impossible.
func (c *copier) replace(nodes []*Node, all []*moves) []*Node {
	for _, m := range all {
		m.args, m.made = nil, nil // left from an attempt with other places
	}
	of := all[c.of]
	at := nodes[of.at[0]]
	def := &Node{Call: "copies", Stage: at.Stage, Head: Number(-1), In: at.In, Defs: []*Item{{}}}
	def.Defs[0].Maker = def
	param := map[*Item]*Item{} // the parameter for an item of that place
	for _, values := range c.holes {
		for i, v := range values {
			if all[i].args = append(all[i].args, Ref{Item: c.make(v, all[i])}); all[i].args[len(def.Params)].Item == nil {
				return nil
			}
		}
		x := &Item{Typ: values[1].Type, Maker: all[1].args[len(def.Params)].Item.Maker} // for its name
		def.Params = append(def.Params, x)
		before := len(param)
		for _, n := range slices.Concat(nodes, of.body) {
			same := func(v *ir.Value) bool { return identical(v, values[c.of]) }
			if j := slices.IndexFunc(n.results(), same); j >= 0 && !c.same[values[c.of]] {
				param[n.Defs[j]] = x
			}
		}
		if len(param) == before {
			return nil
		}
	}
	for _, b := range of.body {
		if len(b.Defs) == 1 && param[b.Defs[0]] != nil {
			continue
		}
		EachRef(b, func(r *Ref) {
			if x := param[r.Item]; x != nil {
				r.Item = x
			}
		})
		def.Body = append(def.Body, b)
	}
	put := map[int][]*Node{} // nodes that replace others
	for i, m := range all {
		for _, j := range m.at {
			put[j] = []*Node{}
		}
		call := &Node{Call: "copy", Note: map[ir.Op]string{ir.OpDMAStart: "start", ir.OpDMAWait: "wait"}[m.op], Params: make([]*Item, len(m.cond)), In: def.In}
		call.Args = slices.Concat([]Ref{{Item: def.Defs[0]}}, m.args, m.cond)
		here := append(m.made, call)
		for _, n := range here {
			n.Stage, n.Head = def.Stage, def.Head
		}
		if i == 0 {
			here = append([]*Node{def}, here...)
		}
		put[m.at[0]] = here
	}
	var out []*Node
	for i, n := range nodes {
		if here, ok := put[i]; ok {
			out = append(out, here...)
		} else {
			out = append(out, n)
		}
	}
	return out
}

// Copied returns the arrays in HBM whose blocks the nodes copy.
func Copied(nodes []*Node) (arrays []*Item) {
	for _, n := range nodes {
		var of []*Item
		if n.Loop != nil {
			of = Copied(n.Loop.Body)
		} else if n.In.Op == ir.OpDMAStart || n.In.Op == ir.OpDMAWait {
			of = []*Item{n.Args[0].Item}
		}
		for _, x := range of {
			if !slices.Contains(arrays, x) {
				arrays = append(arrays, x)
			}
		}
	}
	return arrays
}

// results returns the values that a node makes.
func (n *Node) results() []*ir.Value {
	if n.In == nil || n.Call != "" {
		return nil
	}
	return n.In.Results
}

// make returns a value at a place: one that exists there, or one computed from such values; nil if there is none.
func (c *copier) make(v *ir.Value, m *moves) *Item {
	if x := c.item[v]; x != nil {
		return x
	}
	n := &Node{In: v.Def, Ints: bodyInts(v.Def)}
	for _, a := range v.Def.Args {
		if _, ok := Constant(a); ok {
			continue
		}
		if c.item[a] == nil {
			return nil
		}
		n.Args = append(n.Args, Ref{Item: c.item[a]})
	}
	n.Defs = []*Item{{Typ: v.Type, Maker: n}}
	m.made = append(m.made, n)
	return n.Defs[0]
}
