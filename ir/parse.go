package ir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNesting bounds the nesting of bodies in parsed text.
const maxNesting = 32

// maxElements bounds the size of a parsed type, so that hostile text cannot request huge memory.
const maxElements = 1 << 40

// Parse reads the text form and verifies the module. Errors name line and column.
func Parse(text string) (*Module, error) {
	p := &parser{src: text, env: map[string]*Value{}}
	m, err := p.module()
	if err != nil {
		return nil, err
	}
	if err := m.Verify(); err != nil {
		return nil, fmt.Errorf("module %s: %w", m.Name, err)
	}
	return m, nil
}

type parser struct {
	src   string
	pos   int
	env   map[string]*Value
	depth int
	lines struct{ pos, n int } // line breaks counted so far, up to a position
}

// line returns the current line number, counting on from the last call.
func (p *parser) line() int {
	p.lines.n += strings.Count(p.src[p.lines.pos:p.pos], "\n")
	p.lines.pos = p.pos
	return 1 + p.lines.n
}

func (p *parser) wrap(err error) error {
	if err == nil {
		return nil
	}
	line := 1 + strings.Count(p.src[:p.pos], "\n")
	col := p.pos - strings.LastIndexByte(p.src[:p.pos], '\n')
	return fmt.Errorf("line %d, column %d: %w", line, col, err)
}

func (p *parser) errf(f string, a ...any) error { return p.wrap(fmt.Errorf(f, a...)) }

// space skips blanks and comments (// to the end of the line).
func (p *parser) space() {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			p.pos++
		case strings.HasPrefix(p.src[p.pos:], "//"):
			if i := strings.IndexByte(p.src[p.pos:], '\n'); i >= 0 {
				p.pos += i
			} else {
				p.pos = len(p.src)
			}
		default:
			return
		}
	}
}

func (p *parser) peek(s string) bool {
	p.space()
	return strings.HasPrefix(p.src[p.pos:], s)
}

func (p *parser) accept(s string) bool {
	if p.peek(s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *parser) expect(s string) error {
	if p.accept(s) {
		return nil
	}
	end := min(p.pos+20, len(p.src))
	return p.errf("expected %q, found %q", s, p.src[p.pos:end])
}

func (p *parser) while(ok func(byte) bool) string {
	start := p.pos
	for p.pos < len(p.src) && ok(p.src[p.pos]) {
		p.pos++
	}
	return p.src[start:p.pos]
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *parser) word() string {
	p.space()
	return p.while(isWord)
}

func (p *parser) number() string {
	p.space()
	return p.while(func(c byte) bool { return isWord(c) || c == '.' || c == '+' || c == '-' })
}

func (p *parser) int(v *int) error {
	p.space()
	s := p.while(func(c byte) bool { return c == '-' || c == '+' || c >= '0' && c <= '9' })
	n, err := strconv.Atoi(s)
	if err != nil {
		return p.errf("expected an integer, found %q", s)
	}
	*v = n
	return nil
}

func (p *parser) ints(v *[]int) error {
	if err := p.expect("["); err != nil {
		return err
	}
	*v = []int{}
	for !p.accept("]") {
		if len(*v) > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		var n int
		if err := p.int(&n); err != nil {
			return err
		}
		*v = append(*v, n)
	}
	return nil
}

func (p *parser) typ() (t Type, err error) {
	w := p.word()
	if p.accept(":") {
		for s := HBM; int(s) < len(spaces); s++ {
			if spaces[s] == w {
				t.Space = s
			}
		}
		if t.Space == None {
			return t, p.errf("unknown memory space %q (known: hbm vmem smem)", w)
		}
		w = p.word()
	}
	if w == "sem" {
		t.DType = Sem
	} else if t.DType, err = ParseDType(w); err != nil {
		return t, p.wrap(err)
	}
	if err := p.ints(&t.Shape); err != nil {
		return t, err
	}
	return t, p.wrap(checkType(t))
}

func (p *parser) valueName() (string, error) {
	if err := p.expect("%"); err != nil {
		return "", err
	}
	s := p.while(isWord)
	if s == "" {
		return "", p.errf("expected a value name after %%")
	}
	return s, nil
}

func (p *parser) use() (*Value, error) {
	s, err := p.valueName()
	if err != nil {
		return nil, err
	}
	v := p.env[s]
	if v == nil {
		return nil, p.errf("%%%s is not defined here", s)
	}
	return v, nil
}

func (p *parser) define(name string, v *Value) error {
	if p.env[name] != nil {
		return p.errf("%%%s is defined twice", name)
	}
	p.env[name] = v
	return nil
}

// commaList parses items until none of sep follows.
func (p *parser) commaList(f func() error) error {
	for {
		if err := f(); err != nil {
			return err
		}
		if !p.accept(",") {
			return nil
		}
	}
}

func (p *parser) module() (*Module, error) {
	m := &Module{Body: &Block{}}
	if p.word() != "module" {
		return nil, p.errf("expected a module")
	}
	m.Name = p.word()
	if !isName(m.Name) {
		return nil, p.errf("malformed module name %q", m.Name)
	}
	if err := p.params(m.Body, true); err != nil {
		return nil, err
	}
	if err := p.expect("->"); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if !p.accept(")") {
		if err := p.commaList(func() error {
			w := p.word()
			if !isName(w) {
				return p.errf("malformed result name %q", w)
			}
			m.Results = append(m.Results, w)
			return nil
		}); err != nil {
			return nil, err
		}
		if err := p.expect(")"); err != nil {
			return nil, err
		}
	}
	if p.accept("reuse") {
		if err := p.reuse(m); err != nil {
			return nil, err
		}
	}
	if err := p.block(m.Body); err != nil {
		return nil, err
	}
	if p.space(); p.pos != len(p.src) {
		return nil, p.errf("text after the module")
	}
	return m, nil
}

// reuse reads (result=parameter, ...).
func (p *parser) reuse(m *Module) error {
	if err := p.expect("("); err != nil {
		return err
	}
	if err := p.commaList(func() error {
		r := Reuse{Result: p.word()}
		if err := p.expect("="); err != nil {
			return err
		}
		r.Param = p.word()
		m.Reuse = append(m.Reuse, r)
		return nil
	}); err != nil {
		return err
	}
	return p.expect(")")
}

func (p *parser) params(b *Block, named bool) error {
	if err := p.expect("("); err != nil {
		return err
	}
	if p.accept(")") {
		return nil
	}
	if err := p.commaList(func() error {
		n, err := p.valueName()
		if err != nil {
			return err
		}
		if err := p.expect(":"); err != nil {
			return err
		}
		t, err := p.typ()
		if err != nil {
			return err
		}
		v := &Value{Type: t}
		if named {
			v.Name = n
		}
		b.Params = append(b.Params, v)
		return p.define(n, v)
	}); err != nil {
		return err
	}
	return p.expect(")")
}

func (p *parser) block(b *Block) error {
	if p.depth++; p.depth > maxNesting {
		return p.errf("bodies nest deeper than %d", maxNesting)
	}
	defer func() { p.depth-- }()
	if err := p.expect("{"); err != nil {
		return err
	}
	for {
		p.space()
		start := p.pos
		if p.word() == "yield" {
			if p.peek("%") {
				if err := p.commaList(func() error {
					v, err := p.use()
					b.Yield = append(b.Yield, v)
					return err
				}); err != nil {
					return err
				}
			}
			return p.expect("}")
		}
		p.pos = start
		in, err := p.instr()
		if err != nil {
			return err
		}
		b.Instrs = append(b.Instrs, in)
	}
}

func (p *parser) instr() (*Instr, error) {
	in := &Instr{Task: Task{Chunk: -1, Head: -1}, Pos: Pos{Line: p.line()}}
	var names []string
	if p.peek("%") {
		if err := p.commaList(func() error {
			n, err := p.valueName()
			names = append(names, n)
			return err
		}); err != nil {
			return nil, err
		}
		if err := p.expect("="); err != nil {
			return nil, err
		}
	}
	w := p.word()
	var ok bool
	if in.Op, ok = ParseOp(w); !ok {
		return nil, p.errf("unknown op %q", w)
	}
	for _, part := range []func(*Instr) error{p.args, p.braces, p.body} {
		if err := part(in); err != nil {
			return nil, err
		}
	}
	if err := p.results(in, names); err != nil {
		return nil, err
	}
	if p.accept("@") {
		var err error
		if in.Task, err = ParseTask(p.while(func(c byte) bool { return isWord(c) || c == '.' || c == '-' })); err != nil {
			return nil, p.errf("%v", err)
		}
	}
	return in, nil
}

// args parses the operands %a, %b, ..., if any.
func (p *parser) args(in *Instr) error {
	if !p.peek("%") {
		return nil
	}
	return p.commaList(func() error {
		v, err := p.use()
		in.Args = append(in.Args, v)
		return err
	})
}

// braces parses {attributes} of an op that has attributes; it may be absent if all of them are optional.
func (p *parser) braces(in *Instr) error {
	grid := in.Op == OpGrid || in.Op == OpKernel
	needed := func(a string) bool { return optionalAttrs[a] == nil }
	attrs := Ops[in.Op].Attrs
	if !grid && (len(attrs) == 0 || !slices.ContainsFunc(attrs, needed) && !p.peek("{")) {
		return nil
	}
	err := p.expect("{")
	switch {
	case err != nil:
	case grid:
		in.Attrs.Grid, err = p.grid()
	default:
		err = p.attrs(in)
	}
	if err != nil {
		return err
	}
	return p.expect("}")
}

// body parses (parameters) { instructions } of an op with a body.
func (p *parser) body(in *Instr) error {
	if !Ops[in.Op].Body {
		return nil
	}
	in.Body = &Block{}
	if err := p.params(in.Body, false); err != nil {
		return err
	}
	return p.block(in.Body)
}

// results parses : type, type, ... and defines the named results.
func (p *parser) results(in *Instr, names []string) error {
	if p.accept(":") {
		if err := p.commaList(func() error {
			t, err := p.typ()
			in.Results = append(in.Results, &Value{Type: t, Def: in})
			return err
		}); err != nil {
			return err
		}
	}
	if len(in.Results) != len(names) {
		return p.errf("%d results with %d types", len(names), len(in.Results))
	}
	for i, n := range names {
		if err := p.define(n, in.Results[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) attrs(in *Instr) error {
	seen := map[string]bool{}
	allowed := Ops[in.Op].Attrs
	err := p.commaList(func() error {
		k := p.word()
		ok := false
		for _, a := range allowed {
			ok = ok || a == k
		}
		if !ok || seen[k] {
			return p.errf("attribute %q of %s is unknown or repeated (known: %s)", k, in.Op, strings.Join(allowed, " "))
		}
		seen[k] = true
		if err := p.expect("="); err != nil {
			return err
		}
		return attrKinds[k].parse(p, &in.Attrs)
	})
	if err != nil {
		return err
	}
	for _, a := range allowed {
		if !seen[a] && optionalAttrs[a] == nil {
			return p.errf("%s lacks attribute %s", in.Op, a)
		}
	}
	return nil
}
