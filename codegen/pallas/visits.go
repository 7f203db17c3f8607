package pallas

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
)

// visits are those of packed sequences to blocks of tokens as they lie, whose schedule a helper makes (tests/oracle, TestVisits).
type visits struct {
	blocks, chunk, places int
	drop                  bool // final states of sequences without tokens are zero
}

// visitsOf is how a variant that is fitted visits blocks; nil where it does not.
func (e extent) visitsOf(s gdn.Spec, v gdn.Variant) *visits {
	if e.Visits == 0 || v.Fit(s).Mapping.Pack != gdn.PackAligned {
		return nil
	}
	return &visits{blocks: s.Tokens / e.Unit, chunk: e.Unit, places: e.Visits, drop: s.Empty == gdn.EmptyZero}
}

// rows and columns of a schedule: marks of a visit, and entries of it in the table.
const markRows, tableColumns = 8, 6

// fold makes one node of those that make the schedule: the table of the kernel, and the marks among its operands, of the one parameter that says where
// sequences begin.
func (s *visits) fold(nodes []*loops.Node) []*loops.Node {
	at := slices.IndexFunc(nodes, func(n *loops.Node) bool { return n.In.Op == ir.OpKernel && n.In.Attrs.Grid.Tables == 1 })
	if s == nil || at < 0 {
		return nodes
	}
	table := nodes[at].Args[0].Item
	many := table.Typ.Shape[0] / tableColumns
	is := func(a loops.Ref) bool { return a.Item.Typ.String() == ir.T(ir.I32, many, markRows, s.chunk).String() }
	m := slices.IndexFunc(nodes[at].Args, is)
	if m < 0 || many%s.places != 0 {
		return nodes
	}
	made := &loops.Node{Call: "visits", Defs: []*loops.Item{table, nodes[at].Args[m].Item}}
	makes, params := map[*loops.Node]bool{}, []*loops.Item(nil)
	var of func(x *loops.Item)
	of = func(x *loops.Item) {
		switch {
		case x.Maker == nil:
			params = union(params, []*loops.Item{x})
		case x.Maker != nil && !makes[x.Maker]:
			makes[x.Maker] = true
			loops.Visit(x.Maker, func(r *loops.Ref) { of(r.Item) })
		}
	}
	of(made.Defs[0])
	of(made.Defs[1])
	if len(params) != 1 {
		return nodes
	}
	made.Args = []loops.Ref{{Item: params[0]}}
	made.In = made.Defs[1].Maker.In
	for _, n := range []int{s.blocks, s.chunk, s.places} {
		made.Ints = append(made.Ints, loops.Number(n))
	}
	if s.drop {
		made.Note = "drop=True"
	}
	read := map[*loops.Item]bool{} // by others
	var out []*loops.Node
	for _, n := range slices.Backward(nodes) {
		if makes[n] && !read[n.Defs[0]] || n == table.Maker || n == made.Defs[1].Maker {
			continue
		}
		loops.Visit(n, func(r *loops.Ref) { read[r.Item] = true })
		out = append(out, n)
	}
	slices.Reverse(out)
	first := slices.IndexFunc(out, func(n *loops.Node) bool {
		reads := false
		loops.Visit(n, func(r *loops.Ref) { reads = reads || slices.Contains(made.Defs, r.Item) })
		return reads
	})
	table.Maker, made.Defs[1].Maker = made, made
	return slices.Insert(out, first, made)
}
