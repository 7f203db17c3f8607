package loops

// Usage counts the reads of the items of a list of nodes.
type Usage struct {
	Uses map[*Item]int   // number of reads; lists and their elements count separately
	At   map[*Item]*Node // the last node in the item's own body that reads it; nil if it is read in an inner body
	Deep map[*Item]bool  // read inside an inner loop or body
}

// NewUsage returns an empty Usage.
func NewUsage() *Usage { return &Usage{map[*Item]int{}, map[*Item]*Node{}, map[*Item]bool{}} }

// Resolve replaces the item of each reference by the item that is visible to its reader: an item of an enclosing loop,
// or an element of the list that the loop makes. It counts the reads. after has references that are read after the
// nodes.
func (u *Usage) Resolve(nodes []*Node, own map[*Item]bool, after ...*Ref) {
	own = clone(own)
	here := map[*Item]bool{}
	var reader *Node
	read := func(r *Ref, inner map[*Item]bool) {
		for !inner[r.Item] && (r.Item.final != nil || r.Item.In != nil) {
			if r.Item.final != nil {
				r.Item = r.Item.final
			} else {
				*r = Ref{r.Item.In, append([]Form{Number(r.Item.at)}, r.At...)}
			}
		}
		u.Uses[r.Item]++
		if here[r.Item] {
			u.At[r.Item] = reader
		} else {
			u.Deep[r.Item] = true
		}
	}
	for _, n := range nodes {
		reader = n
		for i := range n.Args {
			read(&n.Args[i], own)
		}
		for i := range n.List {
			read(&n.List[i], own)
		}
		if n.Loop != nil {
			inner := clone(own)
			for _, c := range n.Loop.Carries {
				read(&c.Init, own)
				inner[c.Item] = true
			}
			u.Resolve(n.Loop.Body, inner)
			for _, c := range n.Loop.Carries {
				u.Uses[c.Next]++
				u.Deep[c.Next] = true
			}
		}
		if n.Body != nil {
			inner := clone(own)
			for _, p := range n.Params {
				inner[p] = true
			}
			var after []*Ref
			for i := range n.Yield {
				after = append(after, &n.Yield[i])
			}
			u.Resolve(n.Body, inner, after...)
		}
		for _, d := range n.Defs {
			own[d], here[d] = true, true
		}
	}
	for _, r := range after {
		read(r, own)
		u.Deep[r.Item] = true
	}
}

func FlatDefs(nodes []*Node) []*Item {
	var out []*Item
	for _, n := range nodes {
		out = append(out, n.Defs...)
	}
	return out
}

func clone(m map[*Item]bool) map[*Item]bool {
	out := make(map[*Item]bool, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
