package python

import (
	"fmt"
	"slices"
	"strings"
)

// node is a part of a program: its kind, its name if it has one, and its parts.
type node struct {
	what what
	name string
	line int
	kids []*node
}

type what int

const (
	group     what = iota // parts, in the order of evaluation
	literal               // a number, or a string, which is its name
	load                  // a name that is read
	store                 // a name that is set
	attribute             // of kids[0]
	call                  // of kids[0], with arguments
	argument
	keyword // a named argument
	star    // a starred argument
	stars   // a double-starred argument
	lambda  // parameters, then the value
	comprehension
	loop
	function // decorators, parameters, body
	class    // decorators and bases, body
	params
	param // the type, then the default
	imported
)

// parser reads a Python file. It covers the syntax of generated files, and panics with a fault on anything else.
type parser struct {
	tokens []token
	at     int
	within []string // the module's name, in parts
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) fail(format string, args ...any) {
	panic(fault{p.peek().line, fmt.Sprintf(format, args...)})
}

func (p *parser) is(texts ...string) bool {
	t := p.peek()
	return (t.kind == sign || t.kind == word) && slices.Contains(texts, t.text)
}

// take takes the next token if it is one of texts.
func (p *parser) take(texts ...string) bool {
	if p.is(texts...) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(t string) {
	if !p.take(t) {
		p.fail("%q where %q is expected", p.peek().text, t)
	}
}

func (p *parser) node(w what, name string, kids ...*node) *node {
	return &node{what: w, name: name, line: p.peek().line, kids: kids}
}

// identifier takes a name.
func (p *parser) identifier() string {
	t := p.peek()
	if t.kind != word {
		p.fail("%q where a name is expected", t.text)
	}
	if slices.Contains(Keywords, t.text) {
		p.fail("%s is a keyword, and no name", t.text)
	}
	p.at++
	return t.text
}

func (p *parser) file() *node {
	n := p.node(group, "")
	for p.peek().kind != end {
		n.kids = append(n.kids, p.statement())
	}
	return n
}

// block reads the statements after a colon.
func (p *parser) block() *node {
	p.expect(":")
	if p.peek().kind != newline {
		return p.simple()
	}
	p.at++
	if p.peek().kind != indent {
		p.fail("a block has no statement")
	}
	p.at++
	n := p.node(group, "")
	for p.peek().kind != dedent {
		n.kids = append(n.kids, p.statement())
	}
	p.at++
	return n
}

func (p *parser) statement() *node {
	n := p.node(group, "")
	add := func(kids ...*node) { n.kids = append(n.kids, kids...) }
	switch {
	case p.take("if"):
		add(p.test(), p.block())
		for p.take("elif") {
			add(p.test(), p.block())
		}
		if p.take("else") {
			add(p.block())
		}
	case p.take("while"):
		add(p.node(loop, "", p.test(), p.block()))
		if p.take("else") {
			add(p.block())
		}
	case p.take("for"):
		to := p.targets()
		p.expect("in")
		from := p.list()
		add(from, p.node(loop, "", to, p.block()))
		if p.take("else") {
			add(p.block())
		}
	case p.take("with"):
		for again := true; again; again = p.take(",") {
			if add(p.test()); p.take("as") {
				add(p.target())
			}
		}
		add(p.block())
	case p.take("try"):
		add(p.block())
		for p.take("except") {
			if !p.is(":") {
				if add(p.test()); p.take("as") {
					add(p.node(store, p.identifier()))
				}
			}
			add(p.block())
		}
		for p.take("else", "finally") {
			add(p.block())
		}
	case p.is("@", "def", "class"):
		add(p.definition())
	default:
		return p.simple()
	}
	return n
}

// definition reads a function or a class.
func (p *parser) definition() *node {
	before := p.node(group, "")
	for p.take("@") {
		before.kids = append(before.kids, p.test())
		if p.peek().kind != newline {
			p.fail("%q behind a decorator", p.peek().text)
		}
		p.at++
	}
	if p.take("class") {
		n := p.node(class, p.identifier(), before)
		if p.take("(") {
			before.kids = append(before.kids, p.arguments()...)
		}
		n.kids = append(n.kids, p.block())
		return n
	}
	p.expect("def")
	n := p.node(function, p.identifier(), before)
	p.expect("(")
	n.kids = append(n.kids, p.params(")", true))
	if p.take("->") {
		before.kids = append(before.kids, p.test())
	}
	n.kids = append(n.kids, p.block())
	return n
}

// params reads parameters up to a token. A starred parameter has the stars in its name; a lone star and a slash are names.
func (p *parser) params(until string, typed bool) *node {
	n := p.node(params, "")
	for !p.take(until) {
		mark := ""
		if p.is("*", "**", "/") {
			mark = p.peek().text
			p.at++
		}
		x := p.node(param, mark)
		if !p.is(",", until) {
			x.name += p.identifier()
		}
		x.kids = []*node{nil, nil}
		if typed && p.take(":") {
			x.kids[0] = p.test()
		}
		if p.take("=") {
			x.kids[1] = p.test()
		}
		n.kids = append(n.kids, x)
		if !p.is(until) {
			p.expect(",")
		}
	}
	return n
}

// simple reads a line of statements without a block.
func (p *parser) simple() *node {
	n := p.node(group, "")
	for {
		n.kids = append(n.kids, p.small())
		if p.take(";") {
			continue
		}
		if p.peek().kind != newline {
			p.fail("%q behind a statement", p.peek().text)
		}
		p.at++
		return n
	}
}

func (p *parser) small() *node {
	n := p.node(group, "")
	switch {
	case p.take("pass", "break", "continue"):
	case p.take("nonlocal", "global"):
		for again := true; again; again = p.take(",") {
			n.kids = append(n.kids, p.node(store, p.identifier()))
		}
	case p.take("return", "del", "raise", "assert"):
		if p.peek().kind != newline {
			n.kids = append(n.kids, p.list())
		}
		if p.take("from") {
			n.kids = append(n.kids, p.test())
		}
	case p.take("import"):
		for again := true; again; again = p.take(",") {
			name := p.dotted()
			to, _, _ := strings.Cut(name, ".")
			if p.take("as") {
				to = p.identifier()
			}
			n.kids = append(n.kids, p.node(store, to))
		}
	case p.take("from"):
		return p.from()
	default:
		return p.assignment()
	}
	return n
}

func (p *parser) dotted() string {
	name := p.identifier()
	for p.take(".") {
		name += "." + p.identifier()
	}
	return name
}

// relative reads the name of a module; leading dots count from this module.
func (p *parser) relative() string {
	up := 0
	for p.is(".", "...") {
		up += len(p.peek().text)
		p.at++
	}
	if up == 0 {
		return p.dotted()
	}
	if up >= len(p.within) {
		p.fail("an import goes beyond the package")
	}
	name := strings.Join(p.within[:len(p.within)-up], ".")
	if !p.is("import") {
		name += "." + p.dotted()
	}
	return name
}

// from reads an import of names: each has its own name, the module's, and its name there.
func (p *parser) from() *node {
	n := p.node(group, "")
	module := p.relative()
	p.expect("import")
	many := p.take("(")
	for !many || !p.take(")") {
		name := p.identifier()
		to := name
		if p.take("as") {
			to = p.identifier()
		}
		n.kids = append(n.kids, p.node(imported, to, p.node(group, module), p.node(group, name)))
		if !p.take(",") && !many {
			break
		}
	}
	return n
}

var augmented = []string{"+=", "-=", "*=", "/=", "//=", "%=", "|=", "&=", "^=", ">>=", "<<=", "@=", "**="}

func (p *parser) assignment() *node {
	all := []*node{p.list()}
	switch {
	case p.take(":"):
		hint := p.test()
		if all[0].what != load {
			return p.node(group, "", all[0], hint)
		}
		name := &node{what: store, name: all[0].name, line: all[0].line}
		if p.take("=") {
			return p.node(group, "", hint, p.list(), name)
		}
		return p.node(group, "", hint, name)
	case p.take(augmented...):
		return p.node(group, "", all[0], p.list(), p.stored(all[0]))
	}
	for p.take("=") {
		all = append(all, p.list())
	}
	for i, to := range all[:len(all)-1] {
		all[i] = p.stored(to)
	}
	return p.node(group, "", append(all[len(all)-1:], all[:len(all)-1]...)...)
}

// stored converts nodes that were read as expressions into assigned names.
func (p *parser) stored(n *node) *node {
	switch n.what {
	case load:
		return &node{what: store, name: n.name, line: n.line}
	case group, star:
		out := &node{what: group, line: n.line}
		for _, k := range n.kids {
			out.kids = append(out.kids, p.stored(k))
		}
		return out
	case literal, call, lambda, comprehension:
		p.fail("what is set is no name")
	}
	return n // an element or an attribute
}
