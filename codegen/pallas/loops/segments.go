package loops

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// Segments describes the varlen blocks of packed sequences, whose table and marks a helper makes (tests/oracle, TestPallasVisits).
type Segments struct {
	Blocks, Chunk, Places int
	Drop                  bool // final states of sequences without tokens are zero
}

// rows of marks per varlen block, and entries per varlen block in the table
const markRows, tableColumns = 8, 6

// Fold replaces the nodes that compute the table and the marks of a kernel by one node, which reads the parameter of sequence
// boundaries.
func (s *Segments) Fold(nodes []*Node) []*Node {
	at := slices.IndexFunc(nodes, func(n *Node) bool { return n.In.Op == ir.OpKernel && n.In.Attrs.Grid.Tables == 1 })
	if s == nil || at < 0 {
		return nodes
	}
	table := nodes[at].Args[0].Item
	many := table.Typ.Shape[0] / tableColumns
	is := func(a Ref) bool { return a.Item.Typ.String() == ir.T(ir.I32, many, markRows, s.Chunk).String() }
	m := slices.IndexFunc(nodes[at].Args, is)
	if m < 0 || many%s.Places != 0 {
		return nodes
	}
	made := &Node{Call: "visits", Defs: []*Item{table, nodes[at].Args[m].Item}}
	makes, params := map[*Node]bool{}, []*Item(nil)
	var of func(x *Item)
	of = func(x *Item) {
		switch {
		case x.Maker == nil:
			if !slices.Contains(params, x) {
				params = append(params, x)
			}
		case !makes[x.Maker]:
			makes[x.Maker] = true
			EachRef(x.Maker, func(r *Ref) { of(r.Item) })
		}
	}
	of(made.Defs[0])
	of(made.Defs[1])
	if len(params) != 1 {
		return nodes
	}
	made.Args = []Ref{{Item: params[0]}}
	made.In = made.Defs[1].Maker.In
	for _, n := range []int{s.Blocks, s.Chunk, s.Places} {
		made.Ints = append(made.Ints, Number(n))
	}
	made.Note = "keep"
	if s.Drop {
		made.Note = "drop"
	}
	read := map[*Item]bool{} // read by other nodes
	var out []*Node
	for _, n := range slices.Backward(nodes) {
		if makes[n] && !read[n.Defs[0]] || n == table.Maker || n == made.Defs[1].Maker {
			continue
		}
		EachRef(n, func(r *Ref) { read[r.Item] = true })
		out = append(out, n)
	}
	slices.Reverse(out)
	first := slices.IndexFunc(out, func(n *Node) bool {
		reads := false
		EachRef(n, func(r *Ref) { reads = reads || slices.Contains(made.Defs, r.Item) })
		return reads
	})
	table.Maker, made.Defs[1].Maker = made, made
	return slices.Insert(out, first, made)
}
