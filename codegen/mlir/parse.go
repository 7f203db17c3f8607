package mlir

import (
	"fmt"
	"strings"
)

// Module is a parsed module.
type Module struct {
	Name  string
	Attrs Dict
	Funcs []*Func
}

// Func is a function. Its values are numbered from 0; Values holds their types.
type Func struct {
	Name   string
	Attrs  Dict
	Body   *Block
	Outs   []Type
	Values []Type
	Line   int
}

// Block is a list of operations; the last one returns the block's results.
type Block struct {
	Params []int
	Types  []Type // of the parameters
	Ops    []*Op
}

// Op is an operation. Ins and Outs are the declared types of operands and results.
type Op struct {
	Name              string
	Operands, Results []int
	Ins, Outs         []Type
	Attrs             Dict
	Words             []string // bare words of the short form, in order: LT, SIGNED
	Regions           []*Block // nil for an empty region
	Line              int
	Loc               string // the name in the location
}

// Where describes the operation for an error: line, name and location.
func (o *Op) Where() string {
	s := fmt.Sprintf("line %d: %s", o.Line, o.Name)
	if o.Loc != "" {
		s += " of " + o.Loc
	}
	return s
}

// Func returns the function of a name; an error if there is none.
func (m *Module) Func(name string) (*Func, error) {
	for _, f := range m.Funcs {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("module @%s has no function @%s", m.Name, name)
}

func newParser(text string) *parser { return &parser{src: text, line: 1} }

// Parse reads the text of a module. Errors have line and column.
func Parse(text string) (*Module, error) {
	p := newParser(text)
	m, err := p.module()
	if err != nil {
		return nil, fmt.Errorf("mlir: %w", err)
	}
	return m, nil
}

func (p *parser) module() (*Module, error) {
	if p.word() != "module" {
		return nil, p.errorf("module is expected")
	}
	name, err := p.symbol()
	if err != nil {
		return nil, err
	}
	m := &Module{Name: string(name)}
	if p.peekWord() == "attributes" {
		p.word()
		if m.Attrs, err = p.dict(); err != nil {
			return nil, err
		}
	}
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	for !p.eat("}") {
		f, err := p.function()
		if err != nil {
			return nil, err
		}
		if _, err := m.Func(f.Name); err == nil {
			return nil, p.errorf("function @%s is there twice", f.Name)
		}
		m.Funcs = append(m.Funcs, f)
	}
	if p.space(); p.pos < len(p.src) {
		return nil, p.errorf("text after the module: %s", p.near(""))
	}
	return m, nil
}

// function reads a function in the short form (func.func @main ...) or the generic one.
func (p *parser) function() (*Func, error) {
	p.values, p.scopes = nil, nil
	p.space()
	f := &Func{Line: p.line}
	var err error
	if p.at(`"`) {
		err = p.genericFunction(f)
	} else {
		err = p.shortFunction(f)
	}
	f.Values = p.values
	return f, err
}

func (p *parser) genericFunction(f *Func) error {
	op, err := p.op()
	if err != nil {
		return err
	}
	sym, named := op.Attrs["sym_name"].(string)
	t, typed := op.Attrs["function_type"].(Type)
	if !strings.HasSuffix(op.Name, "func.func") || !named || !typed || t.Kind != Function || len(op.Regions) != 1 || op.Regions[0] == nil {
		return p.errorf("a function with a name, a type and a body is expected, not %s", op.Name)
	}
	f.Name, f.Attrs, f.Body, f.Outs = sym, op.Attrs, op.Regions[0], t.Outs
	if got := f.Body.Types; !(Type{Ins: got}).Equal(Type{Ins: t.Ins}) {
		return p.errorf("function @%s takes %s, its type says %s", sym, typeList(got), typeList(t.Ins))
	}
	return nil
}

func (p *parser) shortFunction(f *Func) error {
	if w := p.word(); w != "func.func" {
		return p.errorf("a function is expected, not %s", p.near(w))
	}
	if w := p.peekWord(); w == "public" || w == "private" {
		p.word()
	}
	name, err := p.symbol()
	if err != nil {
		return err
	}
	f.Name = string(name)
	p.open()
	params, err := p.params()
	if err != nil {
		return err
	}
	if err := p.expect("->"); err != nil {
		return err
	}
	if f.Outs, err = p.parenTypes(); err != nil {
		return err
	}
	f.Body = &Block{Params: params, Types: p.typesOf(params)}
	return p.body(f.Body)
}

func (p *parser) typesOf(values []int) []Type {
	ts := make([]Type, len(values))
	for i, v := range values {
		ts[i] = p.values[v]
	}
	return ts
}

func (p *parser) open() { p.scopes = append(p.scopes, map[string]int{}) }

// params reads (%a: type {attributes}, ...), and defines the values in the innermost block.
func (p *parser) params() ([]int, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if p.eat(")") {
		return nil, nil
	}
	var params []int
	for {
		name, err := p.value()
		if err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		t, err := p.typ()
		if err != nil {
			return nil, err
		}
		if p.at("{") {
			if _, err := p.dict(); err != nil {
				return nil, err
			}
		}
		v, err := p.define(name, t)
		if err != nil {
			return nil, err
		}
		if params = append(params, v); !p.eat(",") {
			return params, p.expect(")")
		}
	}
}

// body reads { operations } into a block, and closes the block's open scope.
func (p *parser) body(b *Block) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	if err := p.ops(b); err != nil {
		return err
	}
	return p.expect("}")
}

// ops reads operations up to the end of the block, and closes its scope.
func (p *parser) ops(b *Block) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.exit()
	for !p.at("}") {
		if p.at("^") {
			return p.errorf("a region of several blocks is not supported")
		}
		op, err := p.op()
		if err != nil {
			return err
		}
		b.Ops = append(b.Ops, op)
	}
	p.scopes = p.scopes[:len(p.scopes)-1]
	return nil
}

// value reads %name or %name#2.
func (p *parser) value() (string, error) {
	if err := p.expect("%"); err != nil {
		return "", err
	}
	n, err := p.name()
	if err == nil && p.pos < len(p.src) && p.src[p.pos] == '#' {
		p.pos++
		i, ok := p.digits()
		if !ok {
			return "", p.errorf("the number of a result is expected after %%%s#", n)
		}
		n += "#" + i
	}
	return n, err
}

// define names a new value in the innermost block.
func (p *parser) define(name string, t Type) (int, error) {
	for _, s := range p.scopes {
		if _, twice := s[name]; twice {
			return 0, p.errorf("%%%s is defined twice", name)
		}
	}
	if len(p.scopes) == 0 {
		p.open()
	}
	v := len(p.values)
	p.values = append(p.values, t)
	p.scopes[len(p.scopes)-1][name] = v
	return v, nil
}

// use returns a value by name.
func (p *parser) use(name string) (int, error) {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if v, ok := p.scopes[i][name]; ok {
			return v, nil
		}
	}
	return 0, p.errorf("%%%s is used before it is defined", name)
}
