package loops

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// row is a row of a substitution in unit triangles: x = e + sum a_j x_j, where a_j is one half of words in each block.
type row struct {
	base  Ref     // e
	terms []*term // in order of columns
	last  *Node   // adds the last term
}

// term is a_j x_j.
type term struct {
	add, mul, half, take *Node
}

// substitution finds rows that each read the rows before, and replaces them by one node. The node is a call with the words of the
// blocks, the first lane of each block, the lane within it and the first row; its result is a list. Lower triangles go from the first
// row on, upper ones from the last.
func (f *fuser) substitution() {
	rows := f.rows()
	if len(rows) < 4 || len(rows)%2 == 0 {
		return
	}
	first := rows[0].terms[0]
	lanes, number := first.take.Args[1], func(i int) int { return i } // the index of a row in the order of computation
	lane := f.oneHot(rows[0].base, 1)
	up := lane.Item == nil
	if up {
		number = func(i int) int { return len(rows) - i }
		lane = f.oneHot(rows[0].base, number(1))
		if m := f.maker[lanes.Item]; m != nil && len(m.Args) > 0 {
			lanes = m.Args[0]
		}
	}
	x := []*Item{first.mul.Args[1].Item}
	words := make([]Ref, (len(rows)+1)/2)
	var parts []*Node
	for i, r := range rows {
		n := number(i + 1)
		if len(r.terms) != i+1 || f.oneHot(r.base, n).Item != lane.Item || lane.Item == nil {
			return
		}
		pair := &words[n/2]
		if pair.Item == nil {
			*pair = r.terms[0].take.Args[0]
		}
		for j, t := range r.terms {
			if t.mul.Args[1].Item != x[j] || !f.column(t.take.Args[1], lanes, number(j)) || t.half.Ints[0].C != n%2 || t.take.Args[0].Item != pair.Item {
				return
			}
			parts = append(parts, t.add, t.mul, t.half, t.take)
		}
		x = append(x, r.last.Defs[0])
	}
	f.gather(append([]Ref{lanes, lane, {Item: x[0]}}, words...), x, up, parts)
}

// gather replaces the parts that make x by a node with a list of x, after its operands and before its readers.
func (f *fuser) gather(args []Ref, x []*Item, up bool, parts []*Node) {
	at := 0
	for _, a := range args {
		if m := f.maker[a.Item]; m != nil {
			at = max(at, f.place[m])
		}
	}
	list := &Item{Typ: x[1].Typ}
	n := &Node{Stage: parts[0].Stage, Head: Number(-1), Call: "eliminate", Args: args, Ints: []Form{Number(len(x))}, Defs: []*Item{list}}
	n.In = &ir.Instr{Op: ir.OpOr, Results: parts[0].In.Results, Task: parts[0].In.Task}
	for _, m := range f.nodes[:at] { // no reader before
		early := false
		EachRef(m, func(r *Ref) { early = early || slices.Contains(x[1:], r.Item) })
		if early && !slices.Contains(parts, m) {
			return
		}
	}
	for _, p := range parts {
		f.gone[p] = true
	}
	list.Maker = n
	x[0] = &Item{Typ: list.Typ} // the first row keeps its own item
	if up {
		n.Note = "up"
		slices.Reverse(x)
	}
	for _, y := range x {
		list.Add(y)
	}
	f.nodes = slices.Insert(slices.Clone(f.nodes), at+1, n)
	for i, n := range f.nodes {
		f.place[n] = i
	}
}

// rows finds sums of products with selected halves of words, by their lengths.
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

// term matches base + half(take(words, lanes)) * x.
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

// oneHot returns x if a value is 1 where x == i, and 0 elsewhere; else no item.
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

// column reports whether lanes are the first ones plus j.
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
