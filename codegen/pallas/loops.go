package pallas

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// loop writes a loop: a comprehension where all it does is make one list.
func (p *printer) loop(n *node) []statement {
	l := n.loop
	var out []statement
	inner := flatDefs(l.body)
	elements, finals := n.defs[:len(inner)], n.defs[len(inner):]
	for _, g := range elements { // names of lists come before those of elements
		if p.listed(g) && p.names[g] == "" {
			p.name(g)
		}
	}
	for _, c := range l.carries {
		// What begins the carry may go by its name.
		if len(c.init.at) == 0 && p.uses[c.init.item] == 1 && !c.init.item.isList() && p.names[c.init.item] != "" && !p.keep[c.init.item] && c.init.item.param == 0 {
			p.names[c.item] = p.names[c.init.item]
		} else {
			p.names[c.item] = p.fresh(strings.TrimRight(p.base(c.next), "_0123456789"))
			out = append(out, statement{name: p.names[c.item], value: p.ref(c.init).s})
		}
		if p.replaces(l.body, c) {
			p.names[c.next] = p.names[c.item]
		}
	}
	l.v.name = p.variable(n)
	p.loops++
	p.busy[l.v.name] = true
	body, pause := p.round(n)
	for _, c := range l.carries {
		if p.names[c.next] != p.names[c.item] {
			body = append(body, statement{name: p.names[c.item], value: p.ref(ref{item: c.next}).s})
		}
	}
	delete(p.busy, l.v.name)
	p.loops--
	count := formText(l.count).s
	v := l.v.name
	if !uses(body, v) {
		v = "_"
	}
	var lists []*item
	for _, g := range elements {
		if p.listed(g) {
			lists = append(lists, g)
		}
	}
	if len(lists) == 1 && len(body) == 1 && body[0].list != "" && len(l.carries) == 0 && len(pause) == 0 {
		s := statement{value: "[" + body[0].value + " for " + v + " in range(" + count + ")]"}
		s.name = p.name(lists[0])
		if g := lists[0]; p.listed(g.in) && !p.keep[g] {
			if p.uses[g] == 0 {
				s.list, s.name = p.name(g.in), ""
				return append(out, s)
			}
			return append(out, s, statement{list: p.name(g.in), value: s.name})
		}
		return append(out, s)
	}
	for _, g := range lists {
		out = append(out, statement{name: p.name(g), value: "[]"})
	}
	s := statement{lines: []string{"for " + v + " in range(" + count + "):"}}
	for _, b := range body {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	for _, w := range pause {
		s.lines = append(s.lines, "    "+w.value)
	}
	out = append(out, s)
	for _, g := range n.defs {
		if slices.Contains(finals, g) && p.names[g] == "" {
			for _, c := range l.carries {
				if c.last == g {
					p.names[g] = p.names[c.item]
				}
			}
		}
		if p.listed(g.in) && (p.listed(g) || slices.Contains(finals, g)) {
			out = append(out, statement{list: p.name(g.in), value: p.name(g)})
		}
	}
	return out
}

// A phase that shares its time with others gives way when its next piece is due later than what it wrote last. Time is in parts of
// a chunk's.
const (
	wholeChunk = 10000
	leastPiece = 25
)

func ticks(at float64) int { return int(math.Round(at * wholeChunk)) }

// pause gives way until at, where that is worth it.
func (p *printer) pause(at float64) []statement {
	wait := min(ticks(at), p.until) - p.clock
	if !p.yields || p.quiet || wait < leastPiece {
		return nil
	}
	p.clock += wait
	return []statement{{value: fmt.Sprintf("yield %d", wait)}}
}

// round writes the body of a loop's rounds, and how it gives way at the end of each.
func (p *printer) round(n *node) (body, pause []statement) {
	l, begin, until, quiet := n.loop, p.clock, p.until, p.quiet
	count := l.count.c
	defer func() { p.until, p.quiet = until, quiet }()
	if !p.yields || quiet || !l.count.isConst() {
		p.quiet = true
		return p.nodes(l.body), nil
	}
	lasts := min(ticks(n.until), until) - begin
	// Where an inner loop grows shorter, a round lasts as long as its rounds.
	for _, b := range l.body {
		if b.loop == nil || b.loop.count.isConst() {
			continue
		}
		sum := 0
		for i := range count {
			sum += b.loop.count.c + b.loop.count.t[0].k*i
		}
		if each := lasts / sum; each > 0 {
			p.clock += each * sum
			pause = []statement{{value: fmt.Sprintf("yield %d * %s", each, formText(b.loop.count).in(precMul+1))}}
		}
		p.quiet = true
		return p.nodes(l.body), pause
	}
	// The body is written at the times of the first round.
	p.clock, p.until = ticks(n.at), ticks(n.at)+lasts/count
	if lasts/count < leastPiece {
		p.quiet = true
	}
	body = p.nodes(l.body)
	pause = p.pause(n.until)
	p.clock = begin + count*(p.clock-ticks(n.at))
	return body, pause
}

// uses says whether a name stands in the text.
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

// replaces says whether what a round makes may take the name of what it was given: nothing reads the latter afterwards.
func (p *printer) replaces(body []*node, c *carry) bool {
	if c.next.isList() && len(c.next.elems) == 0 {
		return false
	}
	seen := false
	for _, n := range body {
		if seen && reads(n, c.item) {
			return false
		}
		if slices.Contains(n.defs, c.next) {
			seen = true
			if n.loop != nil { // built while the old one is read
				return false
			}
		}
	}
	return true
}

func reads(n *node, x *item) bool {
	is := func(r ref) bool { return r.item == x }
	if slices.ContainsFunc(n.args, is) || slices.ContainsFunc(n.list, is) || slices.ContainsFunc(n.yield, is) {
		return true
	}
	sub := n.body
	if n.loop != nil {
		sub = append(slices.Clone(n.loop.body), sub...)
		for _, c := range n.loop.carries {
			if is(c.init) || c.next == x {
				return true
			}
		}
	}
	return slices.ContainsFunc(sub, func(m *node) bool { return reads(m, x) })
}

// variable names a loop's variable: h where it counts heads.
func (p *printer) variable(n *node) string {
	names := []string{"i", "j", "m", "n", "r"}
	if headed(n.loop.body, n.loop.v) {
		names = append([]string{"h"}, names...)
	}
	for _, s := range names {
		if !p.busy[s] && !p.taken[s] {
			return s
		}
	}
	return p.fresh("i")
}

func headed(ns []*node, v *variable) bool {
	for _, n := range ns {
		if n.loop != nil && headed(n.loop.body, v) {
			return true
		}
		for _, t := range n.head.t {
			if t.v == v && t.k == 1 && n.head.c == 0 {
				return true
			}
		}
	}
	return false
}

// foriLoop writes a loop of the kernel itself.
func (p *printer) foriLoop(n *node) []statement {
	defer func(quiet bool) { p.quiet = quiet }(p.quiet)
	p.quiet = true
	name := p.fresh("round")
	var carried []string
	for _, x := range n.params[1:] {
		carried = append(carried, p.name(x))
	}
	i := p.name(n.params[0])
	state := tuple(carried)
	s := statement{lines: []string{fmt.Sprintf("def %s(%s, carried):", name, i)}}
	if len(carried) > 0 {
		s.lines = append(s.lines, "    "+state+" = carried")
	}
	for _, b := range p.nodes(n.body) {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	var results, init, outs []string
	for _, y := range n.yield {
		results = append(results, p.ref(y).s)
	}
	o := p.operands(n)
	for i := range n.in.Args {
		init = append(init, o.full(i).s)
	}
	for _, d := range n.defs {
		if p.uses[d] == 0 && !p.keep[d] {
			outs = append(outs, "_")
			continue
		}
		outs = append(outs, p.name(d))
	}
	s.lines = append(s.lines, "    return "+tuple(results))
	left := ""
	if len(outs) > 0 {
		left = tuple(outs) + " = "
	}
	run := statement{value: fmt.Sprintf("%slax.fori_loop(0, %d, %s, %s)", left, n.in.Attrs.Count, name, tuple(init))}
	return []statement{s, run}
}
