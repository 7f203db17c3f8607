package loops

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// merge makes one loop of loops that follow one another with as many rounds, where all that they do is to begin copies, or to wait for
// some, and to look numbers up for them. What several of them compute is computed once.
func merge(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if last := len(out) - 1; last >= 0 && mergeable(out[last], n) {
			out[last].absorb(n)
			continue
		}
		out = append(out, n)
	}
	for _, n := range out {
		if ok, _, _ := copies([]*Node{n}); ok && n.Loop != nil {
			n.once(out)
		}
	}
	return out
}

// copies says whether nodes do no more than begin copies and wait for some, and which.
func copies(nodes []*Node) (ok, start, wait bool) {
	for _, n := range nodes {
		switch {
		case n.Loop != nil:
			some, s, w := copies(n.Loop.Body)
			if !some || len(n.Loop.Carries) > 0 {
				return false, start, wait
			}
			start, wait = start || s, wait || w
		case n.List != nil || n.Body != nil || n.In.Body != nil:
			return false, start, wait
		case n.In.Op == ir.OpDMAStart:
			start = true
		case n.In.Op == ir.OpDMAWait:
			wait = true
		case !n.pure():
			return false, start, wait
		}
	}
	return true, start, wait
}

// pure says whether an instruction gives the same wherever it stands: tables do not change.
func (n *Node) pure() bool {
	return n.In.Op.Pure() || n.In.Op == ir.OpLoad && n.In.Args[0].Type.Space == ir.SMEM
}

func mergeable(a, b *Node) bool {
	if a.Loop == nil || b.Loop == nil || !a.Loop.Count.IsConst() || !b.Loop.Count.IsConst() || a.Loop.Count.C != b.Loop.Count.C {
		return false
	}
	ok, start, wait := copies([]*Node{a, b})
	if !ok || start && wait {
		return false
	}
	Visit(b, func(r *Ref) { // of what a leaves, a round of b reads what the same round of a made
		ok = ok && (!slices.Contains(a.Defs, r.Item) || sameRound(r, b.Loop.V))
	})
	return ok
}

func sameRound(r *Ref, v *Variable) bool {
	return len(r.At) > 0 && sameForm(r.At[0], Form{T: []Term{{V: v, K: 1}}, Div: 1}) && r.At[0].T[0].V == v
}

// absorb takes the rounds of another loop into those of n.
func (n *Node) absorb(b *Node) {
	made := FlatDefs(n.Loop.Body)
	Visit(b, func(r *Ref) {
		if i := slices.Index(n.Defs, r.Item); i >= 0 {
			*r = Ref{made[i], r.At[1:]}
		}
	})
	rename(b.Loop.Body, b.Loop.V, n.Loop.V)
	n.Loop.Body, n.Defs = append(n.Loop.Body, b.Loop.Body...), append(n.Defs, b.Defs...)
	n.Until = max(n.Until, b.Until)
}

// rename has forms count by another variable.
func rename(nodes []*Node, from, to *Variable) {
	form := func(f *Form) {
		f.T = slices.Clone(f.T)
		for i := range f.T {
			if f.T[i].V == from {
				f.T[i].V = to
			}
		}
	}
	for _, n := range nodes {
		form(&n.Head)
		for i := range n.Ints {
			form(&n.Ints[i])
		}
		Visit(n, func(r *Ref) {
			for i := range r.At {
				form(&r.At[i])
			}
		})
		if n.Loop != nil {
			rename(n.Loop.Body, from, to)
		}
	}
}

// once computes once what a loop's rounds compute several times, where no other node reads it.
func (n *Node) once(all []*Node) {
	read := map[*Item]bool{}
	for _, m := range all {
		Visit(m, func(r *Ref) { read[r.Item] = true })
	}
	first, same := map[string]*Item{}, map[*Item]*Item{}
	var body []*Node
	var defs []*Item
	i := 0
	for _, m := range n.Loop.Body {
		own := n.Defs[i : i+len(m.Defs)]
		i += len(m.Defs)
		Visit(m, func(r *Ref) {
			if x := same[r.Item]; x != nil {
				r.Item = x
			}
		})
		if m.Loop == nil && len(m.Defs) == 1 && m.pure() {
			key := fmt.Sprint(m.Call, m.Note, instrSig(m.In), m.Ints, m.Args)
			if x := first[key]; x != nil && !read[own[0]] {
				same[m.Defs[0]] = x
				continue
			} else if x == nil {
				first[key] = m.Defs[0]
			}
		}
		body, defs = append(body, m), append(defs, own...)
	}
	n.Loop.Body, n.Defs = body, defs
}
