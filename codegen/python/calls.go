package python

import (
	"slices"
	"strings"
)

// resolve returns the definition of the function or class that an expression names. The expression is a name with one definition, here
// or in the module it is imported from, or a module with a name of it. It returns nil if the definition is unknown.
func (m *module) resolve(s *scope, n *node) *node {
	switch {
	case n.what == load:
		return m.defined(s, n.name)
	case n.what == attribute && n.name != "" && n.kids[0].what == load:
		if of := m.module(s, n.kids[0].name); of != nil {
			return of.defined(of.top, n.name)
		}
	}
	return nil
}

func (m *module) defined(s *scope, name string) *node {
	switch by := s.only(name); {
	case by == nil:
	case by.what == function, by.what == class:
		return by
	case by.what == imported:
		if from := m.all[by.kids[0].name]; from != nil && from != m {
			return from.defined(from.top, by.kids[1].name)
		}
	}
	return nil
}

// module returns the module of the checked files that a name refers to.
func (m *module) module(s *scope, name string) *module {
	if by := s.only(name); by != nil && by.what == imported {
		return m.all[by.kids[0].name+"."+by.kids[1].name]
	}
	return nil
}

// attribute checks attributes of modules, and fields of parameters whose type is a class with fields.
func (m *module) attribute(s *scope, n *node) {
	of := n.kids[0]
	if n.name == "" || of.what != load {
		return
	}
	if from := m.module(s, of.name); from != nil && from.top.find(n.name) == nil {
		m.fail(n.line, "%s has no %s", from.name, n.name)
	}
	at := s.find(of.name)
	if at == nil || at.classes[of.name] == nil || strings.HasPrefix(n.name, "_") {
		return
	}
	if c := at.classes[of.name]; fields(c) != nil && newScope(nil, c.kids[1]).names[n.name] == nil {
		m.fail(n.line, "%s has no field %s", of.name, n.name)
	}
}

// fields returns the fields of a NamedTuple class as parameters of its constructor; nil for other classes.
func fields(c *node) *node {
	if c.what != class || !slices.ContainsFunc(c.kids[0].kids, func(b *node) bool {
		return b.what == argument && len(b.kids[0].kids) == 1 && b.kids[0].kids[0].name == "NamedTuple"
	}) {
		return nil
	}
	out := &node{what: params}
	for _, line := range c.kids[1].kids { // statements, each a line of a hint, a default and a name
		for _, l := range line.kids {
			last := len(l.kids) - 1
			if l.what != group || last < 1 || l.kids[last].what != store {
				continue
			}
			p := &node{what: param, name: l.kids[last].name, kids: []*node{l.kids[0], nil}}
			if last == 2 {
				p.kids[1] = l.kids[1]
			}
			out.kids = append(out.kids, p)
		}
	}
	return out
}

// call checks the arguments of a call of a known function, or of functools.partial of one.
func (m *module) call(s *scope, n *node) {
	if len(n.kids) == 0 {
		return
	}
	to, args, partial := n.kids[0], n.kids[1:], false
	if to.what == attribute && to.name == "partial" && len(args) > 0 && args[0].what == argument && len(args[0].kids[0].kids) == 1 {
		to, args, partial = args[0].kids[0].kids[0], args[1:], true
	}
	by := m.resolve(s, to)
	if by == nil {
		return
	}
	head := fields(by)
	if by.what == function {
		head = by.kids[1]
	}
	if head == nil {
		return
	}
	for _, text := range mismatches(head, args, partial) {
		m.fail(n.line, "%s is called %s", by.name, text)
	}
}

// mismatches returns the faults in the arguments for some parameters. Starred arguments may be anything; a partial call may omit
// arguments.
func mismatches(head *node, args []*node, partial bool) (wrong []string) {
	var places []*node
	byName := map[string]*node{}
	rest, more, named := false, false, false
	for _, p := range head.kids {
		switch {
		case strings.HasPrefix(p.name, "**"):
			more = true
		case strings.HasPrefix(p.name, "*"):
			rest, named = rest || p.name != "*", true
		case p.name == "/":
		default:
			if byName[p.name] = p; !named {
				places = append(places, p)
			}
		}
	}
	given, lists, dicts, count := map[string]bool{}, false, partial, 0
	for _, a := range args {
		switch a.what {
		case star:
			lists = true
		case stars:
			dicts = true
		case keyword:
			if byName[a.name] == nil && !more {
				wrong = append(wrong, "with "+a.name+", which it does not take")
			}
			if given[a.name] {
				wrong = append(wrong, "with "+a.name+" twice")
			}
			given[a.name] = true
		default:
			if count++; count > len(places) && !rest {
				wrong = append(wrong, "with too many arguments")
			}
		}
	}
	for i, p := range places {
		if i < count && given[p.name] {
			wrong = append(wrong, "with "+p.name+" twice")
		}
		given[p.name] = given[p.name] || i < count || lists
	}
	for _, p := range head.kids {
		if byName[p.name] == p && p.kids[1] == nil && !given[p.name] && !dicts {
			wrong = append(wrong, "without "+p.name)
		}
	}
	return slices.Compact(wrong)
}
