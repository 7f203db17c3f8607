// Package python finds faults that would keep Python files from running: syntax errors, keywords as names, undefined names, calls that
// do not match their function, and missing names of modules. It covers the Python that the generator writes, and needs no Python
// interpreter.
package python

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// most is the most faults that an error lists.
const most = 3

// Check returns an error that lists faults of Python files, which may import one another; nil if it finds none. Keys are paths with
// slashes; files not named .py are ignored.
func Check(files map[string]string) error {
	var found []string
	all := map[string]*module{} // by the name in imports
	var order []*module
	for _, file := range sorted(files) {
		if path.Ext(file) != ".py" {
			continue
		}
		m, err := read(file, files[file])
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		all[m.name] = m
		order = append(order, m)
	}
	for _, m := range order {
		m.check(all)
		slices.SortStableFunc(m.faults, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
		for _, f := range slices.Compact(m.faults) {
			found = append(found, fmt.Sprintf("%s, %v", m.file, f))
		}
	}
	if len(found) == 0 {
		return nil
	}
	more := ""
	if n := len(found) - most; n > 0 {
		found, more = found[:most], fmt.Sprintf("; and %d more", n)
	}
	return errors.New(strings.Join(found, "; ") + more)
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// module is a file.
type module struct {
	file, name string
	tree       *node
	top        *scope
	all        map[string]*module
	faults     []fault
}

// read parses a file.
func read(file, text string) (m *module, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fault)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s, %w", file, f)
		}
	}()
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(file, ".py"), "src/"), "/__init__")
	p := &parser{tokens: tokens(text, 1), within: strings.Split(strings.ReplaceAll(name, "/", "."), ".")}
	if path.Base(file) == "__init__.py" {
		p.within = append(p.within, "")
	}
	m = &module{file: file, name: strings.ReplaceAll(name, "/", "."), tree: p.file()}
	m.top = newScope(nil, m.tree)
	return m, nil
}

func (m *module) fail(line int, format string, args ...any) {
	m.faults = append(m.faults, fault{line, fmt.Sprintf(format, args...)})
}

// scope is a scope of names: a file, function, class, lambda or comprehension.
type scope struct {
	outer   *scope
	of      what
	names   map[string][]*node // the nodes that set each name
	set     map[string]bool    // so far
	loops   int                // loops around the current node
	classes map[string]*node   // of parameters, by their types
}

// newScope returns a scope that knows all names its parts set.
func newScope(outer *scope, parts ...*node) *scope {
	s := &scope{outer: outer, names: map[string][]*node{}, set: map[string]bool{}, classes: map[string]*node{}}
	for _, p := range parts {
		s.collect(p)
	}
	return s
}

func (s *scope) collect(n *node) {
	if n == nil {
		return
	}
	switch n.what {
	case store, imported:
		s.names[n.name] = append(s.names[n.name], n)
		return
	case function, class:
		s.names[n.name] = append(s.names[n.name], n)
		return
	case lambda, comprehension:
		return
	}
	for _, k := range n.kids {
		s.collect(k)
	}
}

// find returns the scope in which a name is found from here; nil for none.
func (s *scope) find(name string) *scope {
	for at := s; at != nil; at = at.outer {
		if len(at.names[name]) > 0 && (at == s || at.of != class) {
			return at
		}
	}
	return nil
}

// only returns the node that sets a name, if exactly one does.
func (s *scope) only(name string) *node {
	if at := s.find(name); at != nil && len(at.names[name]) == 1 {
		return at.names[name][0]
	}
	return nil
}

func (m *module) check(all map[string]*module) {
	m.all = all
	m.checkNode(m.top, m.tree)
	for _, name := range m.exports() {
		if m.top.find(name) == nil {
			m.fail(1, "__all__ has %s, which nothing sets", name)
		}
	}
}

// checkNode checks what a node reads, in the order of its text.
func (m *module) checkNode(s *scope, n *node) {
	if n == nil {
		return
	}
	switch n.what {
	case load:
		m.read(s, n)
	case store:
		s.set[n.name] = true
	case imported:
		m.imported(n)
		s.set[n.name] = true
	case loop:
		s.loops++
		m.each(s, n.kids)
		s.loops--
	case function, lambda:
		m.function(s, n)
	case class:
		m.each(s, n.kids[:1])
		inner := newScope(s, n.kids[1])
		inner.of = class
		m.checkNode(inner, n.kids[1])
		s.set[n.name] = true
	case comprehension:
		m.checkNode(s, n.kids[0])
		inner := newScope(s, n.kids...)
		inner.loops = s.loops
		m.each(inner, n.kids[1:])
	case call:
		m.each(s, n.kids)
		m.call(s, n)
	case attribute:
		m.each(s, n.kids)
		m.attribute(s, n)
	default:
		m.each(s, n.kids)
	}
}

func (m *module) each(s *scope, kids []*node) {
	for _, k := range kids {
		m.checkNode(s, k)
	}
}

// read checks a name that is read.
func (m *module) read(s *scope, n *node) {
	switch at := s.find(n.name); {
	case at == nil && !slices.Contains(builtins, n.name):
		m.fail(n.line, "nothing sets %s", n.name)
	case at == s && !s.set[n.name] && s.loops == 0:
		m.fail(n.line, "%s is read before it is set", n.name)
	}
}

// function checks a function or lambda: types and defaults in the outer scope, the body in its own.
func (m *module) function(s *scope, n *node) {
	head, body := n.kids[0], n.kids[1]
	if n.what == function {
		m.each(s, n.kids[:1])
		head, body = n.kids[1], n.kids[2]
	}
	inner := newScope(s, body)
	inner.of = function
	for _, p := range head.kids {
		m.each(s, p.kids)
		name := strings.TrimLeft(p.name, "*/")
		if name == "" {
			continue
		}
		if len(inner.names[name]) == 0 && p.kids[0] != nil && p.kids[0].what == load {
			inner.classes[name] = m.resolve(s, p.kids[0])
		}
		inner.names[name], inner.set[name] = append(inner.names[name], p), true
	}
	if n.what == function {
		s.set[n.name] = true
	}
	m.checkNode(inner, body)
}

// imported checks that a module among these files has the imported name.
func (m *module) imported(n *node) {
	module, name := n.kids[0].name, n.kids[1].name
	from := m.all[module]
	if from == nil || m.all[module+"."+name] != nil || from.top.find(name) != nil {
		return
	}
	m.fail(n.line, "%s has no %s", module, name)
}

// exports returns the names in __all__.
func (m *module) exports() (names []string) {
	for _, line := range m.tree.kids {
		for _, n := range line.kids {
			if last := len(n.kids) - 1; last == 1 && n.kids[last].what == store && n.kids[last].name == "__all__" {
				for _, name := range n.kids[0].kids {
					names = append(names, name.name)
				}
			}
		}
	}
	return names
}

// builtins are the names that Python defines.
var builtins = strings.Fields("ArithmeticError AssertionError AttributeError BaseException DeprecationWarning Ellipsis Exception FutureWarning ImportError IndexError KeyError LookupError NameError NotImplemented " +
	"NotImplementedError OSError OverflowError RuntimeError StopIteration SystemExit TypeError UserWarning ValueError Warning ZeroDivisionError __file__ __name__ abs all any bool bytes " +
	"callable chr classmethod complex dict dir divmod enumerate filter float format frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max " +
	"memoryview min next object open ord pow print property range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip")
