// Package loops finds loops in a straight line of instructions.
//
// A kernel's body is one straight line in which the same operations are written out for every head, block and row. Rolling finds loops
// that unroll to exactly that line. Their rounds are consecutive blocks of nodes. Rounds may differ in integers that grow by a fixed
// step, and in operands that are successive elements of a list or values of the round before.
package loops

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// roller rolls one list of nodes.
type roller struct {
	nodes   []*Node
	shapes  []*Shape
	lists   bool // lists may be written out
	written []*Node
	from    int  // index where the tried match begins
	least   int  // least rounds of a loop
	blocks  bool // integers may grow by one step within blocks of rounds, and by another between blocks
}

// Roll returns the shortest equivalent list of nodes that it finds. The work of a stage for one head is rolled first; these parts then
// become rounds of loops over heads.
func Roll(nodes []*Node) []*Node {
	var parts [][]*Node
	for lo := 0; lo < len(nodes); {
		hi := lo + 1
		for hi < len(nodes) && nodes[hi].Stage == nodes[lo].Stage && nodes[hi].Head.C == nodes[lo].Head.C && !nodes[hi].begins {
			hi++
		}
		parts = append(parts, periods(nodes[lo:hi])...)
		lo = hi
	}
	var groups []*Node
	for _, part := range trim(parts) {
		g := &Node{Stage: part[0].Stage, Head: part[0].Head, group: rollFlat(part, false)}
		g.Defs = FlatDefs(g.group)
		groups = append(groups, g)
	}
	return flatten(rollFlat(flatten(rollFlat(groups, true)), true))
}

// periods splits work of no head if it repeats the same few nodes, which store the elements of a future list.
func periods(part []*Node) [][]*Node {
	if part[0].Head.C >= 0 || len(part[len(part)-1].Defs) > 0 {
		return [][]*Node{part}
	}
	var sigs []string
	for _, n := range part {
		sigs = append(sigs, Describe(n).Text)
	}
	for p := 2; p <= len(part)/3; p++ {
		if len(part)%p == 0 && slices.Equal(sigs[p:], sigs[:len(sigs)-p]) {
			return slices.Collect(slices.Chunk(part, p))
		}
	}
	return [][]*Node{part}
}

// trim splits off, from the work of one head, nodes before or after the part that other heads do alike.
func trim(parts [][]*Node) [][]*Node {
	sigs := make([][]string, len(parts))
	for i, part := range parts {
		for _, n := range part {
			sigs[i] = append(sigs[i], Describe(n).Text)
		}
	}
	var out [][]*Node
	for i, part := range parts {
		before, after := 0, 0
		for _, d := range []int{1, 2, 4} {
			if j := i + d; j < len(parts) && len(sigs[j]) > 2 && before == 0 && after == 0 {
				if n := len(part) - len(sigs[j]); n > 0 && slices.Equal(sigs[i][n:], sigs[j]) {
					before = n
				}
			}
			if j := i - d; j >= 0 && len(sigs[j]) > 2 && before == 0 && after == 0 {
				if n := len(sigs[j]); n < len(part) && slices.Equal(sigs[i][:n], sigs[j]) {
					after = len(part) - n
				}
			}
		}
		if before > 0 {
			out = append(out, part[:before])
		}
		out = append(out, part[before:len(part)-after])
		if after > 0 {
			out = append(out, part[len(part)-after:])
		}
	}
	return out
}

func rollFlat(nodes []*Node, lists bool) []*Node {
	r := &roller{nodes: slices.Clone(nodes), blocks: lists}
	for _, n := range nodes {
		r.shapes = append(r.shapes, Describe(n))
	}
	const all = 1 << 30
	for _, round := range []struct {
		p, rounds int // most nodes per round, least rounds
		lists     bool
	}{{1, 3, false}, {1, 3, true}, {2, 3, false}, {4, 3, true}, {all, 2, false}, {all, 3, true}} {
		if round.lists && !lists {
			continue
		}
		r.least = round.rounds
		for again := true; again; {
			again = false
			for p := 1; p <= min(len(r.nodes)/2, round.p); p++ {
				if r.sweep(p, round.lists) {
					again = true // a shorter list may fit now
					break
				}
			}
		}
	}
	return r.nodes
}

// sweep rolls every run of equal blocks of p nodes.
func (r *roller) sweep(p int, lists bool) bool {
	found := false
	for s := 0; s+2*p <= len(r.nodes); s++ {
		k := 1
		for s+(k+1)*p <= len(r.nodes) && slices.EqualFunc(r.shapes[s:s+p], r.shapes[s+k*p:s+(k+1)*p], sameShape) {
			k++
		}
		if k < 2 {
			continue
		}
		r.lists = false
		m, at := r.longest(s, p, k), s
		if lists {
			r.lists = true
			if o := r.longest(s, p, k); o != nil && (m == nil || saved(o, r.nodes[s:s+p]) > saved(m, r.nodes[s:s+p])) {
				m = o
			}
		}
		if m == nil {
			continue
		}
		r.lists = len(m.lists) > 0
		// Of the positions where rounds may begin, take the one with the fewest carries.
		for t := s + 1; t < s+p && len(m.carries) > 0 && t+m.rounds*p <= len(r.nodes); t++ {
			if o := r.rounds(t, p, m.rounds); o != nil && len(o.carries) < len(m.carries) && len(o.lists) <= len(m.lists) {
				m, at = o, t
			}
		}
		r.replace(at, p, m)
		found = true
	}
	return found
}

// rounds is match, if the nodes have equal shapes.
func (r *roller) rounds(s, p, k int) *match {
	for i := 1; i < k; i++ {
		if !slices.EqualFunc(r.shapes[s:s+p], r.shapes[s+i*p:s+(i+1)*p], sameShape) {
			return nil
		}
	}
	return r.match(s, p, k)
}

// parted reports whether p nodes from s on contain a cast of a reference without its user. No list holds references.
func (r *roller) parted(s, p int) bool {
	views := map[*Item]bool{}
	for _, n := range flatten(slices.Clone(r.nodes[s : s+p])) {
		EachRef(n, func(x *Ref) { delete(views, x.Item) })
		if n.In != nil && n.In.Op == ir.OpRefCast {
			views[n.Defs[0]] = true
		}
	}
	return len(views) > 0
}

// longest returns the match with the most rounds, up to k, that is worth a loop.
func (r *roller) longest(s, p, k int) *match {
	var best *match
	for n := 2; n <= k; n++ {
		m := r.match(s, p, n)
		if m == nil {
			break
		}
		if m.whole() {
			best = m
		}
	}
	if best == nil || best.rounds < r.least || best.rounds == 2 && p < 2 && size(r.nodes[s:s+p]) < 4 {
		return nil
	}
	if len(best.lists) > 0 && (best.rounds < 3 || saved(best, r.nodes[s:s+p]) < 2) {
		return nil
	}
	return best
}

// saved returns the number of instructions that a loop saves.
func saved(m *match, nodes []*Node) int {
	return (m.rounds-1)*size(nodes) - 2*len(m.lists) - len(m.carries)
}

// match says how p nodes from s on change over the rounds of a loop.
type match struct {
	rounds  int
	shapes  [][]*Shape
	ints    []Form // of round 0, with the loop's variable
	refs    []Ref
	v       *Variable
	blocks  bool
	carries []*Carry
	stacks  [][]*Item // scratch that becomes a list
	lists   []*Node
}

// match tries k rounds of p nodes from s on.
func (r *roller) match(s, p, k int) *match {
	if r.parted(s, p) {
		return nil
	}
	m := &match{rounds: k, v: &Variable{}, blocks: r.blocks}
	r.from = s
	made := make([]map[*Item]int, k) // what each round makes
	for i := range k {
		made[i] = map[*Item]int{}
		for _, n := range r.nodes[s+i*p : s+(i+1)*p] {
			for _, d := range n.Defs {
				made[i][d] = len(made[i])
			}
		}
		m.shapes = append(m.shapes, r.shapes[s+i*p:s+(i+1)*p:s+(i+1)*p])
	}
	first := r.nodes[s : s+p]
	values := make([]int, k)
	for j := range p {
		a := m.shapes[0][j]
		for x := range a.Ints {
			for i := range k {
				values[i] = m.shapes[i][j].Ints[x].C
			}
			f, ok := m.grow(*a.Ints[x], values)
			if !ok && a.head[a.Ints[x]] { // several heads
				f, ok = Number(-1), true
			}
			if !ok {
				return nil
			}
			m.ints = append(m.ints, f)
		}
		for x := range a.Refs {
			refs, at := make([]Ref, k), make([]string, k)
			for i := range k {
				refs[i] = plain(*m.shapes[i][j].Refs[x])
				at[i] = m.shapes[i][j].at[x] + strings.Repeat("-", len(refs[i].At))
			}
			f, ok := r.refs(m, refs, at, made, first)
			if !ok {
				return nil
			}
			m.refs = append(m.refs, f)
		}
	}
	return m
}

// whole reports whether no block of rounds is incomplete.
func (m *match) whole() bool {
	forms := slices.Clone(m.ints)
	for _, r := range m.refs {
		forms = append(forms, r.At...)
	}
	return !slices.ContainsFunc(forms, func(f Form) bool {
		return slices.ContainsFunc(f.T, func(t Term) bool { return t.V == m.v && t.Div+t.Mod > 0 && m.rounds%(t.Div+t.Mod) != 0 })
	})
}

// grow fits an integer to its values in the rounds.
func (m *match) grow(f Form, values []int) (Form, bool) {
	v := m.v
	step := values[1] - values[0]
	affine := true
	for i, x := range values {
		affine = affine && x == values[0]+i*step
	}
	switch {
	case affine && step == 0:
		return f, true
	case affine:
		f.T = append(slices.Clone(f.T), Term{V: v, K: step})
		return f, true
	case len(f.T) > 0 || step != 0:
		return m.inBlocks(f, values)
	}
	// The same value for some rounds, then the next: (c + v) / div.
	div := 0
	for div < len(values) && values[div] == values[0] {
		div++
	}
	if div < 2 || div == len(values) {
		return f, false
	}
	for i, x := range values {
		if x != values[0]+i/div {
			return m.inBlocks(f, values)
		}
	}
	return Form{C: values[0] * div, T: []Term{{V: v, K: 1}}, Div: div}, true
}

// inBlocks fits an integer that grows by one step within blocks of rounds, and by another between blocks.
func (m *match) inBlocks(f Form, values []int) (Form, bool) {
	if !m.blocks {
		return f, false
	}
	v := m.v
	step, n := values[1]-values[0], 1
	for n < len(values) && values[n] == values[n-1]+step {
		n++
	}
	if n < 2 || n == len(values) {
		return f, false
	}
	block := values[n] - values[0]
	for i, x := range values {
		if x != values[0]+block*(i/n)+step*(i%n) {
			return f, false
		}
	}
	f.T = slices.Clone(f.T)
	if block != 0 {
		f.T = append(f.T, Term{V: v, K: block, Div: n})
	}
	if step != 0 {
		f.T = append(f.T, Term{V: v, K: step, Mod: n})
	}
	return f, true
}

// replace puts a loop in place of its rounds.
func (r *roller) replace(s, p int, m *match) {
	first := r.nodes[s : s+p]
	body := slices.Clone(first)
	// Lists of the rounds' results.
	var lists []*Item
	rounds := make([][]*Item, m.rounds)
	for i := range m.rounds {
		for _, n := range r.nodes[s+i*p : s+(i+1)*p] {
			rounds[i] = append(rounds[i], n.Defs...)
		}
	}
	m.v.Rounds = m.rounds
	l := &Loop{V: m.v, Count: Number(m.rounds), Body: body, Carries: m.carries}
	n := &Node{Stage: first[0].Stage, Loop: l}
	x, y := 0, 0
	for _, shape := range m.shapes[0] {
		for _, f := range shape.Ints {
			*f = m.ints[x]
			x++
		}
	}
	// The integers of operands are among the nodes' integers, so operands are set after them.
	for _, shape := range m.shapes[0] {
		for _, f := range shape.Refs {
			*f = m.refs[y]
			y++
		}
	}
	for q := range rounds[0] {
		g := &Item{Typ: rounds[0][q].Typ, Maker: n}
		for i := range m.rounds {
			g.Add(rounds[i][q])
		}
		lists = append(lists, g)
	}
	for _, stack := range m.stacks {
		g := List(stack)
		for _, shape := range m.shapes[0] {
			for _, f := range shape.Refs {
				if f.Item == stack[0] {
					*f = Ref{g, append([]Form{{T: []Term{{V: m.v, K: 1}}, Div: 1}}, f.At...)}
				}
			}
		}
	}
	for _, c := range m.carries {
		q := slices.Index(rounds[0], c.Next)
		c.Last = &Item{Typ: c.Item.Typ, Maker: n}
		rounds[m.rounds-1][q].final = c.Last
		lists = append(lists, c.Last)
	}
	n.Defs = lists
	r.written = append(r.written, m.lists...)
	nodes := append(slices.Clone(m.lists), n)
	var shapes []*Shape
	for _, x := range nodes {
		shapes = append(shapes, Describe(x))
	}
	r.nodes = slices.Replace(r.nodes, s, s+m.rounds*p, nodes...)
	r.shapes = slices.Replace(r.shapes, s, s+m.rounds*p, shapes...)
}
