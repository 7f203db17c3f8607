package python

import (
	"fmt"
	"slices"
	"strings"
)

// Keywords are the words of Python that can not be names.
var Keywords = strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
	"nonlocal not or pass raise return try while with yield")

// kind is the kind of a token.
type kind int

const (
	word kind = iota
	number
	text
	formatted // a string with expressions
	sign
	newline
	indent
	dedent
	end
)

type token struct {
	kind kind
	text string
	line int
}

// signs of several characters, the longest first.
var signs = []string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@="}

// scanner cuts a text of Python into tokens.
type scanner struct {
	src    string
	at     int
	line   int
	depth  int // of brackets
	levels []int
	out    []token
}

// fault is an error in a line.
type fault struct {
	line int
	text string
}

func (f fault) Error() string { return fmt.Sprintf("line %d: %s", f.line, f.text) }

func (s *scanner) fail(format string, args ...any) {
	panic(fault{s.line, fmt.Sprintf(format, args...)})
}

func (s *scanner) add(k kind, t string) { s.out = append(s.out, token{k, t, s.line}) }

// tokens splits a text that begins at a line. It panics with a fault.
func tokens(src string, line int) []token {
	s := &scanner{src: src, line: line, levels: []int{0}}
	for fresh := true; s.at < len(s.src); {
		if fresh && s.depth == 0 {
			if fresh = false; !s.indentation() {
				fresh = true
				continue
			}
		}
		fresh = s.next()
	}
	if s.depth > 0 {
		s.fail("a bracket is not closed")
	}
	if n := len(s.out); n > 0 && s.out[n-1].kind != newline {
		s.add(newline, "")
	}
	for range s.levels[1:] {
		s.add(dedent, "")
	}
	s.add(end, "")
	return s.out
}

// indentation reads the start of a line; false for an empty line.
func (s *scanner) indentation() bool {
	rest := strings.TrimLeft(s.src[s.at:], " ")
	n := len(s.src) - s.at - len(rest)
	s.at += n
	if rest == "" || rest[0] == '#' || rest[0] == '\n' {
		i := strings.IndexByte(rest, '\n')
		if i < 0 {
			i = len(rest) - 1
		}
		s.at += i + 1
		s.line++
		return false
	}
	if n > s.levels[len(s.levels)-1] {
		s.levels = append(s.levels, n)
		s.add(indent, "")
	}
	for n < s.levels[len(s.levels)-1] {
		s.levels = s.levels[:len(s.levels)-1]
		s.add(dedent, "")
	}
	if n != s.levels[len(s.levels)-1] {
		s.fail("the line stands in no block")
	}
	return true
}

// next reads a token; true after the end of a line.
func (s *scanner) next() bool {
	rest := s.src[s.at:]
	switch c := rest[0]; {
	case c == '\n':
		if s.depth == 0 {
			s.add(newline, "")
		}
		s.at++
		s.line++
		return true
	case c == ' ':
		s.at++
	case c == '#':
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		s.at += n
	case c == '"' || c == '\'':
		s.quoted("")
	case letter(c):
		n := run(rest, func(c byte) bool { return letter(c) || digit(c) })
		w := rest[:n]
		if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') && slices.Contains([]string{"r", "f", "b", "rf", "fr"}, strings.ToLower(w)) {
			s.at += n
			s.quoted(strings.ToLower(w))
			break
		}
		s.add(word, w)
		s.at += n
	case digit(c) || c == '.' && len(rest) > 1 && digit(rest[1]):
		s.number(rest)
	default:
		s.sign(rest)
	}
	return false
}

func (s *scanner) number(rest string) {
	hex := strings.HasPrefix(rest, "0x")
	n := run(rest, func(c byte) bool { return letter(c) || digit(c) || c == '.' })
	for !hex && n < len(rest) && (rest[n] == '-' || rest[n] == '+') && (rest[n-1] == 'e' || rest[n-1] == 'E') {
		n += 1 + run(rest[n+1:], digit)
	}
	s.add(number, rest[:n])
	s.at += n
}

func (s *scanner) sign(rest string) {
	for _, t := range signs {
		if strings.HasPrefix(rest, t) {
			s.add(sign, t)
			s.at += len(t)
			return
		}
	}
	c := rest[:1]
	switch {
	case strings.Contains("([{", c):
		s.depth++
	case strings.Contains(")]}", c):
		if s.depth--; s.depth < 0 {
			s.fail("%s closes no bracket", c)
		}
	case !strings.Contains("+-*/%&|^~<>=@.,:;", c):
		s.fail("%q is no sign of Python", c)
	}
	s.add(sign, c)
	s.at++
}

// quoted reads a string after its prefix.
func (s *scanner) quoted(prefix string) {
	rest := s.src[s.at:]
	quote := rest[:1]
	if strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
		quote = rest[:3]
	}
	n := len(quote)
	for ; !strings.HasPrefix(rest[n:], quote); n++ {
		if n+1 >= len(rest) || rest[n] == '\n' && len(quote) == 1 {
			s.fail("a string does not end")
		}
		if rest[n] == '\\' {
			n++
		}
	}
	what := text
	if strings.Contains(prefix, "f") {
		what = formatted
	}
	s.add(what, rest[len(quote):n])
	s.line += strings.Count(rest[:n], "\n")
	s.at += n + len(quote)
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// run returns how many leading characters of s satisfy of.
func run(s string, of func(byte) bool) (n int) {
	for n < len(s) && of(s[n]) {
		n++
	}
	return n
}
