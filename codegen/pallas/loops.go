package pallas

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// loop writes a loop: a comprehension where all it does is make one list.
func (p *printer) loop(n *loops.Node) []statement {
	l := n.Loop
	inner := loops.FlatDefs(l.Body)
	elements, finals := n.Defs[:len(inner)], n.Defs[len(inner):]
	for _, g := range elements { // names of lists come before those of elements
		if p.listed(g) && p.names[g] == "" {
			p.name(g)
		}
	}
	out := p.beginCarries(l)
	l.V.Name = p.variable(n)
	p.loops++
	p.busy[l.V.Name] = true
	before, body, pause := p.rounds(n)
	body = waitOnce(body)
	out = append(before, out...)
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
	if len(lists) == 1 && len(body) == 1 && body[0].list != "" && len(l.Carries) == 0 && len(pause) == 0 {
		return append(out, p.comprehension(lists[0], body[0].value+" "+head)...)
	}
	if apart := p.apart(n, lists, body, head); apart != nil && len(pause) == 0 {
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
	for _, w := range pause {
		s.lines = append(s.lines, "    "+w.text()[0])
	}
	return append(append(out, s), p.afterLoop(n, finals)...)
}

// apart makes a list after the other where a short loop makes several, of nothing that it makes, and each has room in a line; nil elsewhere.
func (p *printer) apart(n *loops.Node, lists []*loops.Item, body []statement, head string) (out []statement) {
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

// lineWidth is what of a line is left to a function's statements, with some room.
const lineWidth = 80

// beginCarries names what rounds hand on, and sets what the first is given. What begins a carry may go by its name.
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

// comprehension makes a list, which an outer loop may add to its own.
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

// afterLoop names what a loop leaves, and adds it to the lists of an outer loop.
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

// A phase that shares its time with others gives way when its next piece is due later than what it wrote last, by as much as its
// schedule says, or this. Time is in parts of a chunk's.
const wholeChunk, leastGrain = 10000, 24

func ticks(at float64) int { return int(math.Round(at * wholeChunk)) }

// waits says whether the text gives way for other phases.
func (p *printer) waits() bool { return p.yields && !p.quiet && !p.m.trace }

// pause gives way until at, where that is worth it.
func (p *printer) pause(at float64) []statement {
	if !p.waits() {
		return nil
	}
	return p.wait(min(ticks(at), p.until) - p.clock)
}

// wait gives way for some time, where that is worth it.
func (p *printer) wait(time int) []statement {
	if time < p.k.grain {
		return nil
	}
	p.clock += time
	return []statement{yielding(time)}
}

func yielding(time int) statement { return statement{wait: time} }

// rounds writes the body of a loop's rounds, and how it gives way before the first of them and at the end of each.
func (p *printer) rounds(n *loops.Node) (before, body, pause []statement) {
	l, until, quiet := n.Loop, p.until, p.quiet
	defer func() { p.until, p.quiet = until, quiet }()
	if !p.waits() || !l.Count.IsConst() {
		before, p.quiet = p.pause(n.At), true
		return before, p.nodes(l.Body), nil
	}
	for _, b := range l.Body {
		if b.Loop != nil && !b.Loop.Count.IsConst() {
			before = p.pause(n.At)
			pause = p.shrinking(n, b.Loop.Count)
			p.quiet = true
			return before, p.nodes(l.Body), pause
		}
	}
	// The body is written at the times of the first round.
	count, clock, period := l.Count.C, p.clock, int(l.Period*wholeChunk)
	first := max(clock, min(ticks(n.At), until))
	each := min(period, (wholeChunk-first)/count) // the schedule's last round may be shorter than others, the file's is not
	p.clock, p.until, p.quiet = first, min(until, first+each), period < p.k.grain
	body = p.nodes(l.Body)
	lasts := p.clock - first
	if lasts > 0 && first+count*lasts > wholeChunk { // a round takes longer than its share of time: rounds wait at their ends alone
		p.clock, p.quiet, lasts = first, true, 0
		body = p.nodes(l.Body)
	}
	wait := period - lasts // from the last of a round to the next round
	p.clock, p.until, p.quiet = clock, until, quiet
	if wait >= p.k.grain && first-clock >= wait { // the first round waits as long as the others
		before = p.wait(first - clock - wait)
		p.clock += count * period
		return before, append([]statement{yielding(wait)}, body...), nil
	}
	before = p.pause(n.At)
	// Else rounds wait at their end, the last one too, and are shorter where what follows would be late.
	if wait = min(period, (p.room(n)-p.clock)/count) - lasts; wait >= p.k.grain {
		lasts += wait
		pause = []statement{yielding(wait)}
	}
	p.clock += count * lasts
	return before, body, pause
}

// room is when a loop must be done: when what follows it is due, or else the round of the loop around it.
func (p *printer) room(n *loops.Node) int {
	switch {
	case !math.IsInf(n.Next, 1):
		return min(ticks(n.Next), p.until)
	case p.until < math.MaxInt32:
		return p.until
	}
	return ticks(n.Until)
}

// shrinking is how a loop gives way whose inner loop grows shorter: a round lasts as long as its rounds.
func (p *printer) shrinking(n *loops.Node, inner loops.Form) []statement {
	sum := 0
	for i := range n.Loop.Count.C {
		sum += inner.C + inner.T[0].K*i
	}
	each := (min(ticks(n.Until), p.until) - p.clock) / sum
	if each <= 0 {
		return nil
	}
	p.clock += each * sum
	return []statement{{value: fmt.Sprintf("yield %d * %s", each, formText(inner).in(precMul+1))}}
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

// variable names a loop's variable: h where it counts heads.
func (p *printer) variable(n *loops.Node) string {
	if headed(n.Loop.Body, n.Loop.V) {
		return p.loopName("h")
	}
	return p.loopName()
}

// loopName is a name for a loop's variable, of some that go before others.
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

// foriLoop writes a loop of the kernel itself.
func (p *printer) foriLoop(n *loops.Node) []statement {
	defer func(quiet bool) { p.quiet = quiet }(p.quiet)
	p.quiet = true
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
