package python

import (
	"slices"
	"strings"
)

// operators join operands. Their precedence does not matter here.
var operators = strings.Fields("+ - * / // % @ ** & | ^ << >> < > <= >= == != and or in is not")

// list reads expressions separated by commas.
func (p *parser) list() *node {
	first := p.item()
	if !p.is(",") {
		return first
	}
	n := p.node(group, "", first)
	for p.take(",") {
		if p.ends() {
			break
		}
		n.kids = append(n.kids, p.item())
	}
	return n
}

func (p *parser) ends() bool {
	return p.peek().kind == newline || p.is("=", ")", "]", "}", ":")
}

// item reads an expression, or a starred one.
func (p *parser) item() *node {
	if p.take("*") {
		return p.node(star, "", p.operation())
	}
	return p.test()
}

// test reads an expression.
func (p *parser) test() *node {
	if p.take("yield") {
		n := p.node(group, "")
		if p.take("from") || !p.ends() {
			n.kids = append(n.kids, p.list())
		}
		return n
	}
	if p.take("lambda") {
		head := p.params(":", false)
		return p.node(lambda, "", head, p.test())
	}
	n := p.operation()
	if p.take(":=") {
		if n.what != load {
			p.fail("what is set is no name")
		}
		return p.node(group, "", p.test(), p.stored(n))
	}
	if p.take("if") {
		n = p.node(group, "", p.operation(), n)
		p.expect("else")
		n.kids = append(n.kids, p.test())
	}
	return n
}

// operation reads operands with operators between them.
func (p *parser) operation() *node {
	var kids []*node
	for {
		for p.take("-", "+", "~", "not") {
		}
		if kids = append(kids, p.operand()); !p.is(operators...) {
			break
		}
		for p.take(operators...) {
		}
	}
	if len(kids) == 1 {
		return kids[0]
	}
	return p.node(group, "", kids...)
}

// operand reads an atom, with its attributes, subscripts and calls.
func (p *parser) operand() *node {
	n := p.atom()
	for {
		line := p.peek().line
		switch {
		case p.take("."):
			n = &node{what: attribute, name: p.identifier(), line: line, kids: []*node{n}}
		case p.take("("):
			n = &node{what: call, line: line, kids: append([]*node{n}, p.arguments()...)}
		case p.take("["):
			n = &node{what: attribute, line: line, kids: append([]*node{n}, p.subscripts()...)}
		default:
			return n
		}
	}
}

func (p *parser) subscripts() (out []*node) {
	for !p.take("]") {
		for !p.is(",", "]") {
			if p.take(":") {
				continue
			}
			if out = append(out, p.item()); !p.is(":", ",", "]") {
				p.fail("%q in an index", p.peek().text)
			}
		}
		p.take(",")
	}
	return out
}

// arguments reads the arguments of a call, to its end.
func (p *parser) arguments() (out []*node) {
	for !p.take(")") {
		switch next := p.tokens[p.at+1]; {
		case p.take("**"):
			out = append(out, p.node(stars, "", p.test()))
		case p.take("*"):
			out = append(out, p.node(star, "", p.test()))
		case p.peek().kind == word && next.kind == sign && next.text == "=":
			name := p.identifier()
			p.expect("=")
			out = append(out, p.node(keyword, name, p.test()))
		default:
			out = append(out, p.node(argument, "", p.comprehension(p.test())))
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
	return out
}

// comprehension reads the rounds after an expression, if there are any.
func (p *parser) comprehension(of ...*node) *node {
	if !p.is("for") {
		return p.node(group, "", of...)
	}
	n := p.node(comprehension, "")
	for {
		switch {
		case p.take("for"):
			to := p.targets()
			p.expect("in")
			n.kids = append(n.kids, p.operation(), to)
		case p.take("if"):
			n.kids = append(n.kids, p.operation())
		default:
			n.kids = append(n.kids, of...)
			return n
		}
	}
}

// targets reads the names that a round sets.
func (p *parser) targets() *node {
	n := p.node(group, "", p.target())
	for p.take(",") {
		if p.is("in") {
			break
		}
		n.kids = append(n.kids, p.target())
	}
	return n
}

func (p *parser) target() *node {
	if p.take("*") {
		return p.target()
	}
	return p.stored(p.operand())
}

func (p *parser) atom() *node {
	t := p.peek()
	switch {
	case t.kind == text, t.kind == formatted:
		return p.strings()
	case t.kind == number, p.is("None", "True", "False", "..."):
		p.at++
		return p.node(literal, "")
	case t.kind == word:
		return p.node(load, p.identifier())
	case p.take("("):
		if p.take(")") {
			return p.node(group, "")
		}
		if p.is("yield") {
			n := p.test()
			p.expect(")")
			return n
		}
		return p.display(")")
	case p.take("["):
		return p.display("]")
	case p.take("{"):
		return p.display("}")
	}
	if t.kind == newline || t.kind == end {
		p.fail("an expression is not complete")
	}
	p.fail("%q where an expression is expected", t.text)
	return nil
}

// display reads the contents of brackets: elements, pairs, or a comprehension.
func (p *parser) display(until string) *node {
	n := p.node(group, "")
	for !p.take(until) {
		if p.take("**") {
			n.kids = append(n.kids, p.operation())
		} else {
			of := []*node{p.item()}
			if until == "}" && p.take(":") {
				of = append(of, p.test())
			}
			if p.is("for") {
				of = []*node{p.comprehension(of...)}
			}
			n.kids = append(n.kids, of...)
		}
		if !p.is(until) {
			p.expect(",")
		} else if len(n.kids) == 1 && until == ")" && p.tokens[p.at-1].text != "," { // not a tuple
			p.at++
			return n.kids[0]
		}
	}
	return n
}

// strings reads adjacent strings, and the expressions in formatted ones.
func (p *parser) strings() *node {
	n := p.node(literal, "")
	for ; p.peek().kind == text || p.peek().kind == formatted; p.at++ {
		t := p.peek()
		if t.kind == text {
			n.name += t.text
			continue
		}
		for _, s := range braced(t.text) {
			n.kids = append(n.kids, (&parser{tokens: tokens(s, t.line)}).list())
		}
	}
	return n
}

// braced returns the expressions of a formatted string, without their formats.
func braced(s string) (out []string) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "{{", ""), "}}", "")
	for {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			return out
		}
		depth, stop := 0, -1
		n := slices.IndexFunc([]byte(s[i:]), func(c byte) bool {
			switch c {
			case '{', '(', '[':
				depth++
			case '}', ')', ']':
				depth--
			}
			return depth == 0
		})
		if n < 0 {
			return out
		}
		inner := s[i+1 : i+n]
		for j, c := range []byte(inner) {
			if (c == ':' || c == '!' && !strings.HasPrefix(inner[j:], "!=")) && strings.Count(inner[:j], "(") == strings.Count(inner[:j], ")") && strings.Count(inner[:j], "[") == strings.Count(inner[:j], "]") {
				stop = j
				break
			}
		}
		if stop >= 0 {
			inner = inner[:stop]
		}
		out = append(out, strings.TrimSuffix(inner, "="))
		s = s[i+n+1:]
	}
}
