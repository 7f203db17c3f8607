package pallas

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// A kernel's body is one straight line in which the same few operations are written out for every head, block and row.
// Rolling finds loops whose rounds, written out, give exactly that line: blocks of nodes that follow one another and differ
// only in integers that grow by a fixed step, and in operands that are the items of a list in turn, or what the round before
// made.

// roller rolls one list of nodes.
type roller struct {
	nodes   []*node
	shapes  []*shape
	lists   bool // lists may be written out
	written []*node
	from    int // where the match that is tried begins
	least   int // rounds of a loop
}

// roll gives the shortest list of nodes that it finds for a straight line. What a stage does for one head is rolled by itself
// first; then those parts are rounds of loops over heads.
func roll(nodes []*node) []*node {
	var parts [][]*node
	for lo := 0; lo < len(nodes); {
		hi := lo + 1
		for hi < len(nodes) && nodes[hi].stage == nodes[lo].stage && nodes[hi].head.c == nodes[lo].head.c && !nodes[hi].begins {
			hi++
		}
		parts = append(parts, nodes[lo:hi])
		lo = hi
	}
	var groups []*node
	for _, part := range trim(parts) {
		g := &node{stage: part[0].stage, head: part[0].head, group: rollFlat(part, false)}
		g.at, g.until = due(part)
		g.defs = flatDefs(g.group)
		groups = append(groups, g)
	}
	return flatten(rollFlat(groups, true))
}

// due is when the first of some nodes is due, and the last.
func due(nodes []*node) (first, last float64) {
	first = nodes[0].at
	for _, n := range nodes {
		first, last = min(first, n.at), max(last, n.until)
	}
	return first, last
}

// trim cuts from the work of one head what stands before or after that which other heads do alike.
func trim(parts [][]*node) [][]*node {
	sigs := make([][]string, len(parts))
	for i, part := range parts {
		for _, n := range part {
			sigs[i] = append(sigs[i], describe(n).text)
		}
	}
	var out [][]*node
	for i, part := range parts {
		before, after := 0, 0
		for _, d := range []int{1, 2, 4} {
			if j := i + d; j < len(parts) && len(sigs[j]) > 2 && before == 0 {
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

func rollFlat(nodes []*node, lists bool) []*node {
	r := &roller{nodes: slices.Clone(nodes)}
	for _, n := range nodes {
		r.shapes = append(r.shapes, describe(n))
	}
	const all = 1 << 30
	for _, round := range []struct {
		p, rounds int // most nodes of a round, least rounds
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
					again = true // what is shorter may fit now
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
		// Of the places where rounds may begin, that which hands the least from round to round.
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

// rounds is match, where the nodes have the shape for it.
func (r *roller) rounds(s, p, k int) *match {
	for i := 1; i < k; i++ {
		if !slices.EqualFunc(r.shapes[s:s+p], r.shapes[s+i*p:s+(i+1)*p], sameShape) {
			return nil
		}
	}
	return r.match(s, p, k)
}

// parted says whether p nodes from s on hold another view of a reference without its user. No list holds references.
func (r *roller) parted(s, p int) bool {
	views := map[*item]bool{}
	for _, n := range flatten(slices.Clone(r.nodes[s : s+p])) {
		visit(n, func(x *ref) { delete(views, x.item) })
		if n.in != nil && n.in.Op == ir.OpRefCast {
			views[n.defs[0]] = true
		}
	}
	return len(views) > 0
}

// longest is the match of as many rounds as possible, up to k, that is worth a loop.
func (r *roller) longest(s, p, k int) *match {
	var best *match
	for n := 2; n <= k; n++ {
		m := r.match(s, p, n)
		if m == nil {
			break
		}
		best = m
	}
	if best == nil || best.rounds < r.least || best.rounds == 2 && p < 2 && size(r.nodes[s:s+p]) < 4 {
		return nil
	}
	if len(best.lists) > 0 && (best.rounds < 3 || saved(best, r.nodes[s:s+p]) < 2) {
		return nil
	}
	return best
}

// saved is the number of instructions that a loop spares the reader.
func saved(m *match, nodes []*node) int {
	return (m.rounds-1)*size(nodes) - 2*len(m.lists) - len(m.carries)
}

// match says how p nodes from s on change over the rounds of a loop.
type match struct {
	rounds  int
	shapes  [][]*shape
	ints    []form // of round 0, with the loop's variable
	refs    []ref
	v       *variable
	carries []*carry
	stacks  [][]*item // scratch that becomes a list
	lists   []*node
}

// match tries k rounds of p nodes from s on.
func (r *roller) match(s, p, k int) *match {
	if r.parted(s, p) {
		return nil
	}
	m := &match{rounds: k, v: &variable{}}
	r.from = s
	made := make([]map[*item]int, k) // what each round makes
	for i := range k {
		made[i] = map[*item]int{}
		for _, n := range r.nodes[s+i*p : s+(i+1)*p] {
			for _, d := range n.defs {
				made[i][d] = len(made[i])
			}
		}
		m.shapes = append(m.shapes, r.shapes[s+i*p:s+(i+1)*p:s+(i+1)*p])
	}
	first := r.nodes[s : s+p]
	values := make([]int, k)
	for j := range p {
		a := m.shapes[0][j]
		for x := range a.ints {
			for i := range k {
				values[i] = m.shapes[i][j].ints[x].c
			}
			f, ok := grow(*a.ints[x], values, m.v)
			if !ok {
				return nil
			}
			m.ints = append(m.ints, f)
		}
		for x := range a.refs {
			refs, at := make([]ref, k), make([]string, k)
			for i := range k {
				refs[i] = plain(*m.shapes[i][j].refs[x])
				at[i] = m.shapes[i][j].at[x] + strings.Repeat("-", len(refs[i].at))
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

// grow fits an integer to its values in the rounds.
func grow(f form, values []int, v *variable) (form, bool) {
	step := values[1] - values[0]
	affine := true
	for i, x := range values {
		affine = affine && x == values[0]+i*step
	}
	switch {
	case affine && step == 0:
		return f, true
	case affine && f.div == 1:
		f.t = append(slices.Clone(f.t), term{v, step})
		return f, true
	case f.div != 1 || len(f.t) > 0:
		return f, false
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
			return f, false
		}
	}
	return form{c: values[0] * div, t: []term{{v, 1}}, div: div}, true
}

// refs fits an operand to what it is in the rounds.
func (r *roller) refs(m *match, refs []ref, how []string, made []map[*item]int, first []*node) (ref, bool) {
	k := len(refs)
	at := func() ([]form, bool) {
		for _, h := range how {
			if h != how[0] {
				return nil, false
			}
		}
		out := slices.Clone(refs[0].at)
		values := make([]int, k)
		for d := range out {
			for i := range k {
				if len(refs[i].at) != len(out) {
					return nil, false
				}
				values[i] = refs[i].at[d].c
			}
			f, ok := grow(out[d], values, m.v)
			if !ok {
				return nil, false
			}
			out[d] = f
		}
		return out, true
	}
	same, own, carried := true, true, true
	q0, inOwn := made[0][refs[0].item]
	qc := -1
	for i, x := range refs {
		same = same && x.item == refs[0].item
		q, ok := made[i][x.item]
		own = own && inOwn && ok && q == q0
		if i > 0 {
			q, ok := made[i-1][x.item]
			if i == 1 {
				qc = q
			}
			carried = carried && ok && q == qc
		}
	}
	if same || own {
		if f, ok := at(); ok {
			return ref{refs[0].item, f}, true
		}
	}
	if carried && !inOwn {
		if f, ok := at(); ok {
			var next *item
			for _, n := range first {
				for _, d := range n.defs {
					if made[0][d] == qc {
						next = d
					}
				}
			}
			for _, c := range m.carries {
				if c.next == next && c.init.item == refs[0].item && len(c.init.at) == 0 {
					return ref{c.item, f}, true
				}
			}
			c := &carry{item: &item{typ: next.typ}, init: ref{item: refs[0].item}, next: next}
			if len(f) > 0 && !next.isList() { // an element of a list to begin with
				return ref{}, false
			}
			m.carries = append(m.carries, c)
			return ref{c.item, f}, true
		}
		// A value that begins as an element of a list.
		if next := madeAt(first, made[0], qc); next != nil && !next.isList() && allEmpty(refs[1:]) {
			for _, c := range m.carries {
				if c.next == next && sameRef(c.init, refs[0]) {
					return ref{item: c.item}, true
				}
			}
			c := &carry{item: &item{typ: next.typ}, init: refs[0], next: next}
			m.carries = append(m.carries, c)
			return ref{item: c.item}, true
		}
	}
	if stack, ok := scratchStack(m, refs); ok {
		f := ref{refs[0].item, slices.Clone(refs[0].at)}
		for d := range f.at { // the places within must not change
			for i := range k {
				if refs[i].at[d].c != f.at[d].c {
					return ref{}, false
				}
			}
		}
		_ = stack
		return f, true
	}
	if !r.lists || inOwn {
		return ref{}, false
	}
	for i := range refs {
		for j := range made {
			if _, ok := made[j][refs[i].item]; ok {
				return ref{}, false
			}
		}
		if refs[i].item.typ.IsRef() {
			return ref{}, false
		}
		for _, f := range refs[i].at {
			if !f.isConst() {
				return ref{}, false
			}
		}
	}
	// Each of the list for one round, or for some rounds in turn.
	div := 1
	for div < k && sameRef(refs[div], refs[0]) {
		div++
	}
	var elems []ref
	for i, x := range refs {
		if !sameRef(x, refs[i/div*div]) {
			div = 1
			break
		}
	}
	for i := 0; i < k; i += div {
		elems = append(elems, refs[i])
	}
	if len(elems) > maxList {
		return ref{}, false
	}
	at0 := []form{{t: []term{{m.v, 1}}, div: div}}
	for _, n := range append(slices.Clone(r.written), m.lists...) {
		if slices.Index(r.nodes, n) >= r.from { // written only further on
			continue
		}
		if len(n.list) >= len(elems) && slices.EqualFunc(n.list[:len(elems)], elems, sameRef) {
			return ref{n.defs[0], at0}, true
		}
	}
	l := &item{typ: refs[0].item.typ, elems: make([]*item, len(elems))}
	n := &node{stage: first[0].stage, at: first[0].at, until: first[0].at, list: elems, defs: []*item{l}}
	l.maker = n
	m.lists = append(m.lists, n)
	return ref{l, at0}, true
}

// maxList is how many elements a list that is written out may have.
const maxList = 16

func allEmpty(refs []ref) bool {
	return !slices.ContainsFunc(refs, func(r ref) bool { return len(r.at) > 0 })
}

func madeAt(first []*node, made map[*item]int, q int) *item {
	for _, n := range first {
		for _, d := range n.defs {
			if made[d] == q {
				return d
			}
		}
	}
	return nil
}

func sameRef(a, b ref) bool {
	return a.item == b.item && slices.EqualFunc(a.at, b.at, func(x, y form) bool { return x.c == y.c && len(x.t) == 0 && len(y.t) == 0 && x.div == y.div })
}

// scratchStack takes distinct scratch of one type, one for each round, as a list.
func scratchStack(m *match, refs []ref) ([]*item, bool) {
	var stack []*item
	for _, x := range refs {
		if !x.item.scratch || len(x.item.elems) != len(refs[0].item.elems) || x.item.in != nil || !x.item.typ.Equal(refs[0].item.typ) || slices.Contains(stack, x.item) {
			return nil, false
		}
		stack = append(stack, x.item)
	}
	for _, s := range m.stacks {
		if slices.Equal(s, stack) {
			return s, true
		}
		if slices.ContainsFunc(s, func(x *item) bool { return slices.Contains(stack, x) }) {
			return nil, false
		}
	}
	m.stacks = append(m.stacks, stack)
	return stack, true
}

// replace puts a loop in the place of its rounds.
func (r *roller) replace(s, p int, m *match) {
	first := r.nodes[s : s+p]
	body := slices.Clone(first)
	// Lists of what the rounds make.
	var lists []*item
	rounds := make([][]*item, m.rounds)
	for i := range m.rounds {
		for _, n := range r.nodes[s+i*p : s+(i+1)*p] {
			rounds[i] = append(rounds[i], n.defs...)
		}
	}
	l := &loop{v: m.v, count: number(m.rounds), body: body, carries: m.carries}
	n := &node{stage: first[0].stage, loop: l}
	n.at, n.until = due(r.nodes[s : s+p*m.rounds])
	x, y := 0, 0
	for _, shape := range m.shapes[0] {
		for _, f := range shape.ints {
			*f = m.ints[x]
			x++
		}
	}
	// The integers of operands are among those of the nodes: operands are set after, with their own.
	for _, shape := range m.shapes[0] {
		for _, f := range shape.refs {
			*f = m.refs[y]
			y++
		}
	}
	for q := range rounds[0] {
		g := &item{typ: rounds[0][q].typ, maker: n}
		for i := range m.rounds {
			e := rounds[i][q]
			e.in, e.at = g, i
			g.elems = append(g.elems, e)
		}
		lists = append(lists, g)
	}
	for _, stack := range m.stacks {
		g := &item{typ: stack[0].typ, param: stack[0].param, elems: stack, scratch: true}
		for i, e := range stack {
			e.in, e.at = g, i
		}
		for _, shape := range m.shapes[0] {
			for _, f := range shape.refs {
				if f.item == stack[0] {
					*f = ref{g, append([]form{{t: []term{{m.v, 1}}, div: 1}}, f.at...)}
				}
			}
		}
	}
	for _, c := range m.carries {
		q := slices.Index(rounds[0], c.next)
		c.last = &item{typ: c.item.typ, maker: n}
		rounds[m.rounds-1][q].final = c.last
		lists = append(lists, c.last)
	}
	n.defs = lists
	r.written = append(r.written, m.lists...)
	nodes := append(slices.Clone(m.lists), n)
	var shapes []*shape
	for _, x := range nodes {
		shapes = append(shapes, describe(x))
	}
	r.nodes = slices.Replace(r.nodes, s, s+m.rounds*p, nodes...)
	r.shapes = slices.Replace(r.shapes, s, s+m.rounds*p, shapes...)
}
