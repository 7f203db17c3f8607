package mlir

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Elem is an element type.
type Elem uint8

// The element types. In kernels I16, I32 and I64 are signless; U16 and U32 occur only in StableHLO.
const (
	NoElem Elem = iota
	F64
	F32
	F16
	BF16
	I64
	I32
	I16
	I1
	U32
	U16
	Index
	Semaphore // of a copy
)

var elemNames = [...]string{
	F64: "f64", F32: "f32", F16: "f16", BF16: "bf16", I64: "i64", I32: "i32", I16: "i16", I1: "i1", U32: "ui32", U16: "ui16",
	Index: "index", Semaphore: "!tpu.dma_semaphore",
}

func (e Elem) String() string {
	if int(e) < len(elemNames) && e != NoElem {
		return elemNames[e]
	}
	return fmt.Sprintf("element type %d", uint8(e))
}

// Bytes returns the size of an element in memory; 1 for a bool, 0 for a semaphore.
func (e Elem) Bytes() int {
	switch e {
	case F64, I64, Index:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16, I16, U16:
		return 2
	case I1:
		return 1
	}
	return 0
}

// Float reports whether e is a float type.
func (e Elem) Float() bool { return e >= F64 && e <= BF16 }

// Kind is the kind of a type.
type Kind uint8

// The kinds of types.
const (
	Scalar Kind = iota
	Vector
	Memref
	Tensor
	Function
)

var kindNames = [...]string{Vector: "vector", Memref: "memref", Tensor: "tensor"}

// Type is the type of a value or a function.
type Type struct {
	Kind      Kind
	Elem      Elem
	Shape     []int
	Space     string // memory space of a memref: vmem, smem, hbm, semaphore_mem
	Ins, Outs []Type // of a function
}

// Equal reports whether two types are equal.
func (t Type) Equal(u Type) bool {
	return t.Kind == u.Kind && t.Elem == u.Elem && t.Space == u.Space && slices.Equal(t.Shape, u.Shape) &&
		slices.EqualFunc(t.Ins, u.Ins, Type.Equal) && slices.EqualFunc(t.Outs, u.Outs, Type.Equal)
}

// Size returns the number of elements.
func (t Type) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

func (t Type) String() string {
	switch t.Kind {
	case Scalar:
		return t.Elem.String()
	case Function:
		return typeList(t.Ins) + " -> " + typeList(t.Outs)
	}
	var b strings.Builder
	b.WriteString(kindNames[t.Kind] + "<")
	for _, d := range t.Shape {
		b.WriteString(strconv.Itoa(d) + "x")
	}
	b.WriteString(t.Elem.String())
	if t.Space != "" {
		b.WriteString(", #tpu.memory_space<" + t.Space + ">")
	}
	return b.String() + ">"
}

func typeList(ts []Type) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = t.String()
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// maxSize is the most elements of a type, maxVector of a vector: far more than any memory or register file holds.
const maxSize, maxVector = 1 << 34, 1 << 24

// typ reads a type.
func (p *parser) typ() (Type, error) {
	if err := p.enter(); err != nil {
		return Type{}, err
	}
	defer p.exit()
	if p.at("(") {
		return p.functionType()
	}
	if e, ok := p.elem(); ok {
		return Type{Elem: e}, nil
	}
	name := p.word()
	k := slices.Index(kindNames[:], name)
	if name == "" || k < 0 {
		return Type{}, p.errorf("a type is expected, not %s", p.near(name))
	}
	t := Type{Kind: Kind(k)}
	if err := p.expect("<"); err != nil {
		return t, err
	}
	if err := p.shape(&t); err != nil {
		return t, err
	}
	if t.Kind == Memref && p.eat(",") {
		space, err := p.opaque()
		if err != nil {
			return t, err
		}
		if space.Name != "tpu.memory_space" {
			return t, p.errorf("memref in #%s<%s>: only #tpu.memory_space<...> is known", space.Name, space.Body)
		}
		t.Space = space.Body
	}
	return t, p.expect(">")
}

// shape reads dimensions and element type, 8x128xf32.
func (p *parser) shape(t *Type) error {
	size, most := uint64(1), uint64(maxSize)
	if t.Kind == Vector {
		most = maxVector
	}
	for {
		p.space()
		n, ok := p.digits()
		if !ok {
			break
		}
		d, err := strconv.Atoi(n)
		if err != nil {
			return p.errorf("dimension %s is too large", n)
		}
		hi, lo := bits.Mul64(size, uint64(max(d, 1)))
		if size = lo; hi != 0 || size > most {
			return p.errorf("a %s of more than %d elements", kindNames[t.Kind], most)
		}
		t.Shape = append(t.Shape, d)
		if !p.eat("x") {
			return p.errorf("x is expected after dimension %d", d)
		}
	}
	e, ok := p.elem()
	if !ok {
		return p.errorf("an element type is expected, not %s", p.near(""))
	}
	if t.Elem = e; e == Semaphore && t.Kind != Memref {
		return p.errorf("a %s of semaphores", kindNames[t.Kind])
	}
	return nil
}

// elem reads the name of an element type, if there is one.
func (p *parser) elem() (Elem, bool) {
	p.space()
	start := p.pos
	p.eat("!")
	for p.pos < len(p.src) && (letter(p.src[p.pos]) || digit(p.src[p.pos]) || p.src[p.pos] == '.') {
		p.pos++
	}
	if i := slices.Index(elemNames[:], p.src[start:p.pos]); i > 0 {
		return Elem(i), true
	}
	p.pos = start
	return NoElem, false
}

// functionType reads (types) -> (types) or (types) -> type.
func (p *parser) functionType() (Type, error) {
	t := Type{Kind: Function}
	var err error
	if t.Ins, err = p.parenTypes(); err != nil {
		return t, err
	}
	if err = p.expect("->"); err != nil {
		return t, err
	}
	if p.at("(") {
		t.Outs, err = p.parenTypes()
		return t, err
	}
	one, err := p.typ()
	t.Outs = []Type{one}
	return t, err
}

// parenTypes reads types in parentheses, and skips their attributes.
func (p *parser) parenTypes() ([]Type, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if p.eat(")") {
		return nil, nil
	}
	var ts []Type
	for {
		t, err := p.typ()
		if err != nil {
			return nil, err
		}
		if ts = append(ts, t); !p.eat(",") {
			return ts, p.expect(")")
		}
	}
}
