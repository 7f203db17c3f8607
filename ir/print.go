package ir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Hash returns the module's identity: the SHA-256 of its text, in hex.
func (m *Module) Hash() string {
	h := sha256.Sum256([]byte(m.String()))
	return hex.EncodeToString(h[:])
}

// String returns the text form, which Parse reads.
func (m *Module) String() string {
	p := printer{names: map[*Value]string{}}
	for _, v := range m.Body.Params {
		p.names[v] = "%" + v.Name
	}
	p.printf("module %s (", m.Name)
	p.params(m.Body.Params)
	p.printf(") -> (%s) ", strings.Join(m.Results, ", "))
	if len(m.Reuse) > 0 {
		pairs := make([]string, len(m.Reuse))
		for i, r := range m.Reuse {
			pairs[i] = r.Result + "=" + r.Param
		}
		p.printf("reuse (%s) ", strings.Join(pairs, ", "))
	}
	p.block(m.Body, 0)
	p.printf("\n")
	return p.String()
}

// String returns one line for error messages: the instruction without its body, values numbered from 0.
func (in *Instr) String() string { return in.short() }

// short returns one line for error messages.
func (in *Instr) short() string {
	p := printer{names: map[*Value]string{}, noBody: true}
	p.instr(in, 0)
	s := strings.TrimSpace(p.String())
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return s
}

type printer struct {
	strings.Builder
	names  map[*Value]string
	next   int
	noBody bool
}

func (p *printer) printf(f string, a ...any) { fmt.Fprintf(&p.Builder, f, a...) }

func (p *printer) name(v *Value) string {
	if v == nil {
		return "%nil"
	}
	n, ok := p.names[v]
	if !ok {
		n = "%" + strconv.Itoa(p.next)
		p.next++
		p.names[v] = n
	}
	return n
}

func (p *printer) list(vs []*Value) {
	for i, v := range vs {
		if i > 0 {
			p.printf(", ")
		}
		p.printf("%s", p.name(v))
	}
}

func (p *printer) params(vs []*Value) {
	for i, v := range vs {
		if i > 0 {
			p.printf(", ")
		}
		p.printf("%s: %s", p.name(v), v.Type)
	}
}

func (p *printer) block(b *Block, depth int) {
	p.printf("{\n")
	for _, in := range b.Instrs {
		p.instr(in, depth+1)
	}
	p.printf("%syield ", strings.Repeat("  ", depth+1))
	p.list(b.Yield)
	p.printf("\n%s}", strings.Repeat("  ", depth))
}

func (p *printer) instr(in *Instr, depth int) {
	p.printf("%s", strings.Repeat("  ", depth))
	if len(in.Results) > 0 {
		p.list(in.Results)
		p.printf(" = ")
	}
	p.printf("%s", in.Op)
	for i, a := range in.Args {
		p.printf("%s%s", map[bool]string{true: " ", false: ", "}[i == 0], p.name(a))
	}
	if attrs := in.attrText(); attrs != "" {
		p.printf(" {%s}", attrs)
	}
	if in.Body != nil && !p.noBody {
		p.printf(" (")
		p.params(in.Body.Params)
		p.printf(") ")
		p.block(in.Body, depth)
	}
	for i, r := range in.Results {
		p.printf("%s%s", map[bool]string{true: " : ", false: ", "}[i == 0], r.Type)
	}
	if l := in.Task.String(); l != "" {
		p.printf(" @%s", l)
	}
	p.printf("\n")
}

// ints prints [1,2,3].
func ints(v []int) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = strconv.Itoa(x)
	}
	return "[" + strings.Join(s, ",") + "]"
}

// attrText prints the op's attributes in the order of its row, without optional ones at their default.
func (in *Instr) attrText() string {
	a := &in.Attrs
	if in.Op == BadOp || in.Op >= NumOps {
		return ""
	}
	if a.Grid != nil {
		return a.Grid.String()
	}
	var out []string
	for _, k := range Ops[in.Op].Attrs {
		if absent := optionalAttrs[k]; absent != nil && absent(a) {
			continue
		}
		out = append(out, k+"="+attrKinds[k].print(a))
	}
	return strings.Join(out, ", ")
}

// optionalAttrs are attributes that are not printed if the function returns true.
var optionalAttrs = map[string]func(*Attrs) bool{
	"strides": func(a *Attrs) bool { return a.Strides == nil },
	"block":   func(a *Attrs) bool { return a.Dims == nil },
	"until":   func(a *Attrs) bool { return a.Until == 0 },
}

// attrKinds prints and parses each attribute.
var attrKinds = map[string]struct {
	print func(*Attrs) string
	parse func(*parser, *Attrs) error
}{
	"axis":    {func(a *Attrs) string { return strconv.Itoa(a.Axis) }, func(p *parser, a *Attrs) error { return p.int(&a.Axis) }},
	"until":   {func(a *Attrs) string { return strconv.Itoa(a.Until) }, func(p *parser, a *Attrs) error { return p.int(&a.Until) }},
	"count":   {func(a *Attrs) string { return strconv.Itoa(a.Count) }, func(p *parser, a *Attrs) error { return p.int(&a.Count) }},
	"dims":    {func(a *Attrs) string { return ints(a.Dims) }, func(p *parser, a *Attrs) error { return p.ints(&a.Dims) }},
	"block":   {func(a *Attrs) string { return ints(a.Dims) }, func(p *parser, a *Attrs) error { return p.ints(&a.Dims) }},
	"starts":  {func(a *Attrs) string { return ints(a.Starts) }, func(p *parser, a *Attrs) error { return p.ints(&a.Starts) }},
	"limits":  {func(a *Attrs) string { return ints(a.Limits) }, func(p *parser, a *Attrs) error { return p.ints(&a.Limits) }},
	"strides": {func(a *Attrs) string { return ints(a.Strides) }, func(p *parser, a *Attrs) error { return p.ints(&a.Strides) }},
	"lb":      {func(a *Attrs) string { return ints(a.dot().LB) }, func(p *parser, a *Attrs) error { return p.ints(&a.dot().LB) }},
	"rb":      {func(a *Attrs) string { return ints(a.dot().RB) }, func(p *parser, a *Attrs) error { return p.ints(&a.dot().RB) }},
	"lc":      {func(a *Attrs) string { return ints(a.dot().LC) }, func(p *parser, a *Attrs) error { return p.ints(&a.dot().LC) }},
	"rc":      {func(a *Attrs) string { return ints(a.dot().RC) }, func(p *parser, a *Attrs) error { return p.ints(&a.dot().RC) }},
	"prec": {func(a *Attrs) string { return a.Prec.String() }, func(p *parser, a *Attrs) (err error) {
		a.Prec, err = ParsePrecision(p.word())
		return p.wrap(err)
	}},
	"cmp": {func(a *Attrs) string { return a.Cmp.String() }, func(p *parser, a *Attrs) (err error) {
		a.Cmp, err = ParseCmp(p.word())
		return p.wrap(err)
	}},
	"value": {func(a *Attrs) string { return strconv.FormatFloat(a.Value, 'g', -1, 64) }, func(p *parser, a *Attrs) (err error) {
		a.Value, err = strconv.ParseFloat(p.number(), 64)
		return p.wrap(err)
	}},
}

func (a *Attrs) dot() *DotDims {
	if a.Dot == nil {
		a.Dot = &DotDims{}
	}
	return a.Dot
}
