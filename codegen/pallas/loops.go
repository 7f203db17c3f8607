package pallas

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// loop writes a loop; as a comprehension if it only makes one list.
func (p *printer) loop(n *loops.Node) []statement {
	l := n.Loop
	inner := loops.FlatDefs(l.Body)
	elements, finals := n.Defs[:len(inner)], n.Defs[len(inner):]
	for _, g := range elements { // names of lists come before their elements' names
		if p.listed(g) && p.names[g] == "" {
			p.name(g)
		}
	}
	out := p.beginCarries(l)
	l.V.Name = p.variable(n)
	p.loops++
	p.busy[l.V.Name] = true
	body := p.nodes(l.Body)
	for _, c := range l.Carries {
		if p.names[c.Next] != p.names[c.Item] {
			body = append(body, statement{name: p.names[c.Item], value: p.ref(loops.Ref{Item: c.Next}).s})
		}
	}
	delete(p.busy, l.V.Name)
	p.loops--
	head := "for " + l.V.Name + " in range(" + formText(l.Count).s + ")"
	if !uses(body, l.V.Name) {
		head = "for _ in range(" + formText(l.Count).s + ")"
	}
	var lists []*loops.Item
	for _, g := range elements {
		if p.listed(g) {
			lists = append(lists, g)
		}
	}
	if len(lists) == 1 && len(body) == 1 && body[0].list != "" && len(l.Carries) == 0 {
		return append(out, p.comprehension(lists[0], body[0].value+" "+head)...)
	}
	if apart := p.separateLists(n, lists, body, head); apart != nil {
		return append(out, apart...)
	}
	var names []string
	for _, g := range lists {
		names = append(names, p.name(g))
	}
	targets, empty := pytext.EmptyLists(names, lineWidth-4*p.loops-1)
	for i, t := range targets {
		out = append(out, statement{name: t, value: empty[i]})
	}
	s := statement{lines: []string{head + ":"}}
	for _, b := range body {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	return append(append(out, s), p.afterLoop(n, finals)...)
}

// separateLists writes one comprehension per list for a short loop that makes several independent ones, if each fits a line; else nil.
func (p *printer) separateLists(n *loops.Node, lists []*loops.Item, body []statement, head string) (out []statement) {
	if len(lists) != len(body) || len(lists) > 4 || len(n.Loop.Carries) > 0 {
		return nil
	}
	for i, g := range lists {
		made := p.comprehension(g, body[i].value+" "+head)
		if body[i].list != p.name(g) || len(made) > 1 || width(made[0].text()[0]) > lineWidth+2-4*p.loops {
			return nil
		}
		out = append(out, made...)
	}
	return out
}

// lineWidth is the width left for a function's statements.
const lineWidth = 80

// beginCarries names the carried values of a loop and sets their first values. A first value read only here may keep its name.
func (p *printer) beginCarries(l *loops.Loop) (out []statement) {
	for _, c := range l.Carries {
		if x := c.Init.Item; len(c.Init.At) == 0 && p.Uses[x] == 1 && p.names[x] != "" && !p.keep[x] && x.Param == 0 {
			p.names[c.Item] = p.names[x]
		} else {
			p.names[c.Item] = p.fresh(naming.Unnumbered(p.base(c.Next)))
			out = append(out, statement{name: p.names[c.Item], value: p.ref(c.Init).s})
		}
		if p.replaces(l.Body, c) {
			p.names[c.Next] = p.names[c.Item]
		}
	}
	return out
}

// comprehension writes a list, which an outer loop may append to its own.
func (p *printer) comprehension(g *loops.Item, text string) []statement {
	s := statement{value: "[" + text + "]"}
	s.name = p.name(g)
	if p.listed(g.In) && !p.keep[g] {
		if p.Uses[g] == 0 {
			s.list, s.name = p.name(g.In), ""
			return []statement{s}
		}
		return []statement{s, {list: p.name(g.In), value: s.name}}
	}
	return []statement{s}
}

// afterLoop names a loop's final values, and adds its lists to the lists of an outer loop.
func (p *printer) afterLoop(n *loops.Node, finals []*loops.Item) (out []statement) {
	for _, g := range n.Defs {
		if slices.Contains(finals, g) && p.names[g] == "" {
			for _, c := range n.Loop.Carries {
				if c.Last == g {
					p.names[g] = p.names[c.Item]
				}
			}
		}
		if p.listed(g.In) && (p.listed(g) || slices.Contains(finals, g)) {
			out = append(out, statement{list: p.name(g.In), value: p.name(g)})
		}
	}
	return out
}

// uses reports whether a name occurs in the text.
func uses(body []statement, name string) bool {
	for _, b := range body {
		for _, t := range b.text() {
			for _, w := range strings.FieldsFunc(t, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			}) {
				if w == name {
					return true
				}
			}
		}
	}
	return false
}

// replaces reports whether a carry's next value may take the name of the old one: nothing reads the old one after it.
func (p *printer) replaces(body []*loops.Node, c *loops.Carry) bool {
	if c.Next.IsList() && len(c.Next.Elems) == 0 {
		return false
	}
	seen := false
	for _, n := range body {
		if seen && reads(n, c.Item) {
			return false
		}
		if slices.Contains(n.Defs, c.Next) {
			seen = true
			if n.Loop != nil { // built while the old one is read
				return false
			}
		}
	}
	return true
}

func reads(n *loops.Node, x *loops.Item) bool {
	is := func(r loops.Ref) bool { return r.Item == x }
	if slices.ContainsFunc(n.Args, is) || slices.ContainsFunc(n.List, is) || slices.ContainsFunc(n.Yield, is) {
		return true
	}
	sub := n.Body
	if n.Loop != nil {
		sub = append(slices.Clone(n.Loop.Body), sub...)
		for _, c := range n.Loop.Carries {
			if is(c.Init) || c.Next == x {
				return true
			}
		}
	}
	return slices.ContainsFunc(sub, func(m *loops.Node) bool { return reads(m, x) })
}

// variable names a loop's variable: h if it counts heads.
func (p *printer) variable(n *loops.Node) string {
	if headed(n.Loop.Body, n.Loop.V) {
		return p.loopName("h")
	}
	return p.loopName()
}

// loopName returns a free name for a loop's variable; first has preferred ones.
func (p *printer) loopName(first ...string) string {
	names := append(first, "i", "j", "m", "n", "r")
	for _, s := range names {
		if !p.busy[s] && !p.taken[s] {
			return s
		}
	}
	return p.fresh("i")
}

func headed(ns []*loops.Node, v *loops.Variable) bool {
	for _, n := range ns {
		if n.Loop != nil && headed(n.Loop.Body, v) {
			return true
		}
		for _, t := range n.Head.T {
			if t.V == v && t.K == 1 && n.Head.C == 0 {
				return true
			}
		}
	}
	return false
}

// foriLoop writes a loop of the kernel as jax.lax.fori_loop.
func (p *printer) foriLoop(n *loops.Node) []statement {
	name := p.fresh("round")
	var carried []string
	for _, x := range n.Params[1:] {
		carried = append(carried, p.name(x))
	}
	i := p.name(n.Params[0])
	state := lists.Tuple(carried)
	s := statement{lines: []string{fmt.Sprintf("def %s(%s, carried):", name, i)}}
	if len(carried) > 0 {
		s.lines = append(s.lines, "    "+state+" = carried")
	}
	for _, b := range p.nodes(n.Body) {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	var results, init, outs []string
	for _, y := range n.Yield {
		results = append(results, p.ref(y).s)
	}
	o := p.operands(n)
	for i := range n.In.Args {
		init = append(init, o.full(i).s)
	}
	for _, d := range n.Defs {
		if p.Uses[d] == 0 && !p.keep[d] {
			outs = append(outs, "_")
			continue
		}
		outs = append(outs, p.name(d))
	}
	s.lines = append(s.lines, "    return "+lists.Tuple(results))
	left := ""
	if len(outs) > 0 {
		left = lists.Tuple(outs) + " = "
	}
	run := statement{value: fmt.Sprintf("%slax.fori_loop(0, %d, %s, %s)", left, n.In.Attrs.Count, name, lists.Tuple(init))}
	return []statement{s, run}
}
