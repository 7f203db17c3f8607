package loops

import "github.com/gdngen/gdngen/ir"

// Variable is an integer that a loop or a caller sets.
type Variable struct {
	Name   string
	Rounds int // of the loop when found; 0: unknown
}

// Form is (C + sum of T) / Div, rounded down; Div is 1 for no division.
type Form struct {
	C   int
	T   []Term
	Div int
}

// Term is K V, or K (V / Div) or K (V % Mod) if that field is not 0.
type Term struct {
	V        *Variable
	K        int
	Div, Mod int
}

func Number(c int) Form { return Form{C: c, Div: 1} }

// Values returns the numbers from 0 to limit - 1 that a form may take, treating its terms as independent; all if the rounds of a loop
// are unknown.
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
	at      int   // its index there
	Param   int   // number of the kernel's parameter, from 1; for a list of scratch, its first element's
	Maker   *Node
	final   *Item // the loop's result, if this is the value of its last round
}

// Handed returns the value that a loop passes from one iteration to the next, if x is its final value after the loop;
// otherwise x.
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

// List returns a list of references.
func List(refs []*Item) *Item {
	l := &Item{Typ: refs[0].Typ, Param: refs[0].Param, Scratch: true}
	for _, x := range refs {
		l.Add(x)
	}
	return l
}

// Add appends an item to a list.
func (x *Item) Add(e *Item) {
	e.In, e.at = x, len(x.Elems)
	x.Elems = append(x.Elems, e)
}

func (x *Item) IsList() bool { return x.Elems != nil }

// Ref is an item, or an element of a list of items.
type Ref struct {
	Item *Item
	At   []Form
}

// plain follows an item to the outermost list that contains it.
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

// Node is an instruction, a loop or a written-out list.
type Node struct {
	In     *ir.Instr
	Stage  string
	begins bool // a level of the order begins here
	Head   Form
	Ints   []Form // integers of the attributes and of constant operands
	Args   []Ref  // operands other than constants
	Defs   []*Item
	Loop   *Loop
	List   []Ref
	Call   string  // for an idiom: the helper that is called with Args and Ints
	Note   string  // its last argument as text; "" for none
	group  []*Node // the work of a stage for one head, as one node

	Body   []*Node // of a loop or condition in the kernel
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

// Carry is an item that each round passes to the next.
type Carry struct {
	Item *Item
	Init Ref
	Next *Item // a value of the body
	Last *Item // the loop's final value
}

// flatten replaces groups by their nodes.
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

// size returns the number of instructions written for some nodes.
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

// IsCast reports whether an item is a cast of a reference; casts are inlined.
func IsCast(x *Item) bool {
	return x.Maker != nil && x.Maker.In != nil && x.Maker.In.Op == ir.OpRefCast
}
