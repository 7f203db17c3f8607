package loops

import (
	"fmt"
	"math"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Shape is the part of a node that must be equal in all rounds of a loop, with the positions of the parts that may differ.
type Shape struct {
	sig  strings.Builder
	Text string // sig, when complete
	Ints []*Form
	Refs []*Ref
	at   []string // how the indices of refs depend on variables
	vars map[*Variable]int
	own  map[*Item]int
	head map[*Form]bool // those of Ints that number a node's head
	deep bool           // instructions in bodies are described too
}

// Describe returns the shape of a node that may be a round of a loop. Nodes with bodies never match.
func Describe(n *Node) *Shape { return describe(n, false) }

// DescribeAll returns the shape of nodes that may become one function, including their bodies.
func DescribeAll(nodes []*Node) *Shape {
	return describe(&Node{Loop: &Loop{V: &Variable{}, Count: Number(1), Body: nodes}}, true)
}

func describe(n *Node, deep bool) *Shape {
	s := &Shape{vars: map[*Variable]int{}, own: map[*Item]int{}, head: map[*Form]bool{}, deep: deep}
	s.node(n)
	s.Text = s.sig.String()
	return s
}

func sameShape(a, b *Shape) bool { return a.Text == b.Text }

func (s *Shape) form(f *Form) {
	s.sig.WriteString(s.terms(f))
	s.Ints = append(s.Ints, f)
}

// terms describes how a form depends on variables.
func (s *Shape) terms(f *Form) string {
	var b strings.Builder
	fmt.Fprintf(&b, "f%d", f.Div)
	for _, t := range f.T {
		if i, ok := s.vars[t.V]; ok {
			fmt.Fprintf(&b, "+%dv%d", t.K, i)
		} else {
			fmt.Fprintf(&b, "+%d%p", t.K, t.V)
		}
		fmt.Fprintf(&b, "/%d%%%d", t.Div, t.Mod)
	}
	return b.String()
}

func (s *Shape) ref(r *Ref) {
	x, path := r.Item, ""
	i, ok := s.own[x]
	for s.deep && !ok && (x.final != nil || x.In != nil) { // bodies are rolled: an element of a list, or a loop's final value
		if x.final != nil {
			x = x.final
		} else {
			path, x = fmt.Sprintf("%d.%s", x.at, path), x.In
		}
		i, ok = s.own[x]
	}
	if !ok {
		at := ""
		for i := range r.At {
			at += s.terms(&r.At[i])
		}
		s.Refs, s.at = append(s.Refs, r), append(s.at, at)
		fmt.Fprintf(&s.sig, "r%s", r.Item.Typ.DType)
		if s.deep && r.Item.IsList() { // a loop of a body indexes this scratch: no other reference can replace it
			fmt.Fprintf(&s.sig, "%p", r.Item)
		}
		return
	}
	fmt.Fprintf(&s.sig, "o%d[%s", i, path)
	for i := range r.At {
		s.form(&r.At[i])
	}
	s.sig.WriteByte(']')
}

func (s *Shape) node(n *Node) {
	switch {
	case n.Loop != nil:
		s.sig.WriteString("loop(")
		s.form(&n.Loop.Count)
		s.vars[n.Loop.V] = len(s.vars)
		for _, c := range n.Loop.Carries {
			s.ref(&c.Init)
			s.own[c.Item] = len(s.own)
		}
		for _, b := range n.Loop.Body {
			s.node(b)
		}
		for _, c := range n.Loop.Carries {
			fmt.Fprintf(&s.sig, "next o%d;", s.own[c.Next])
		}
		s.sig.WriteByte(')')
		for _, d := range n.Defs {
			s.own[d] = len(s.own)
		}
		return
	case n.group != nil:
		s.sig.WriteString("group(")
		for _, b := range n.group {
			s.node(b)
		}
		s.sig.WriteByte(')')
		return
	case n.List != nil:
		s.sig.WriteString("list")
		if !s.deep { // no two match: a loop makes its own lists
			fmt.Fprintf(&s.sig, "%p", n)
		}
		s.sig.WriteByte('(')
		for i := range n.List {
			s.ref(&n.List[i])
		}
	default:
		s.sig.WriteString(n.Call + n.Note + instrSig(n.In))
		s.head[&n.Head] = true
		s.form(&n.Head)
		for i := range n.Ints {
			s.form(&n.Ints[i])
		}
		for i := range n.Args {
			s.ref(&n.Args[i])
		}
		s.body(n)
	}
	s.sig.WriteString(n.Stage + ";")
	for _, d := range n.Defs {
		s.own[d] = len(s.own)
	}
}

// body describes the body of an instruction.
func (s *Shape) body(n *Node) {
	if n.In.Body == nil {
		return
	}
	if !s.deep {
		fmt.Fprintf(&s.sig, "%p", n.In)
		return
	}
	for _, p := range n.Params {
		s.own[p] = len(s.own)
	}
	s.sig.WriteString("body(")
	for _, b := range n.Body {
		s.node(b)
	}
	s.sig.WriteString("yield(")
	for i := range n.Yield {
		s.ref(&n.Yield[i])
	}
	s.sig.WriteString("))")
}

// instrSig is the part of an instruction that no loop can vary.
func instrSig(in *ir.Instr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %d %d %v %d", in.Op, in.Attrs.Dims, in.Attrs.Axis, in.Attrs.Cmp, in.Attrs.Prec, in.Attrs.Count)
	if in.Attrs.Dot != nil {
		fmt.Fprintf(&b, "%v", *in.Attrs.Dot)
	}
	for i := range in.Attrs.Starts {
		fmt.Fprintf(&b, "/%d", in.Attrs.Step(i))
	}
	for _, r := range in.Results {
		b.WriteString(r.Type.String())
	}
	for _, a := range in.Args {
		b.WriteByte(',')
		if c, ok := Constant(a); ok {
			if Small(c) {
				b.WriteString("small " + a.Type.String())
			} else {
				fmt.Fprintf(&b, "%v %s", c, a.Type)
			}
		} else if !a.Type.IsRef() {
			b.WriteString(a.Type.String())
		}
	}
	if in.Op == ir.OpPad {
		fmt.Fprintf(&b, " %v", in.Attrs.Value)
	}
	return b.String()
}

// Constant returns the number that all elements of a value have, and whether it is a constant.
func Constant(v *ir.Value) (float64, bool) {
	if v.Def != nil && v.Def.Op == ir.OpConst {
		return v.Def.Attrs.Value, true
	}
	return 0, false
}

// Small reports whether an integer may vary with a loop: below 2^15 in size.
func Small(c float64) bool { return c == math.Trunc(c) && math.Abs(c) < 1<<15 }

// bodyInts returns the integers of an instruction that a loop may vary: starts, limits of a slice, small constant operands, or the bits
// that a power of two shifts by.
func bodyInts(in *ir.Instr) []Form {
	var out []Form
	if bits, ok := Shift(in); ok {
		return []Form{Number(bits)}
	}
	for _, s := range in.Attrs.Starts {
		out = append(out, Number(s))
	}
	if in.Op == ir.OpSlice || in.Op == ir.OpPad {
		for _, s := range in.Attrs.Limits {
			out = append(out, Number(s))
		}
	}
	for _, a := range in.Args {
		if c, ok := Constant(a); ok && Small(c) {
			out = append(out, Number(int(c)))
		}
	}
	return out
}

// Shift returns the number of bits if an instruction divides an iota, which is not negative, by a power of two: the division is then a
// shift.
func Shift(in *ir.Instr) (bits int, ok bool) {
	if in.Op != ir.OpDiv || in.Args[0].Type.DType.IsFloat() || in.Args[0].Def == nil || in.Args[0].Def.Op != ir.OpIota {
		return 0, false
	}
	c, ok := Constant(in.Args[1])
	log := math.Log2(c)
	return int(log), ok && Small(c) && c > 0 && log == math.Trunc(log)
}
