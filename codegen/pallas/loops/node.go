package loops

import "github.com/gdngen/gdngen/ir"

// Variable is an integer that a loop or a caller sets.
type Variable struct {
	Name   string
	Rounds int // of the loop as it was found; 0: not known
}

// Form is (c + sum k v) / div, rounded down; div 1 where there is none.
type Form struct {
	C   int
	T   []Term
	Div int
}

// Term is K V, or K times the quotient or the rest of V by a number, where that is not 0.
type Term struct {
	V        *Variable
	K        int
	Div, Mod int
}

func Number(c int) Form { return Form{C: c, Div: 1} }

// Values says which of the numbers from 0 to limit - 1 a form may be, each of its terms by itself: all where rounds of a loop are not known.
func (f Form) Values(limit int) map[int]bool {
	at := map[int]bool{f.C: true}
	for _, t := range f.T {
		next := map[int]bool{}
		for v := range t.V.Rounds {
			switch {
			case t.Mod > 0:
				v %= t.Mod
			case t.Div > 0:
				v /= t.Div
			}
			for x := range at {
				next[x+t.K*v] = true
			}
		}
		at = next
	}
	if len(at) == 0 || f.Div > 1 {
		for x := range limit {
			at[x] = true
		}
	}
	return at
}

func (f Form) IsConst() bool { return len(f.T) == 0 }

// Item is a value, a reference, or a list of items.
type Item struct {
	Typ     ir.Type
	Elems   []*Item // of a list
	Scratch bool
	In      *Item // the list that it is an element of
	at      int   // its place there
	Param   int   // number of the kernel's parameter, from 1; of a list of scratch that of the first
	Maker   *Node
	final   *Item // what the loop leaves, where this is the value of its last round
}

// Handed is what a loop's rounds hand on, where the item is what they leave of it, or else the item.
func (x *Item) Handed() *Item {
	if x.Maker != nil && x.Maker.Loop != nil {
		for _, c := range x.Maker.Loop.Carries {
			if c.Last == x {
				return c.Next
			}
		}
	}
	return x
}

// List makes a list of references.
func List(refs []*Item) *Item {
	l := &Item{Typ: refs[0].Typ, Param: refs[0].Param, Scratch: true}
	for _, x := range refs {
		l.Add(x)
	}
	return l
}

// Add makes an item the last of a list.
func (x *Item) Add(e *Item) {
	e.In, e.at = x, len(x.Elems)
	x.Elems = append(x.Elems, e)
}

func (x *Item) IsList() bool { return x.Elems != nil }

// Ref is an item, or an item in lists.
type Ref struct {
	Item *Item
	At   []Form
}

// plain follows an item to the outermost list that it is in.
func plain(r Ref) Ref {
	for {
		if r.Item.final != nil {
			r.Item = r.Item.final
			continue
		}
		if r.Item.In == nil {
			return r
		}
		r = Ref{r.Item.In, append([]Form{Number(r.Item.at)}, r.At...)}
	}
}

// Node is an instruction, a loop or a list written out.
type Node struct {
	In     *ir.Instr
	Stage  string
	begins bool // a level of the order begins here
	Head   Form
	Ints   []Form // integers of the attributes, and of constant operands
	Args   []Ref  // operands that are not constants
	Defs   []*Item
	Loop   *Loop
	List   []Ref
	Call   string  // of an idiom: the helper that makes it of Args and Ints
	Note   string  // its last argument, as written; empty for none
	group  []*Node // what a stage does for one head, as one

	Body   []*Node // of a loop or condition of the kernel itself
	Params []*Item
	Yield  []Ref
}

// Loop runs its body for v = 0 .. count-1.
type Loop struct {
	V       *Variable
	Count   Form
	Body    []*Node
	Carries []*Carry
}

// Carry is an item that each round hands to the next.
type Carry struct {
	Item *Item
	Init Ref
	Next *Item // of the body
	Last *Item // what the loop leaves
}

// flatten puts the nodes of groups in their place.
func flatten(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if n.Loop != nil {
			n.Loop.Body = flatten(n.Loop.Body)
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
func size(nodes []*Node) int {
	n := 0
	for _, x := range nodes {
		if x.Loop != nil {
			n += size(x.Loop.Body)
		}
		if x.group != nil {
			n += size(x.group)
			continue
		}
		n++
	}
	return n
}

// EachRef calls f with every operand of a node.
func EachRef(n *Node, f func(*Ref)) {
	for i := range n.Args {
		f(&n.Args[i])
	}
	for i := range n.List {
		f(&n.List[i])
	}
	for i := range n.Yield {
		f(&n.Yield[i])
	}
	for _, b := range n.Body {
		EachRef(b, f)
	}
	if n.Loop != nil {
		for _, c := range n.Loop.Carries {
			f(&c.Init)
		}
		for _, b := range n.Loop.Body {
			EachRef(b, f)
		}
	}
}

// IsCast tells another view of a reference, which stands wherever it is used.
func IsCast(x *Item) bool {
	return x.Maker != nil && x.Maker.In != nil && x.Maker.In.Op == ir.OpRefCast
}
