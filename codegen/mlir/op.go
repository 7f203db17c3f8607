package mlir

import (
	"slices"
	"strconv"
	"strings"
)

// maxResults is the most results of an operation.
const maxResults = 1 << 12

// op reads one operation with its results, in the generic or the short form.
func (p *parser) op() (*Op, error) {
	p.space()
	o := &Op{Line: p.line}
	var names []string
	if p.at("%") {
		name, err := p.value()
		if err != nil {
			return nil, err
		}
		names = []string{name}
		if p.eat(":") {
			n, err := p.integer()
			if err != nil {
				return nil, err
			}
			if n < 1 || n > maxResults {
				return nil, p.errorf("%%%s of %d results", name, n)
			}
			names = make([]string, n)
			for i := range names {
				names[i] = name + "#" + strconv.Itoa(i)
			}
		}
		if err := p.expect("="); err != nil {
			return nil, err
		}
	}
	var err error
	switch {
	case p.at(`"`):
		err = p.generic(o)
	case p.peekWord() == "stablehlo.while":
		err = p.while(o, len(names))
	default:
		err = p.short(o, len(names))
	}
	if err != nil {
		return nil, err
	}
	if err := p.check(o, len(names)); err != nil {
		return nil, err
	}
	for i, n := range names {
		v, err := p.define(n, o.Outs[i])
		if err != nil {
			return nil, err
		}
		o.Results = append(o.Results, v)
	}
	return o, p.location(o)
}

// check compares declared types with the operands' types, and the number of results.
func (p *parser) check(o *Op, results int) error {
	if len(o.Outs) != results {
		return p.errorf("%s gives %d results, %d are named", o.Name, len(o.Outs), results)
	}
	if len(o.Ins) != len(o.Operands) {
		return p.errorf("%s takes %d operands, %d are given", o.Name, len(o.Ins), len(o.Operands))
	}
	for i, v := range o.Operands {
		if !p.values[v].Equal(o.Ins[i]) {
			return p.errorf("%s: operand %d is %s, declared %s", o.Name, i, p.values[v], o.Ins[i])
		}
	}
	return nil
}

// location reads loc("name"), loc("name":1:1), loc(unknown) or nothing.
func (p *parser) location(o *Op) error {
	if p.peekWord() != "loc" {
		return nil
	}
	p.word()
	if err := p.expect("("); err != nil {
		return err
	}
	if p.peekWord() == "unknown" {
		p.word()
		return p.expect(")")
	}
	var err error
	if o.Loc, err = p.text(); err != nil {
		return err
	}
	for p.eat(":") {
		if _, err := p.integer(); err != nil {
			return err
		}
	}
	return p.expect(")")
}

func (p *parser) operand(o *Op) error {
	name, err := p.value()
	if err != nil {
		return err
	}
	v, err := p.use(name)
	o.Operands = append(o.Operands, v)
	return err
}

// generic reads "name"(operands) <{properties}> ({regions}) {attributes} : type. Properties and attributes become one dictionary.
func (p *parser) generic(o *Op) error {
	var err error
	if o.Name, err = p.text(); err != nil {
		return err
	}
	if err := p.expect("("); err != nil {
		return err
	}
	for !p.eat(")") {
		if len(o.Operands) > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		if err := p.operand(o); err != nil {
			return err
		}
	}
	if p.eat("<") {
		if o.Attrs, err = p.dict(); err != nil {
			return err
		}
		if err := p.expect(">"); err != nil {
			return err
		}
	}
	if p.eat("(") {
		for {
			r, err := p.region()
			if err != nil {
				return err
			}
			if o.Regions = append(o.Regions, r); !p.eat(",") {
				break
			}
		}
		if err := p.expect(")"); err != nil {
			return err
		}
	}
	if p.at("{") {
		d, err := p.dict()
		if err != nil {
			return err
		}
		if o.Attrs == nil {
			o.Attrs = Dict{}
		}
		for n, a := range d {
			if _, twice := o.Attrs[n]; twice {
				return p.errorf("attribute %s is given twice", n)
			}
			o.Attrs[n] = a
		}
	}
	if err := p.expect(":"); err != nil {
		return err
	}
	t, err := p.functionType()
	o.Ins, o.Outs = t.Ins, t.Outs
	return err
}

// region reads {^bb0(parameters): operations}, or {} as nil.
func (p *parser) region() (*Block, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	if p.eat("}") {
		return nil, nil
	}
	b := &Block{}
	p.open()
	if p.eat("^") {
		if _, err := p.name(); err != nil {
			return nil, err
		}
		if p.at("(") {
			var err error
			if b.Params, err = p.params(); err != nil {
				return nil, err
			}
			b.Types = p.typesOf(b.Params)
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
	}
	if err := p.ops(b); err != nil {
		return nil, err
	}
	return b, p.expect("}")
}

// short reads an operation of StableHLO in its own form: operands, words, name = attribute, ranges and dictionaries in any order up to the
// colon before the types.
//
//	stablehlo.compare LT, %1, %2, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
//	stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
func (p *parser) short(o *Op, results int) error {
	o.Name, o.Attrs = p.word(), Dict{}
	if o.Name == "" {
		return p.errorf("an operation is expected, not %s", p.near(""))
	}
	if o.Name == "return" && p.at("}") {
		return nil
	}
	for !p.eat(":") {
		if err := p.item(o); err != nil {
			return err
		}
		p.eat(",")
	}
	if err := p.shortTypes(o, results); err != nil {
		return err
	}
	if p.peekWord() != "reducer" {
		return nil
	}
	p.word()
	p.open()
	params, err := p.params()
	if err != nil {
		return err
	}
	b := &Block{Params: params, Types: p.typesOf(params)}
	o.Regions = []*Block{b}
	return p.body(b)
}

// item reads one part of the short form.
func (p *parser) item(o *Op) error {
	switch {
	case p.at("%"):
		return p.operand(o)
	case p.eat("("):
		for !p.eat(")") {
			if p.at("%") {
				if err := p.operand(o); err != nil {
					return err
				}
			} else if p.word() != "init" || !p.eat(":") {
				return p.errorf("an operand is expected, not %s", p.near(""))
			}
			p.eat(",")
		}
		return nil
	case p.at("@"):
		s, err := p.symbol()
		o.Attrs["callee"] = s
		return err
	case p.eat("["):
		return p.ranges(o)
	case p.at("{"):
		d, err := p.dict()
		for n, a := range d {
			o.Attrs[n] = a
		}
		return err
	}
	w := p.word()
	if w == "" {
		return p.errorf("%s: %s is not understood", o.Name, p.near(""))
	}
	if w == "dense" {
		d, err := p.dense()
		o.Attrs["value"] = d
		return err
	}
	if !p.eat("=") {
		o.Words = append(o.Words, w)
		return nil
	}
	a, err := p.bareAttr()
	if err != nil {
		return err
	}
	if p.peekWord() == "x" { // two operands: dims = [0] x [1]
		p.word()
		second, err := p.bareAttr()
		if err != nil {
			return err
		}
		a = []Attr{a, second}
	}
	if _, twice := o.Attrs[w]; twice {
		return p.errorf("%s is given twice", w)
	}
	o.Attrs[w] = a
	return nil
}

// ranges reads start:limit:stride per dimension, up to the bracket, into the attributes starts, limits and strides.
func (p *parser) ranges(o *Op) error {
	starts, limits, strides := []int{}, []int{}, []int{}
	for !p.eat("]") {
		r := []int{0, 0, 1}
		for i := range r {
			if i > 0 && !p.eat(":") {
				break
			}
			n, err := p.integer()
			if err != nil {
				return err
			}
			r[i] = n
		}
		starts, limits, strides = append(starts, r[0]), append(limits, r[1]), append(strides, r[2])
		p.eat(",")
	}
	o.Attrs["starts"], o.Attrs["limits"], o.Attrs["strides"] = starts, limits, strides
	return nil
}

// shortTypes reads the types of the short form: a function type, one type for all operands and results, the same after a condition's
// type, or the types of a return's operands.
func (p *parser) shortTypes(o *Op, results int) error {
	if p.at("(") {
		t, err := p.functionType()
		o.Ins, o.Outs = t.Ins, t.Outs
		return err
	}
	var ts []Type
	for {
		t, err := p.typ()
		if err != nil {
			return err
		}
		if ts = append(ts, t); !p.eat(",") {
			break
		}
	}
	last := ts[len(ts)-1]
	switch {
	case strings.HasSuffix(o.Name, "return"):
		o.Ins = ts
		return nil
	case len(ts) == 2 && len(o.Operands) == 3:
		o.Ins = []Type{ts[0], last, last}
	case len(ts) == 1:
		o.Ins = slices.Repeat(ts, len(o.Operands))
	default:
		return p.errorf("%s has %d types", o.Name, len(ts))
	}
	if o.Outs = slices.Repeat([]Type{last}, results); o.Name == "stablehlo.constant" {
		d, ok := o.Attrs["value"].(Dense)
		if !ok {
			return p.errorf("a constant without a value")
		}
		d.Type = last
		o.Attrs["value"] = d
		return p.fits(d)
	}
	return nil
}

// while reads stablehlo.while(%a = %init, ...) : types cond {...} do {...}. Both regions take the carried values as parameters.
func (p *parser) while(o *Op, results int) error {
	o.Name = p.word()
	if err := p.expect("("); err != nil {
		return err
	}
	var names []string
	for !p.eat(")") {
		n, err := p.value()
		if err != nil {
			return err
		}
		names = append(names, n)
		if err := p.expect("="); err != nil {
			return err
		}
		if err := p.operand(o); err != nil {
			return err
		}
		p.eat(",")
	}
	if err := p.expect(":"); err != nil {
		return err
	}
	for i := range names {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		t, err := p.typ()
		if err != nil {
			return err
		}
		o.Ins = append(o.Ins, t)
	}
	o.Outs = o.Ins
	if results != len(names) {
		return p.errorf("a while of %d values gives %d results", len(names), results)
	}
	for _, w := range []string{"cond", "do"} {
		if got := p.word(); got != w {
			return p.errorf("%s is expected, not %s", w, p.near(got))
		}
		p.open()
		b := &Block{Types: o.Ins}
		for i, n := range names {
			v, err := p.define(n, o.Ins[i])
			if err != nil {
				return err
			}
			b.Params = append(b.Params, v)
		}
		if err := p.body(b); err != nil {
			return err
		}
		o.Regions = append(o.Regions, b)
	}
	return nil
}
