package loops

import (
	"slices"
	"strings"
)

// operand is one operand of the nodes of a round, with its reference in each round.
type operand struct {
	m     *match
	refs  []Ref
	how   []string        // how the indices depend on variables
	made  []map[*Item]int // what each round makes, by position
	first []*Node         // of round 0
	rest  []Form          // indices inside a list's element
}

// refs fits an operand to its references in the rounds: the same item, a value of this round or the round before, separate scratch, or
// else an element of a list.
func (r *roller) refs(m *match, refs []Ref, how []string, made []map[*Item]int, first []*Node) (Ref, bool) {
	o := &operand{m: m, refs: refs, how: how, made: made, first: first}
	before, kind := o.kind()
	if kind == operandHere {
		if f, ok := o.at(); ok {
			return Ref{refs[0].Item, f}, true
		}
	}
	_, own := made[0][refs[0].Item]
	if before >= 0 && !own {
		if f, ok := o.at(); ok {
			return o.carried(before, f)
		}
		if f, ok := o.carriedElement(before); ok {
			return f, true
		}
	}
	if _, ok := scratchStack(m, refs); ok {
		f := Ref{refs[0].Item, slices.Clone(refs[0].At)}
		for d := range f.At { // indices inside must not change
			for i := range refs {
				if len(refs[i].At) != len(f.At) || refs[i].At[d].C != f.At[d].C {
					return Ref{}, false
				}
			}
		}
		return f, true
	}
	if !r.lists || own || !o.listable() {
		return Ref{}, false
	}
	return r.element(o)
}

// kinds of operands over all rounds
const (
	operandOther = iota
	operandHere  // the same item, or the value that the round itself makes at one position
)

// kind returns the kind of an operand, and the position of the value of the round before; -1 for none.
func (o *operand) kind() (before, kind int) {
	same, own, carried := true, true, true
	q0, inOwn := o.made[0][o.refs[0].Item]
	before = -1
	for i, x := range o.refs {
		same = same && x.Item == o.refs[0].Item
		q, ok := o.made[i][x.Item]
		own = own && inOwn && ok && q == q0
		if i > 0 {
			q, ok := o.made[i-1][x.Item]
			if i == 1 {
				before = q
			}
			carried = carried && ok && q == before
		}
	}
	if !carried {
		before = -1
	}
	if same || own {
		return before, operandHere
	}
	return before, operandOther
}

// at fits the indices.
func (o *operand) at() ([]Form, bool) {
	for _, h := range o.how {
		if h != o.how[0] {
			return nil, false
		}
	}
	out := slices.Clone(o.refs[0].At)
	values := make([]int, len(o.refs))
	for d := range out {
		for i := range o.refs {
			if len(o.refs[i].At) != len(out) {
				return nil, false
			}
			values[i] = o.refs[i].At[d].C
		}
		f, ok := o.m.grow(out[d], values)
		if !ok {
			return nil, false
		}
		out[d] = f
	}
	return out, true
}

// carried returns the value that the round before made at a position.
func (o *operand) carried(place int, at []Form) (Ref, bool) {
	next := madeAt(o.first, o.made[0], place)
	for _, c := range o.m.carries {
		if c.Next == next && c.Init.Item == o.refs[0].Item && len(c.Init.At) == 0 {
			return Ref{c.Item, at}, true
		}
	}
	if len(at) > 0 && !next.IsList() { // the initial value is an element of a list
		return Ref{}, false
	}
	c := &Carry{Item: &Item{Typ: next.Typ}, Init: Ref{Item: o.refs[0].Item}, Next: next}
	o.m.carries = append(o.m.carries, c)
	return Ref{c.Item, at}, true
}

// carriedElement is carried for a value whose initial value is an element of a list.
func (o *operand) carriedElement(place int) (Ref, bool) {
	next := madeAt(o.first, o.made[0], place)
	if next == nil || next.IsList() || !allEmpty(o.refs[1:]) {
		return Ref{}, false
	}
	for _, c := range o.m.carries {
		if c.Next == next && sameRef(c.Init, o.refs[0]) {
			return Ref{Item: c.Item}, true
		}
	}
	c := &Carry{Item: &Item{Typ: next.Typ}, Init: o.refs[0], Next: next}
	o.m.carries = append(o.m.carries, c)
	return Ref{Item: c.Item}, true
}

// listable reports whether a list of the operand's references may be written out: all are made before the loop. Indices after those that
// differ between rounds stay with the operand.
func (o *operand) listable() bool {
	within := func(f Form) bool { return !f.IsConst() }
	p := len(o.refs[0].At)
	for _, x := range o.refs {
		if i := slices.IndexFunc(x.At, within); i >= 0 {
			p = min(p, i)
		}
		if len(x.At) != len(o.refs[0].At) {
			p = min(p, len(x.At))
		}
	}
	for p > 0 && !slices.ContainsFunc(o.refs, func(x Ref) bool { return len(x.At) != len(o.refs[0].At) || !sameForm(x.At[p-1], o.refs[0].At[p-1]) }) {
		p--
	}
	o.rest = o.refs[0].At[p:]
	for i, x := range o.refs {
		for _, made := range o.made {
			if _, ok := made[x.Item]; ok {
				return false
			}
		}
		if x.Item.Typ.IsRef() || strings.TrimRight(o.how[i], "-") != strings.TrimRight(o.how[0], "-") || !slices.EqualFunc(x.At[p:], o.rest, sameForm) {
			return false
		}
		o.refs[i].At = x.At[:p:p]
	}
	return true
}

// element fits an operand to a list's elements: one per round, or each for some rounds in turn.
func (r *roller) element(o *operand) (Ref, bool) {
	refs, k := o.refs, len(o.refs)
	div := 1
	for div < k && sameRef(refs[div], refs[0]) {
		div++
	}
	var elems []Ref
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
		return Ref{}, false
	}
	at := append([]Form{{T: []Term{{V: o.m.v, K: 1}}, Div: div}}, o.rest...)
	for _, n := range append(slices.Clone(r.written), o.m.lists...) {
		if slices.Index(r.nodes, n) >= r.from { // written only further on
			continue
		}
		if len(n.List) >= len(elems) && slices.EqualFunc(n.List[:len(elems)], elems, sameRef) {
			return Ref{n.Defs[0], at}, true
		}
	}
	l := &Item{Typ: refs[0].Item.Typ, Elems: make([]*Item, len(elems))}
	first := o.first[0]
	n := &Node{Stage: first.Stage, List: elems, Defs: []*Item{l}}
	l.Maker = n
	o.m.lists = append(o.m.lists, n)
	return Ref{l, at}, true
}

// maxList is the greatest length of a written-out list.
const maxList = 32

func allEmpty(refs []Ref) bool {
	return !slices.ContainsFunc(refs, func(r Ref) bool { return len(r.At) > 0 })
}

func madeAt(first []*Node, made map[*Item]int, q int) *Item {
	for _, n := range first {
		for _, d := range n.Defs {
			if made[d] == q {
				return d
			}
		}
	}
	return nil
}

func sameRef(a, b Ref) bool {
	return a.Item == b.Item && slices.EqualFunc(a.At, b.At, func(x, y Form) bool { return x.C == y.C && len(x.T) == 0 && len(y.T) == 0 && x.Div == y.Div })
}

// sameForm reports whether two forms are equal except for the names of variables.
func sameForm(x, y Form) bool {
	return x.C == y.C && x.Div == y.Div && slices.EqualFunc(x.T, y.T, func(a, b Term) bool {
		a.V = b.V
		return a == b
	})
}

// scratchStack takes distinct scratch of one type, one per round, as a list.
func scratchStack(m *match, refs []Ref) ([]*Item, bool) {
	var stack []*Item
	for _, x := range refs {
		if !x.Item.Scratch || len(x.Item.Elems) != len(refs[0].Item.Elems) || x.Item.In != nil || !x.Item.Typ.Equal(refs[0].Item.Typ) || slices.Contains(stack, x.Item) {
			return nil, false
		}
		stack = append(stack, x.Item)
	}
	for _, s := range m.stacks {
		if slices.Equal(s, stack) {
			return s, true
		}
		if slices.ContainsFunc(s, func(x *Item) bool { return slices.Contains(stack, x) }) {
			return nil, false
		}
	}
	m.stacks = append(m.stacks, stack)
	return stack, true
}
