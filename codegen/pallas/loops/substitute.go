package loops

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// row is a row of substitution in unit triangles: x = e + sum a_j x_j, where a_j is in each block one of two halves of words.
type row struct {
	base  Ref     // e
	terms []*term // in the order of columns
	last  *Node   // that adds the last of them
}

// term is a_j x_j.
type term struct {
	add, mul, half, take *Node
}

// substitution finds rows of which each takes the ones before it, and makes one node of them: a call of the words of the blocks, the first
// lane of each block, the lane within it and the first row. What it gives is a list.
func (f *fuser) substitution() {
	rows := f.rows()
	if len(rows) < 4 || len(rows)%2 == 0 {
		return
	}
	first := rows[0].terms[0]
	lane := f.oneHot(rows[0].base, 1)
	args, x := []Ref{first.take.Args[1], lane, first.mul.Args[1]}, []*Item{first.mul.Args[1].Item}
	var parts []*Node
	for i, r := range rows {
		if len(r.terms) != i+1 || f.oneHot(r.base, i+1).Item != lane.Item || lane.Item == nil {
			return
		}
		for j, t := range r.terms {
			pair := rows[i] // whose words these are
			if i > 0 && i%2 == 0 {
				pair = rows[i-1]
			}
			words := t.take.Args[0].Item
			if t.mul.Args[1].Item != x[j] || !f.column(t.take.Args[1], args[0], j) || t.half.Ints[0].C != (i+1)%2 || words != pair.terms[0].take.Args[0].Item {
				return
			}
			parts = append(parts, t.add, t.mul, t.half, t.take)
		}
		x = append(x, r.last.Defs[0])
	}
	for i, r := range rows {
		if i == 0 || i%2 == 1 {
			args = append(args, r.terms[0].take.Args[0])
		}
	}
	f.gather(args, x, parts)
}

// gather puts a node with a list of x in the place of the parts that make them: behind its operands, before what reads it.
func (f *fuser) gather(args []Ref, x []*Item, parts []*Node) {
	at := 0
	for _, a := range args {
		if m := f.maker[a.Item]; m != nil {
			at = max(at, f.place[m])
		}
	}
	list := &Item{Typ: x[1].Typ}
	n := &Node{Stage: parts[0].Stage, Head: Number(-1), Call: "eliminate", At: f.nodes[at].At, Args: args, Ints: []Form{Number(len(x))}, Defs: []*Item{list}}
	n.In = &ir.Instr{Op: ir.OpOr, Results: parts[0].In.Results, Task: parts[0].In.Task}
	for _, p := range parts {
		n.Until = max(n.Until, p.Until)
	}
	for _, m := range f.nodes[:at] { // no reader before
		early := false
		Visit(m, func(r *Ref) { early = early || slices.Contains(x[1:], r.Item) })
		if early && !slices.Contains(parts, m) {
			return
		}
	}
	for _, p := range parts {
		f.gone[p] = true
	}
	for _, a := range args { // operands were due where they were first read: all are now
		if m := f.maker[a.Item]; m != nil && m.In.Op == ir.OpLoad {
			n.At = min(n.At, m.At)
			m.At, m.Until = n.At, n.At
		}
	}
	list.Maker = n
	list.Add(&Item{Typ: list.Typ}) // the first row stays what it is
	for _, y := range x[1:] {
		list.Add(y)
	}
	f.insert, f.behind = n, f.nodes[at]
}

// rows finds sums of products with picked halves of words, by their lengths.
func (f *fuser) rows() []*row {
	var out []*row
	inner := map[*Node]bool{}
	for _, n := range slices.Backward(f.nodes) {
		r := &row{last: n}
		for m := n; m != nil; m = f.maker[r.base.Item] {
			t := f.term(m)
			if t == nil || inner[m] && m == n {
				break
			}
			inner[m] = true
			r.terms, r.base = append(r.terms, t), m.Args[0]
		}
		if slices.Reverse(r.terms); len(r.terms) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *row) int { return len(a.terms) - len(b.terms) })
	return out
}

// term reads base + half(take(words, lanes)) * x.
func (f *fuser) term(n *Node) *term {
	if n.In.Op != ir.OpAdd || n.Call != "" || len(n.Args) != 2 {
		return nil
	}
	t := &term{add: n, mul: f.by(n, 1, ir.OpMul, 1)}
	if t.mul == nil || len(t.mul.Args) != 2 {
		return nil
	}
	if t.half = f.maker[t.mul.Args[0].Item]; t.half == nil || t.half.Call != "half" || f.uses[t.half.Defs[0]] != 1 {
		return nil
	}
	if t.take = f.maker[t.half.Args[0].Item]; t.take == nil || t.take.In.Op != ir.OpTake || t.take.In.Attrs.Axis != 1 {
		return nil
	}
	return t
}

// oneHot is x where a value is 1 where x is i and 0 elsewhere; nothing where it is not.
func (f *fuser) oneHot(r Ref, i int) Ref {
	n := f.maker[r.Item]
	if n == nil || n.In.Op != ir.OpSelect || len(n.In.Args) != 3 {
		return Ref{}
	}
	one, a := Constant(n.In.Args[1])
	zero, b := Constant(n.In.Args[2])
	m := f.maker[n.Args[0].Item]
	if !a || !b || one != 1 || zero != 0 || m == nil || m.In.Op != ir.OpCompare || m.In.Attrs.Cmp != ir.EQ || len(m.Args) != 1 {
		return Ref{}
	}
	if c, ok := Constant(m.In.Args[1]); !ok || int(c) != i {
		return Ref{}
	}
	return m.Args[0]
}

// column says whether lanes are the first ones plus j.
func (f *fuser) column(r, first Ref, j int) bool {
	if j == 0 {
		return r.Item == first.Item
	}
	n := f.maker[r.Item]
	if n == nil || n.In.Op != ir.OpAdd || len(n.Args) != 1 || n.Args[0].Item != first.Item {
		return false
	}
	c, ok := Constant(n.In.Args[1])
	return ok && int(c) == j
}
