package pallas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/ir"
)

// printer writes nodes as statements of one function.
type printer struct {
	*usage
	m     *module
	k     *kernel // nil outside of kernels
	names map[*item]string
	taken map[string]bool
	text  map[*item]expr // of what is written where it is used
	loops int            // nesting
	busy  map[string]bool

	yields  bool // steps of the work are marked, for others to go between
	flags   map[string]bool
	failed  error
	keep    map[*item]bool    // read beyond the nodes
	params  map[*item]bool    // references that the function reads or writes
	full    map[string]string // arrays of one number
	prelude []statement
	clock   int  // of the phase: when what is written next is due, a chunk being wholeChunk
	until   int  // the clock does not go beyond
	quiet   bool // where no yield may stand
}

// filled names an array of one number; it is made where the function begins.
func (p *printer) filled(t ir.Type, c float64, text string) string {
	e := filled(t, c, text).s
	if own := text == scalarText(t.DType, c) || strings.HasPrefix(text, "_"); p.k == nil || !own { // where a loop varies the number, it stands in the loop
		return e
	}
	if name := p.full[e]; name != "" {
		return name
	}
	base := "filled"
	switch c {
	case 0:
		base = "zeros"
	case 1:
		base = "ones"
	}
	name := p.fresh(base)
	p.full[e] = name
	p.prelude = append(p.prelude, statement{name: name, value: e})
	return name
}

// statement is one statement: name = value, list.append(value), or lines.
type statement struct {
	name, list, value string
	lines             []string
}

func (s statement) text() []string {
	switch {
	case s.lines != nil:
		return s.lines
	case s.list != "":
		return []string{s.list + ".append(" + s.value + ")"}
	case s.name != "":
		return []string{s.name + " = " + s.value}
	}
	return []string{s.value}
}

func (p *printer) need(name string) {
	p.m.helpers[name] = true
	switch {
	case strings.HasPrefix(name, "dot"):
		p.m.helpers["dot_general"] = true
	case name == "store_words":
		p.m.helpers["halves"] = true
	}
}

func (p *printer) fail(n *node, err error) {
	if p.failed == nil {
		p.failed = codegen.Refuse("pallas", n.in, err)
	}
}

// cast is the conversion of an expression; inside kernels the common ones are helpers.
func (p *printer) cast(e expr, d ir.DType) expr {
	name := map[ir.DType]string{ir.BF16: "bf16", ir.F32: "f32"}[d]
	if p.k == nil || name == "" {
		return expr{e.in(atom) + ".astype(" + dtypes[d] + ")", atom}
	}
	p.need(name)
	return call("_"+name, e.s)
}

// stageNames are what the results of ops are called in the stages of the algorithm.
var stageNames = map[string]map[ir.Op]string{
	"gates":    {ir.OpMax: "g", ir.OpMul: "g", ir.OpDot: "g_sum", ir.OpAdd: "g_sum", ir.OpSub: "g_rest", ir.OpSelect: "triangle"},
	"products": {ir.OpDot: "kq", ir.OpNeg: "neg_kk", ir.OpMul: "qk"},
	"decay":    {ir.OpSub: "log_decay", ir.OpAdd: "log_decay", ir.OpExp: "decay", ir.OpExp2: "decay", ir.OpMul: "weighted", ir.OpSelect: "neg_a", ir.OpAnd: "p"},
	"leaf":     {ir.OpAdd: "x", ir.OpMul: "term", ir.OpTake: "factor", ir.OpAnd: "block", ir.OpOr: "blocks", ir.OpDot: "x"},
	"solve":    {ir.OpDot: "product", ir.OpOr: "x", ir.OpAnd: "part", ir.OpAdd: "x"},
	"operands": {ir.OpExp: "growth", ir.OpExp2: "growth", ir.OpMul: "scaled"},
	"state":    {ir.OpDot: "product", ir.OpSub: "v_new", ir.OpAdd: "state", ir.OpMul: "decayed"},
	"output":   {ir.OpMul: "o"},
}

// maxInline is the length up to which a value is written where it is used.
const maxInline = 64

var numerals = regexp.MustCompile(`\d+`)

// width is the length of a text in which all numbers are as long: what is inlined must not depend on sizes.
func width(s string) int { return len(numerals.ReplaceAllString(s, "00")) }

// inline says whether a value made by nodes[i] may be written where it is used.
func (p *printer) inline(nodes []*node, i int, e expr) bool {
	n := nodes[i]
	x := n.defs[0]
	if n.in.Op == ir.OpRefCast {
		return true
	}
	if p.keep[x] || p.deep[x] || p.listed(x.in) {
		return false
	}
	if spreads(n.in) && e.prec == atom && width(e.s) < 24 && p.elementwise(nodes, x) {
		return true
	}
	if p.uses[x] != 1 || width(e.s) > maxInline {
		return false
	}
	user := slices.Index(nodes, p.at[x])
	if user < 0 {
		return false
	}
	for _, m := range nodes[i+1 : user] {
		if m.loop != nil || m.body != nil || m.list != nil || m.in.Op == ir.OpDot {
			return false
		}
		if len(m.defs) == 0 && n.in.Op == ir.OpLoad {
			return false
		}
	}
	if nodes[user].loop != nil || nodes[user].list != nil {
		return false
	}
	if n.in.Op == ir.OpDot {
		return user == i+1 && len(nodes[user].in.Args) == 1
	}
	return user-i < 12
}

// elementwise says whether all users of x are elementwise ops of other operands.
func (p *printer) elementwise(nodes []*node, x *item) bool {
	for _, m := range nodes {
		if m.loop != nil || m.list != nil {
			continue
		}
		for i, a := range m.args {
			if a.item == x && (!m.in.Op.IsElementwise() || len(m.in.Args) < 2 || len(m.args) < 2 && i == 0 || m.in.Op == ir.OpPack) {
				return false
			}
		}
	}
	return true
}

// spread is the text of a broadcast that its users do by themselves.
func (p *printer) spread(nodes []*node, i int) (expr, bool) {
	n := nodes[i]
	if !spreads(n.in) || p.keep[n.defs[0]] || p.deep[n.defs[0]] || !p.elementwise(nodes, n.defs[0]) {
		return expr{}, false
	}
	if x := n.defs[0]; p.listed(x.in) {
		return expr{}, false
	}
	return p.ref(n.args[0]), true
}

// nodes writes a list of nodes.
func (p *printer) nodes(ns []*node) []statement {
	var out []statement
	for i, n := range ns {
		if n.list == nil {
			out = append(out, p.pause(n.at)...)
		}
		switch {
		case n.loop != nil:
			out = append(out, p.loop(n)...)
		case n.list != nil:
			l := make([]expr, len(n.list))
			for i, r := range n.list {
				l[i] = p.ref(r)
			}
			out = append(out, statement{name: p.name(n.defs[0]), value: p.listText(l)})
		case n.in.Op == ir.OpWhen:
			out = append(out, p.when(n))
		case n.in.Op == ir.OpLoop:
			out = append(out, p.foriLoop(n)...)
		case n.in.Op == ir.OpKernel:
			out = append(out, p.kernelCall(n))
		case len(n.defs) == 0:
			out = append(out, p.effect(n))
		default:
			if x := n.defs[0]; p.uses[x] == 0 && !p.keep[x] && !p.listed(x.in) && n.in.Op.Pure() && n.in.Op != ir.OpLoop {
				continue
			}
			if e, ok := p.spread(ns, i); ok && width(e.s) < 32 {
				p.text[n.defs[0]] = e
				continue
			}
			e, err := p.write(n)
			if err != nil {
				p.fail(n, err)
				continue
			}
			x := n.defs[0]
			if p.inline(ns, i, e) {
				p.text[x] = e
				continue
			}
			out = append(out, p.define(x, e)...)
		}
	}
	return out
}

// origin names a kernel's operand after the parameter that it is a form of.
func (p *printer) origin(v *ir.Value, x *item) string {
	for v.Def != nil && v.Def.Op != ir.OpKernel && len(v.Def.Args) > 0 {
		v = v.Def.Args[0]
	}
	if v.Name != "" {
		return v.Name
	}
	return p.name(x)
}

// kernelCall writes the kernel of a node and gives its call.
func (p *printer) kernelCall(n *node) statement {
	var args, names, results []string
	for i, a := range n.args {
		args = append(args, p.ref(a).s)
		name := strings.TrimRight(p.origin(n.in.Args[i], a.item), "_0123456789")
		if v := n.in.Args[i]; i < n.in.Attrs.Grid.Tables && v.Type.DType == ir.I32 {
			name = tableName(i)
		}
		if n.in.Attrs.Grid.Bounded() && i == len(n.args)-1 {
			name = "points"
		}
		for slices.Contains(names, name) {
			name += "_"
		}
		names = append(names, name)
	}
	for _, r := range n.in.Results {
		results = append(results, p.m.hints[r])
	}
	call, results, err := p.m.kernel(n.in, names, results)
	if err != nil {
		if p.failed == nil {
			p.failed = err
		}
		return statement{}
	}
	var left []string
	for i, d := range n.defs {
		if p.uses[d] == 0 && !p.keep[d] {
			left = append(left, "_")
			continue
		}
		p.names[d] = p.fresh(results[i])
		left = append(left, p.names[d])
	}
	return statement{value: strings.Join(left, ", ") + " = " + call + "(" + strings.Join(append(args, "interpret=interpret"), ", ") + ")"}
}

func (p *printer) write(n *node) (expr, error) {
	r := rules[n.in.Op]
	if r.write == nil {
		return expr{}, fmt.Errorf("%s", r.refuse)
	}
	return r.write(p.operands(n))
}

// listed says whether a list is read, by itself or in the list that it is in.
func (p *printer) listed(g *item) bool { return g != nil && (p.uses[g] > 0 || p.listed(g.in)) }

// define names a value, appends it to the list that its loop leaves, or both.
func (p *printer) define(x *item, e expr) []statement {
	g := x.in
	listed := p.listed(g)
	switch {
	case listed && p.uses[x] == 0 && !p.keep[x]:
		return []statement{{list: p.name(g), value: e.s}}
	case listed:
		return []statement{{name: p.name(x), value: e.s}, {list: p.name(g), value: p.name(x)}}
	}
	if p.k == nil && p.names[x] == "" && x.maker != nil && len(x.maker.args) == 1 && p.at[x.maker.args[0].item] == x.maker {
		switch x.maker.in.Op { // the next form of a value that is read no more
		case ir.OpConvert, ir.OpReshape, ir.OpTranspose, ir.OpBroadcast, ir.OpSlice, ir.OpPad:
			if name := p.names[x.maker.args[0].item]; name != "" {
				p.names[x] = name
			}
		}
	}
	return []statement{{name: p.name(x), value: e.s}}
}
