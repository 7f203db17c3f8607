package mlir

import (
	"fmt"
	"strconv"
	"strings"
)

// parser reads the text by characters: shapes such as 8x128xf32 are not tokens.
type parser struct {
	src   string
	pos   int
	line  int // of pos, from 1
	start int // of the line
	depth int // of nested types, attributes and regions

	values []Type           // of the current function
	scopes []map[string]int // names in the open blocks, the innermost last
}

// maxDepth limits nesting, so that no text exhausts the stack.
const maxDepth = 200

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.errorf("nested more than %d deep", maxDepth)
	}
	return nil
}

func (p *parser) exit() { p.depth-- }

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", p.line, p.pos-p.start+1, fmt.Sprintf(format, args...))
}

// near returns the text near an error: the word just read, or the text that follows.
func (p *parser) near(word string) string {
	if word != "" {
		return strconv.Quote(word)
	}
	rest := p.src[p.pos:]
	if rest == "" {
		return "the end of the text"
	}
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return strconv.Quote(rest[:min(len(rest), 24)])
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// space skips blanks, line ends and comments.
func (p *parser) space() {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '\n':
			p.pos++
			p.line++
			p.start = p.pos
		case c == ' ' || c == '\t' || c == '\r':
			p.pos++
		case strings.HasPrefix(p.src[p.pos:], "//"):
			for p.pos < len(p.src) && p.src[p.pos] != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

// at reports whether the text continues with a token.
func (p *parser) at(token string) bool {
	p.space()
	return strings.HasPrefix(p.src[p.pos:], token)
}

func (p *parser) eat(token string) bool {
	if !p.at(token) {
		return false
	}
	p.pos += len(token)
	return true
}

func (p *parser) expect(token string) error {
	if !p.eat(token) {
		return p.errorf("%q is expected, not %s", token, p.near(""))
	}
	return nil
}

// word reads letters, digits, dots and dollar signs, starting with a letter; "" if there is no word.
func (p *parser) word() string {
	p.space()
	start := p.pos
	for p.pos < len(p.src) {
		if c := p.src[p.pos]; !letter(c) && (p.pos == start || !digit(c) && c != '.' && c != '$') {
			break
		}
		p.pos++
	}
	return p.src[start:p.pos]
}

// peekWord is word without moving.
func (p *parser) peekWord() string {
	p.space()
	at := p.pos
	w := p.word()
	p.pos = at
	return w
}

// name reads a name after %, @ or ^: letters, digits, dots, or a number.
func (p *parser) name() (string, error) {
	start := p.pos
	for p.pos < len(p.src) {
		if c := p.src[p.pos]; !letter(c) && !digit(c) && c != '.' && c != '$' {
			break
		}
		p.pos++
	}
	if p.pos == start {
		return "", p.errorf("a name is expected, not %s", p.near(""))
	}
	return p.src[start:p.pos], nil
}

// symbol reads @name.
func (p *parser) symbol() (Symbol, error) {
	if err := p.expect("@"); err != nil {
		return "", err
	}
	n, err := p.name()
	return Symbol(n), err
}

func (p *parser) digits() (string, bool) {
	start := p.pos
	for p.pos < len(p.src) && digit(p.src[p.pos]) {
		p.pos++
	}
	return p.src[start:p.pos], p.pos > start
}

// number reads an integer, a float, or the bits of a float (0x7F800000).
func (p *parser) number() (string, bool) {
	p.space()
	start := p.pos
	if p.pos < len(p.src) && p.src[p.pos] == '-' {
		p.pos++
	}
	if strings.HasPrefix(p.src[p.pos:], "0x") && p.pos+2 < len(p.src) && strings.IndexByte("0123456789abcdefABCDEF", p.src[p.pos+2]) >= 0 {
		p.pos += 2
		for p.pos < len(p.src) && strings.IndexByte("0123456789abcdefABCDEF", p.src[p.pos]) >= 0 {
			p.pos++
		}
		return p.src[start:p.pos], true
	}
	if _, ok := p.digits(); !ok {
		p.pos = start
		return "", false
	}
	if p.pos < len(p.src) && p.src[p.pos] == '.' {
		p.pos++
		p.digits()
	}
	if p.pos < len(p.src) && (p.src[p.pos] == 'e' || p.src[p.pos] == 'E') {
		at := p.pos
		p.pos++
		if p.pos < len(p.src) && (p.src[p.pos] == '-' || p.src[p.pos] == '+') {
			p.pos++
		}
		if _, ok := p.digits(); !ok {
			p.pos = at
		}
	}
	return p.src[start:p.pos], true
}

// integer reads an integer that fits an int.
func (p *parser) integer() (int, error) {
	s, ok := p.number()
	if !ok {
		return 0, p.errorf("an integer is expected, not %s", p.near(""))
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, p.errorf("%s is no integer of 64 bits", s)
	}
	return n, nil
}

// text reads a string in quotes, with the escapes \22 (hexadecimal), \n and \t.
func (p *parser) text() (string, error) {
	if err := p.expect(`"`); err != nil {
		return "", err
	}
	var b strings.Builder
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		p.pos++
		switch c {
		case '"':
			return b.String(), nil
		case '\n':
			return "", p.errorf("a string goes over the end of the line")
		case '\\':
			rest := p.src[p.pos:]
			if n, err := strconv.ParseUint(rest[:min(2, len(rest))], 16, 8); err == nil && len(rest) >= 2 {
				b.WriteByte(byte(n))
				p.pos += 2
				continue
			}
			if rest == "" {
				return "", p.errorf("a string without an end")
			}
			i := strings.IndexByte(`nt"\`, rest[0])
			if i < 0 {
				return "", p.errorf(`\%c is no escape that is known`, rest[0])
			}
			b.WriteByte("\n\t\"\\"[i])
			p.pos++
		default:
			b.WriteByte(c)
		}
	}
	return "", p.errorf("a string without an end")
}
