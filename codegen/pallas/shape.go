package pallas

import (
	"fmt"
	"math"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// shape is what must be equal in two nodes for them to be rounds of one loop, and where the parts are that may differ.
type shape struct {
	sig  strings.Builder
	text string // sig, when complete
	ints []*form
	refs []*ref
	at   []string // how the indices of refs depend on variables
	vars map[*variable]int
	own  map[*item]int
}

func describe(n *node) *shape {
	s := &shape{vars: map[*variable]int{}, own: map[*item]int{}}
	s.node(n)
	s.text = s.sig.String()
	return s
}

func sameShape(a, b *shape) bool { return a.text == b.text }

func (s *shape) form(f *form) {
	s.sig.WriteString(s.terms(f))
	s.ints = append(s.ints, f)
}

// terms is how a form depends on variables.
func (s *shape) terms(f *form) string {
	var b strings.Builder
	fmt.Fprintf(&b, "f%d", f.div)
	for _, t := range f.t {
		if i, ok := s.vars[t.v]; ok {
			fmt.Fprintf(&b, "+%dv%d", t.k, i)
		} else {
			fmt.Fprintf(&b, "+%d%p", t.k, t.v)
		}
	}
	return b.String()
}

func (s *shape) ref(r *ref) {
	i, ok := s.own[r.item]
	if !ok {
		at := ""
		for i := range r.at {
			at += s.terms(&r.at[i])
		}
		s.refs, s.at = append(s.refs, r), append(s.at, at)
		fmt.Fprintf(&s.sig, "r%s", r.item.typ.DType)
		return
	}
	fmt.Fprintf(&s.sig, "o%d[", i)
	for i := range r.at {
		s.form(&r.at[i])
	}
	s.sig.WriteByte(']')
}

func (s *shape) node(n *node) {
	switch {
	case n.loop != nil:
		s.sig.WriteString("loop(")
		s.form(&n.loop.count)
		s.vars[n.loop.v] = len(s.vars)
		for _, c := range n.loop.carries {
			s.ref(&c.init)
			s.own[c.item] = len(s.own)
		}
		for _, b := range n.loop.body {
			s.node(b)
		}
		for _, c := range n.loop.carries {
			fmt.Fprintf(&s.sig, "next o%d;", s.own[c.next])
		}
		s.sig.WriteByte(')')
		for _, d := range n.defs {
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
	case n.list != nil:
		fmt.Fprintf(&s.sig, "list%p(", n) // no two are alike: a loop makes its own lists
		for i := range n.list {
			s.ref(&n.list[i])
		}
	default:
		s.sig.WriteString(instrSig(n.in))
		s.form(&n.head)
		for i := range n.ints {
			s.form(&n.ints[i])
		}
		for i := range n.args {
			s.ref(&n.args[i])
		}
	}
	s.sig.WriteString(n.stage + ";")
	for _, d := range n.defs {
		s.own[d] = len(s.own)
	}
}

// instrSig is what of an instruction no loop can vary.
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
		if c, ok := constant(a); ok {
			if small(c) {
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
	if in.Body != nil {
		fmt.Fprintf(&b, "%p", in)
	}
	return b.String()
}

// constant is the number that an operand holds in every element.
func constant(v *ir.Value) (float64, bool) {
	if v.Def != nil && v.Def.Op == ir.OpConst {
		return v.Def.Attrs.Value, true
	}
	return 0, false
}

// small tells the integers that may vary with a loop.
func small(c float64) bool { return c == math.Trunc(c) && math.Abs(c) < 1<<15 }

// bodyInts are the integers of an instruction that a loop may vary: starts, limits of a slice, small constant operands, or the bits that a power
// of two shifts by.
func bodyInts(in *ir.Instr) []form {
	var out []form
	if bits, ok := shift(in); ok {
		return []form{number(bits)}
	}
	for _, s := range in.Attrs.Starts {
		out = append(out, number(s))
	}
	if in.Op == ir.OpSlice || in.Op == ir.OpPad {
		for _, s := range in.Attrs.Limits {
			out = append(out, number(s))
		}
	}
	for _, a := range in.Args {
		if c, ok := constant(a); ok && small(c) {
			out = append(out, number(int(c)))
		}
	}
	return out
}
