package loops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// chunks makes a stage process the chunks of a step one after another, each in the order of the second, if the schedule interleaves
// them: the chunks then become rounds of a loop. Nodes that only the first chunk has go before it. A stage keeps its order if its chunks
// differ, or if the change could alter the contents of memory.
func (a *arranger) chunks() {
	var out []*Node
	for lo := 0; lo < len(a.nodes); {
		hi := lo + 1
		for hi < len(a.nodes) && a.nodes[hi].Stage == a.nodes[lo].Stage {
			hi++
		}
		if l := byChunk(a.nodes[lo:hi]); l != nil {
			out = append(out, l...)
		} else {
			out = append(out, a.nodes[lo:hi]...)
		}
		lo = hi
	}
	a.nodes = out
}

// byChunk returns the nodes of a stage in order of chunks; nil if there is no such order.
func byChunk(nodes []*Node) []*Node {
	if !independent(nodes) {
		return nil
	}
	maker, of, last := map[*Item]*Node{}, map[*Node]int{}, 0
	for _, n := range nodes {
		of[n] = n.In.Task.Chunk
		last = max(last, of[n])
		for _, d := range n.Defs {
			maker[d] = n
		}
	}
	if last < 2 {
		return nil
	}
	for _, n := range slices.Backward(nodes) { // a node of no chunk goes with its first user
		EachRef(n, func(r *Ref) {
			if m := maker[r.Item]; m != nil && m.In.Task.Chunk < 0 && (of[m] < 0 || of[n] < of[m]) {
				of[m] = of[n]
			}
		})
	}
	parts := make([][]*Node, last+1)
	var front []*Node
	for _, n := range nodes {
		if of[n] < 0 {
			return nil
		}
		parts[of[n]] = append(parts[of[n]], n)
	}
	var rest []*Node
	for c, part := range parts {
		begin, ordered := like(part, parts[1], maker)
		if c > 0 && len(begin) > 0 || ordered == nil {
			return nil
		}
		front, rest = append(front, begin...), append(rest, ordered...)
	}
	rest[0].begins = true
	out := append(once(front, nodes), rest...)
	done := map[*Node]bool{}
	for _, n := range out {
		ok := true
		EachRef(n, func(r *Ref) { ok = ok && (maker[r.Item] == nil || done[maker[r.Item]]) })
		if !ok {
			return nil
		}
		done[n] = true
	}
	return out
}

// independent reports whether no node of a stage reads memory that another stores, and no two store to the same place.
func independent(nodes []*Node) bool {
	stores, loaded := map[*Item][]*Node{}, map[*Item]bool{}
	for _, n := range nodes {
		switch {
		case n.In.Body != nil || n.Call == "eliminate" || n.Call == "merge" || n.In.Op == ir.OpDMAStart || n.In.Op == ir.OpDMAWait:
			return false
		case n.In.Op == ir.OpStore:
			x := under(target(n)[0].Item)
			if slices.ContainsFunc(stores[x], func(m *Node) bool { return overlap(n, m) }) {
				return false
			}
			stores[x] = append(stores[x], n)
		case n.In.Op == ir.OpLoad:
			loaded[under(n.Args[0].Item)] = true
		}
	}
	for x := range stores {
		if loaded[x] {
			return false
		}
	}
	return true
}

// target returns the reference of a store, then its run-time starts. A stored constant is not among a node's arguments.
func target(n *Node) []Ref {
	if _, ok := Constant(n.In.Args[0]); ok {
		return n.Args
	}
	return n.Args[1:]
}

// overlap reports whether two stores to a reference may write the same element.
func overlap(a, b *Node) bool {
	ref, other := a.In.Args[1].Type, b.In.Args[1].Type
	same := func(x, y Ref) bool { return x.Item == y.Item }
	if ref.String() != other.String() || !slices.EqualFunc(target(a)[1:], target(b)[1:], same) {
		return true
	}
	for d := range ref.Rank() {
		extent := func(n *Node) int {
			block := n.In.Args[0].Type.Shape
			if lead := ref.Rank() - len(block); d >= lead {
				return (block[d-lead]-1)*n.In.Attrs.Step(d) + 1
			}
			return 1
		}
		x, y, step := a.Ints[d], b.Ints[d], a.In.Attrs.Step(d)
		if fmt.Sprint(x.T, x.Div) != fmt.Sprint(y.T, y.Div) {
			return true
		}
		if x.C >= y.C+extent(b) || y.C >= x.C+extent(a) || step == b.In.Attrs.Step(d) && (x.C-y.C)%step != 0 {
			return false
		}
	}
	return true
}

// under returns the reference behind casts.
func under(x *Item) *Item {
	for IsCast(x) {
		x = x.Maker.Args[0].Item
	}
	return x
}

// like orders a chunk as another one: first the nodes that the other lacks, then the rest; nil if they differ.
func like(part, other []*Node, maker map[*Item]*Node) (front, ordered []*Node) {
	inside, read := map[*Node]bool{}, map[*Node]bool{}
	for _, n := range other {
		inside[n] = true
		EachRef(n, func(r *Ref) { read[maker[r.Item]] = true })
	}
	twin, used := map[*Node]*Node{}, map[*Node]bool{} // the matching node of other
	var same func(n, m *Node) bool
	same = func(n, m *Node) bool {
		if twin[n] != nil || m == nil || used[m] {
			return twin[n] != nil && twin[n] == m
		}
		if m.Head.C != n.Head.C || len(m.Args) != len(n.Args) || m.Call+m.Note+instrSig(m.In) != n.Call+n.Note+instrSig(n.In) {
			return false
		}
		twin[n], used[m] = m, true
		for i := range n.Args {
			if x := maker[n.Args[i].Item]; inside[x] && !same(x, maker[m.Args[i].Item]) {
				return false
			}
		}
		return true
	}
	for _, n := range other { // from nodes that none of the others reads
		if read[n] {
			continue
		}
		found := slices.ContainsFunc(part, func(m *Node) bool {
			if used[m] {
				return false
			}
			t, u := maps.Clone(twin), maps.Clone(used)
			if same(n, m) {
				return true
			}
			twin, used = t, u
			return false
		})
		if !found {
			return nil, nil
		}
	}
	for _, n := range other {
		ordered = append(ordered, twin[n])
	}
	for _, n := range part {
		if !used[n] {
			front = append(front, n)
		}
	}
	return front, ordered
}

// once removes loads that repeat an earlier load.
func once(front, users []*Node) (out []*Node) {
	first, same := map[string]*Item{}, map[*Item]*Item{}
	for _, n := range front {
		if n.In.Op == ir.OpLoad && len(n.Args) == 1 {
			at := fmt.Sprintf("%p %s %v", n.Args[0].Item, n.Call, n.Ints)
			if x := first[at]; x != nil {
				same[n.Defs[0]] = x
				continue
			}
			first[at] = n.Defs[0]
		}
		out = append(out, n)
	}
	for _, n := range users {
		EachRef(n, func(r *Ref) {
			if x := same[r.Item]; x != nil {
				r.Item = x
			}
		})
	}
	return out
}
