package pallas

import "github.com/gdngen/gdngen/ir"

// variable is an integer that a loop or a caller sets.
type variable struct{ name string }

// form is (c + sum k v) / div, rounded down; div 1 where there is none.
type form struct {
	c   int
	t   []term
	div int
}

type term struct {
	v *variable
	k int
}

func number(c int) form { return form{c: c, div: 1} }

func (f form) isConst() bool { return len(f.t) == 0 }

// item is a value, a reference, or a list of items.
type item struct {
	typ     ir.Type
	elems   []*item // of a list
	scratch bool
	in      *item // the list that it is an element of
	at      int   // its place there
	param   int   // number of the kernel's parameter, from 1; of a list of scratch that of the first
	maker   *node
	final   *item // what the loop leaves, where this is the value of its last round
}

func (x *item) isList() bool { return x.elems != nil }

// ref is an item, or an item in lists.
type ref struct {
	item *item
	at   []form
}

// plain follows an item to the outermost list that it is in.
func plain(r ref) ref {
	for {
		if r.item.final != nil {
			r.item = r.item.final
			continue
		}
		if r.item.in == nil {
			return r
		}
		r = ref{r.item.in, append([]form{number(r.item.at)}, r.at...)}
	}
}

// node is an instruction, a loop or a list written out.
type node struct {
	in     *ir.Instr
	stage  string
	at     float64 // when its first instruction is due, and its last one, in the time slot of a phase
	until  float64
	begins bool // a level of the order begins here
	head   form
	ints   []form // integers of the attributes, and of constant operands
	args   []ref  // operands that are not constants
	defs   []*item
	loop   *loop
	list   []ref
	group  []*node // what a stage does for one head, as one

	body   []*node // of a loop or condition of the kernel itself
	params []*item
	yield  []ref
}

// loop runs its body for v = 0 .. count-1.
type loop struct {
	v       *variable
	count   form
	body    []*node
	carries []*carry
}

// carry is an item that each round hands to the next.
type carry struct {
	item *item
	init ref
	next *item // of the body
	last *item // what the loop leaves
}

// flatten puts the nodes of groups in their place.
func flatten(nodes []*node) []*node {
	var out []*node
	for _, n := range nodes {
		if n.loop != nil {
			n.loop.body = flatten(n.loop.body)
		}
		if n.group != nil {
			out = append(out, flatten(n.group)...)
		} else {
			out = append(out, n)
		}
	}
	return out
}

// size is the number of instructions written in some nodes.
func size(nodes []*node) int {
	n := 0
	for _, x := range nodes {
		if x.loop != nil {
			n += size(x.loop.body)
		}
		if x.group != nil {
			n += size(x.group)
			continue
		}
		n++
	}
	return n
}
