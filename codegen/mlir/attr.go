package mlir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Attr is the value of an attribute, one of the types of rule 3.
type Attr any

// Num is a number as text, with its type if given.
type Num struct {
	Text string
	Type Type
}

// Dense is a constant array: one number for all elements, or all elements in row-major order.
type Dense struct {
	Type   Type
	Shape  []int // of the nested lists; nil if one number is for all
	Values []string
}

// Opaque is an attribute of a dialect, #Name<Body>.
type Opaque struct{ Name, Body string }

// Symbol is a reference to a function, @name, without the @.
type Symbol string

// Word is a bare word.
type Word string

// Dict maps names to attributes.
type Dict map[string]Attr

// dict reads {name = attribute, name, ...}.
func (p *parser) dict() (Dict, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	d := Dict{}
	if p.eat("}") {
		return d, nil
	}
	for {
		name := p.word()
		if name == "" {
			return nil, p.errorf("the name of an attribute is expected, not %s", p.near(""))
		}
		if _, twice := d[name]; twice {
			return nil, p.errorf("attribute %s is given twice", name)
		}
		d[name] = true
		if p.eat("=") {
			a, err := p.attr()
			if err != nil {
				return nil, err
			}
			d[name] = a
		}
		if !p.eat(",") {
			return d, p.expect("}")
		}
	}
}

// attr reads an attribute, with its type if one follows.
func (p *parser) attr() (Attr, error) {
	a, err := p.bareAttr()
	if err != nil {
		return nil, err
	}
	typed := func() (Type, error) {
		if !p.eat(":") {
			return Type{}, nil
		}
		return p.typ()
	}
	switch a := a.(type) {
	case Num:
		a.Type, err = typed()
		return a, err
	case Dense:
		if a.Type, err = typed(); err == nil {
			err = p.fits(a)
		}
		return a, err
	}
	return a, nil
}

// bareAttr reads an attribute without its type.
func (p *parser) bareAttr() (Attr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.exit()
	switch {
	case p.at(`"`):
		return p.text()
	case p.at("{"):
		return p.dict()
	case p.at("["):
		return p.attrList()
	case p.at("@"):
		return p.symbol()
	case p.at("#"):
		return p.opaque()
	case p.at("("), p.at("!"):
		return p.typ()
	}
	if n, ok := p.number(); ok {
		return Num{Text: n}, nil
	}
	switch w := p.peekWord(); {
	case w == "true" || w == "false":
		p.word()
		return w == "true", nil
	case w == "dense":
		p.word()
		return p.dense()
	case w == "array":
		p.word()
		return p.intArray()
	case slices.Contains(kindNames[1:], w) || slices.Contains(elemNames[1:], w):
		return p.typ()
	case w != "":
		return Word(p.word()), nil
	}
	return nil, p.errorf("an attribute is expected, not %s", p.near(""))
}

func (p *parser) attrList() (Attr, error) {
	if err := p.expect("["); err != nil {
		return nil, err
	}
	list := []Attr{}
	if p.eat("]") {
		return list, nil
	}
	for {
		a, err := p.attr()
		if err != nil {
			return nil, err
		}
		if list = append(list, a); !p.eat(",") {
			return list, p.expect("]")
		}
	}
}

// opaque reads #name<body>, up to the matching bracket.
func (p *parser) opaque() (Opaque, error) {
	if err := p.expect("#"); err != nil {
		return Opaque{}, err
	}
	o := Opaque{Name: p.word()}
	if !p.eat("<") {
		return o, nil
	}
	start, open := p.pos, 1
	for ; p.pos < len(p.src) && p.src[p.pos] != '\n'; p.pos++ {
		switch p.src[p.pos] {
		case '<':
			open++
		case '>':
			if open--; open == 0 {
				o.Body = p.src[start:p.pos]
				p.pos++
				return o, nil
			}
		}
	}
	return o, p.errorf("#%s<...> without an end", o.Name)
}

// dense reads the rest of dense<...>: a number, nested lists, or nothing.
func (p *parser) dense() (Attr, error) {
	if err := p.expect("<"); err != nil {
		return nil, err
	}
	var d Dense
	if p.eat(">") {
		d.Shape = []int{0}
		return d, nil
	}
	shape, err := p.nested(&d.Values)
	if err != nil {
		return nil, err
	}
	d.Shape = shape
	return d, p.expect(">")
}

// nested reads a number (no shape), or a list of parts of equal shape.
func (p *parser) nested(values *[]string) ([]int, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.exit()
	if !p.eat("[") {
		w, ok := p.number()
		if !ok {
			if w = p.word(); w != "true" && w != "false" {
				return nil, p.errorf("a number is expected, not %s", p.near(w))
			}
		}
		*values = append(*values, w)
		return nil, nil
	}
	if p.eat("]") {
		return []int{0}, nil
	}
	var first []int
	for n := 1; ; n++ {
		s, err := p.nested(values)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			first = s
		} else if !slices.Equal(s, first) {
			return nil, p.errorf("lists of different lengths in a dense constant")
		}
		if !p.eat(",") {
			return append([]int{n}, first...), p.expect("]")
		}
	}
}

// fits checks the shape of a constant against its type.
func (p *parser) fits(d Dense) error {
	if len(d.Shape) > 0 && !slices.Equal(d.Shape, d.Type.Shape) {
		return p.errorf("a constant of shape %v for %s", d.Shape, d.Type)
	}
	return nil
}

// intArray reads the rest of array<i64: 1, 2>.
func (p *parser) intArray() (Attr, error) {
	if err := p.expect("<"); err != nil {
		return nil, err
	}
	if e, ok := p.elem(); !ok || e != I64 && e != I32 {
		return nil, p.errorf("array<i32: ...> or array<i64: ...> is expected")
	}
	list := []int{}
	if !p.eat(":") {
		return list, p.expect(">")
	}
	for {
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		if list = append(list, n); !p.eat(",") {
			return list, p.expect(">")
		}
	}
}

// Ints returns the integers of an attribute, and whether it has that form: [1, 2], array<i64: 1, 2> or dense<[1, 2]>.
func Ints(a Attr) ([]int, bool) {
	var texts []string
	switch a := a.(type) {
	case []int:
		return a, true
	case []Attr:
		for _, x := range a {
			n, ok := x.(Num)
			if !ok {
				return nil, false
			}
			texts = append(texts, n.Text)
		}
	case Dense:
		texts = a.Values
	default:
		return nil, false
	}
	list := make([]int, len(texts))
	for i, t := range texts {
		n, err := strconv.Atoi(t)
		if err != nil {
			return nil, false
		}
		list[i] = n
	}
	return list, true
}

// Lists returns the lists of integers in the body of an attribute of a dialect: <[1], [0, 2], []>.
func (o Opaque) Lists() ([][]int, error) {
	p := newParser(o.Body)
	var lists [][]int
	for {
		a, err := p.attrList()
		if err != nil {
			return nil, fmt.Errorf("#%s<%s>: %w", o.Name, o.Body, err)
		}
		list, ok := Ints(a)
		if !ok {
			return nil, fmt.Errorf("#%s<%s>: lists of integers are expected", o.Name, o.Body)
		}
		if lists = append(lists, list); !p.eat(",") {
			break
		}
	}
	if p.space(); p.pos < len(p.src) {
		return nil, fmt.Errorf("#%s<%s>: lists of integers are expected", o.Name, o.Body)
	}
	return lists, nil
}

// Names returns the names of the attributes, sorted.
func (d Dict) Names() []string {
	var names []string
	for n := range d {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Field returns the integer of name = value in the body of an attribute of a dialect, and whether it has one. A list may have one
// integer, or none: -1.
func (o Opaque) Field(name string) (int, bool) {
	_, rest, ok := strings.Cut(o.Body, name+" = ")
	if !ok {
		return 0, false
	}
	p := newParser(rest)
	if p.eat("[") && p.at("]") {
		return -1, true
	}
	n, err := p.integer()
	return n, err == nil
}
