package pallas

// body is a list of nodes with what is known of its items.
type usage struct {
	uses map[*item]int   // how often an item is read, lists and their elements apart
	at   map[*item]*node // the last node, in the item's own body, that reads it; nil where it is read deeper
	deep map[*item]bool  // read inside an inner loop or body
}

// resolve makes each reference name what its reader sees: an item of a loop that the reader is in, or else an element of the
// list that the loop leaves. It counts the uses. What is read after the nodes comes with them.
func (u *usage) resolve(nodes []*node, own map[*item]bool, after ...*ref) {
	own = clone(own)
	here := map[*item]bool{}
	var reader *node
	read := func(r *ref, inner map[*item]bool) {
		for !inner[r.item] && (r.item.final != nil || r.item.in != nil) {
			if r.item.final != nil {
				r.item = r.item.final
			} else {
				*r = ref{r.item.in, append([]form{number(r.item.at)}, r.at...)}
			}
		}
		u.uses[r.item]++
		if here[r.item] {
			u.at[r.item] = reader
		} else {
			u.deep[r.item] = true
		}
	}
	for _, n := range nodes {
		reader = n
		for i := range n.args {
			read(&n.args[i], own)
		}
		for i := range n.list {
			read(&n.list[i], own)
		}
		if n.loop != nil {
			inner := clone(own)
			for _, c := range n.loop.carries {
				read(&c.init, own)
				inner[c.item] = true
			}
			u.resolve(n.loop.body, inner)
			for _, c := range n.loop.carries {
				u.uses[c.next]++
				u.deep[c.next] = true
			}
		}
		if n.body != nil {
			inner := clone(own)
			for _, p := range n.params {
				inner[p] = true
			}
			var after []*ref
			for i := range n.yield {
				after = append(after, &n.yield[i])
			}
			u.resolve(n.body, inner, after...)
		}
		for _, d := range n.defs {
			own[d], here[d] = true, true
		}
	}
	for _, r := range after {
		read(r, own)
		u.deep[r.item] = true
	}
}

func flatDefs(nodes []*node) []*item {
	var out []*item
	for _, n := range nodes {
		out = append(out, n.defs...)
	}
	return out
}

func clone(m map[*item]bool) map[*item]bool {
	out := make(map[*item]bool, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
