package pallas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/windows"
	"github.com/gdngen/gdngen/ir"
)

// printer writes nodes as statements of one function.
type printer struct {
	*loops.Usage
	m     *module
	k     *kernel // nil outside of kernels
	names map[*loops.Item]string
	taken map[string]bool
	text  map[*loops.Item]expr // text of inlined values
	loops int                  // depth of nested loops
	busy  map[string]bool

	phased  bool // the phase it writes is interleaved with others
	flags   map[string]bool
	failed  error
	carried map[*loops.Item]*loops.Item // initial values of carried values
	keep    map[*loops.Item]bool        // read outside the nodes
	once    map[*loops.Item]bool        // read once, after the nodes
	params  map[*loops.Item]bool        // references that the function accesses
	full    map[string]string           // arrays of one number, by text
	prelude []statement
	acts    bool // copies either start or are awaited, as the function's argument says
}

// filled returns an array of one number, made at the start of the function and named if it repeats.
func (p *printer) filled(t ir.Type, c float64, text string) string {
	e := filled(t, c, text).s
	if own := text == scalarText(t.DType, c) || strings.HasPrefix(text, "_"); p.k == nil || !own { // a number that a loop varies stays in the loop
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

func (p *printer) need(name string) { helpers.Need(p.m.helpers, name) }

// takes records that lanes of a type with one row are taken.
func (p *printer) takes(t ir.Type) {
	if t.Rank() == 2 && t.Shape[0] == 1 {
		p.need("one_row")
	}
}

func (p *printer) fail(n *loops.Node, err error) {
	if p.failed == nil {
		p.failed = codegen.Refuse("pallas", n.In, err)
	}
}

// cast returns the conversion of an expression; inside kernels the common ones are helpers.
func (p *printer) cast(e expr, d ir.DType) expr {
	name := map[ir.DType]string{ir.BF16: "bf16", ir.F32: "f32"}[d]
	if p.k == nil || name == "" {
		return expr{e.in(atom) + ".astype(" + dtypes[d] + ")", atom}
	}
	p.need(name)
	return call("_"+name, e.s)
}

// maxInline is the longest text of a value that is inlined where it is used.
const maxInline = 64

// numerals matches the numbers in a text.
var numerals = regexp.MustCompile(`\d+`)

// width returns the length of a text with all numbers of two digits, so that inlining does not depend on sizes.
func width(s string) int { return len(numerals.ReplaceAllString(s, "00")) }

// inline reports whether the value of nodes[i] may be inlined where it is used.
func (p *printer) inline(nodes []*loops.Node, i int, e expr) bool {
	n := nodes[i]
	x := n.Defs[0]
	if n.In.Op == ir.OpRefCast {
		return true
	}
	if p.keep[x] || p.Deep[x] || p.listed(x.In) {
		return false
	}
	if spreads(n.In) && e.prec == atom && width(e.s) < 24 && p.elementwise(nodes, x) {
		return true
	}
	if p.Uses[x] != 1 || width(e.s) > maxInline {
		return false
	}
	user := slices.Index(nodes, p.At[x])
	if user < 0 {
		return false
	}
	for _, m := range nodes[i+1 : user] {
		if m.Loop != nil || m.Body != nil && m.Call != "copies" || m.List != nil || m.In.Op == ir.OpDot {
			return false
		}
		if len(m.Defs) == 0 && n.In.Op == ir.OpLoad {
			return false
		}
	}
	if nodes[user].Loop != nil || nodes[user].List != nil {
		return false
	}
	if n.In.Op == ir.OpTake && user > i+1 || n.In.Op == ir.OpPack { // slow ops are not moved later, and words have a name
		return false
	}
	if n.In.Op == ir.OpDot {
		return user == i+1 && len(nodes[user].In.Args) == 1
	}
	return user-i < 12
}

// elementwise reports whether all users of x are elementwise ops with other operands.
func (p *printer) elementwise(nodes []*loops.Node, x *loops.Item) bool {
	for _, m := range nodes {
		if m.Loop != nil || m.List != nil {
			continue
		}
		for i, a := range m.Args {
			if a.Item == x && (!m.In.Op.IsElementwise() || len(m.In.Args) < 2 || len(m.Args) < 2 && i == 0 || m.In.Op == ir.OpPack) {
				return false
			}
		}
	}
	return true
}

// spread returns the operand of a broadcast whose users broadcast implicitly.
func (p *printer) spread(nodes []*loops.Node, i int) (expr, bool) {
	n := nodes[i]
	if !spreads(n.In) || p.keep[n.Defs[0]] || p.Deep[n.Defs[0]] || !p.elementwise(nodes, n.Defs[0]) {
		return expr{}, false
	}
	if x := n.Defs[0]; p.listed(x.In) {
		return expr{}, false
	}
	return p.ref(n.Args[0]), true
}

// nodes writes a list of nodes.
func (p *printer) nodes(ns []*loops.Node) []statement {
	var out []statement
	for i, n := range ns {
		switch {
		case n.Loop != nil:
			out = append(out, p.loop(n)...)
		case n.List != nil:
			if g, ok := all(n.List); ok && !p.keep[n.Defs[0]] {
				p.text[n.Defs[0]] = p.ref(g)
				continue
			}
			l := make([]expr, len(n.List))
			for i, r := range n.List {
				l[i] = p.ref(r)
			}
			out = append(out, statement{name: p.name(n.Defs[0]), value: p.listText(l)})
		case n.Call == "copies":
			out = append(out, p.copies(n)...)
		case n.Call == "copy":
			out = append(out, p.copy(n))
		case n.In.Op == ir.OpWhen:
			if s := p.when(n); len(s.lines) > 2 { // a step may be empty
				out = append(out, s)
			}
		case n.In.Op == ir.OpLoop:
			out = append(out, p.foriLoop(n)...)
		case n.In.Op == ir.OpKernel:
			out = append(out, p.kernelCall(n))
		case n.Call == "eliminate":
			out = append(out, p.eliminate(n)...)
		case n.Call == "merge":
			out = append(out, p.merge(n)...)
		case n.Call == "visits":
			out = append(out, statement{name: lists.Targets([]string{p.name(n.Defs[0]), p.name(n.Defs[1])}), value: p.idiom(n).s})
		case len(n.Defs) == 0:
			out = append(out, p.effect(n))
		default:
			if x := n.Defs[0]; p.Uses[x] == 0 && !p.keep[x] && !p.listed(x.In) && n.In.Op.Pure() && n.In.Op != ir.OpLoop {
				continue
			}
			if e, ok := p.spread(ns, i); ok && width(e.s) < 32 {
				p.text[n.Defs[0]] = e
				continue
			}
			e, err := p.write(n)
			if err != nil {
				p.fail(n, err)
				continue
			}
			x := n.Defs[0]
			if p.inline(ns, i, e) || p.once[x] && p.Uses[x] == 1 && width(e.s) <= maxInline {
				p.text[x] = e
				continue
			}
			out = append(out, p.define(x, e)...)
		}
	}
	return out
}

// all returns the list whose elements are exactly those of l, if there is one.
func all(l []loops.Ref) (loops.Ref, bool) {
	g := l[0].Item
	for i, r := range l {
		if r.Item != g || len(r.At) != 1 || !r.At[0].IsConst() || r.At[0].C != i || g.Typ.IsRef() {
			return loops.Ref{}, false
		}
	}
	return loops.Ref{Item: g}, len(g.Elems) == len(l)
}

// refs returns the texts of operands.
func (p *printer) refs(args []loops.Ref) (out []expr) {
	for _, a := range args {
		out = append(out, p.ref(a))
	}
	return out
}

// eliminate writes a substitution in unit triangles, one column after another.
func (p *printer) eliminate(n *loops.Node) []statement {
	p.need("eliminate")
	p.takes(n.Args[3].Item.Typ)
	x, blocks, rows := p.name(n.Defs[0]), p.listText(p.refs(n.Args[3:])), n.Ints[0].C
	out := []statement{{name: x, value: fmt.Sprintf("[%s] * %d", p.ref(n.Args[2]).s, rows)}}
	if !identifier.MatchString(blocks) {
		name := p.fresh("blocks")
		out = append(out, statement{name: name, value: blocks})
		blocks = name
	}
	v := p.loopName()
	args := []string{x, blocks, p.ref(n.Args[0]).s, p.ref(n.Args[1]).s, v}
	if n.Note != "" {
		args = append(args[:4], fmt.Sprintf("%d - %s", rows-1, v), n.Note+"=True")
	}
	s := statement{lines: []string{fmt.Sprintf("for %s in range(%d):", v, rows-1), "    " + call("_eliminate", args...).s}}
	return append(out, s)
}

// merge writes the merges of block inverses, two heads at a time at each level.
func (p *printer) merge(n *loops.Node) []statement {
	p.need("merge")
	heads := n.Ints[0].C
	nested := func(args []loops.Ref) string {
		var rows []expr
		for row := range slices.Chunk(args, len(args)/heads) {
			rows = append(rows, expr{p.listText(p.refs(row)), atom})
		}
		return p.listText(rows)
	}
	half := len(n.Args) / 2
	x, rows := nested(n.Args[:half]), n.Args[0].Item
	var out []statement
	if identifier.MatchString(x) && p.Uses[rows] == half { // nothing else reads the changed value
		p.names[n.Defs[0]] = x
	} else {
		out = append(out, statement{name: p.name(n.Defs[0]), value: "[list(rows) for rows in " + x + "]"})
		x = p.name(n.Defs[0])
	}
	args := []string{x, nested(n.Args[half:])}
	args = append(args, p.m.note(n.Note)...)
	if n.Ints[2].C > 0 {
		args = append(args, "up=True")
	}
	return append(out, statement{value: call("_merge", args...).s})
}

var identifier = regexp.MustCompile(`^\w+$`)

// origin names a kernel's operand after the parameter that it is a form of.
func (p *printer) origin(v *ir.Value, x *loops.Item) string {
	for v.Def != nil && v.Def.Op != ir.OpKernel && len(v.Def.Args) > 0 {
		if name := v.Def.Called(); name != "" {
			return name
		}
		v = v.Def.Args[0]
	}
	if v.Name != "" {
		return v.Name
	}
	return p.name(x)
}

// kernelCall writes the kernel of a node and its call.
func (p *printer) kernelCall(n *loops.Node) statement {
	var args, names, results []string
	given := n.Args // constants are not among them, such as a zero gradient of states
	for i, v := range n.In.Args {
		name := "zeros"
		if c, ok := loops.Constant(v); ok {
			args = append(args, filled(v.Type, c, scalarText(v.Type.DType, c)).s)
		} else {
			args, name, given = append(args, p.ref(given[0]).s), naming.Unnumbered(p.origin(v, given[0].Item)), given[1:]
		}
		if i < n.In.Attrs.Grid.Tables && v.Type.DType == ir.I32 {
			name = windows.Table(i)
		}
		if n.In.Attrs.Grid.Bounded() && i == len(n.In.Args)-1 {
			name = "points"
		}
		for slices.Contains(names, name) {
			name += "_"
		}
		names = append(names, name)
	}
	for _, r := range n.In.Results {
		results = append(results, p.m.hints[r])
	}
	call, results, err := p.m.kernel(n.In, names, results)
	if err != nil {
		if p.failed == nil {
			p.failed = err
		}
		return statement{}
	}
	var left []string
	for i, d := range n.Defs {
		if p.Uses[d] == 0 && !p.keep[d] {
			left = append(left, "_")
			continue
		}
		p.names[d] = p.fresh(results[i])
		left = append(left, p.names[d])
	}
	return statement{value: strings.Join(left, ", ") + " = " + call + "(" + strings.Join(append([]string{"sizes"}, args...), ", ") + ")"}
}

func (p *printer) write(n *loops.Node) (expr, error) {
	if n.Call != "" {
		return p.idiom(n), nil
	}
	r := rules[n.In.Op]
	if r.write == nil {
		return expr{}, fmt.Errorf("%s", r.refuse)
	}
	return r.write(p.operands(n))
}

// idiom writes a call of the node's helper.
func (p *printer) idiom(n *loops.Node) expr {
	p.need(n.Call)
	if n.Call == "union" {
		return call("_union", p.listText(p.refs(n.Args)))
	}
	var args []string
	for _, a := range p.refs(n.Args) {
		args = append(args, a.s)
	}
	ints := n.Ints
	if n.Call == "rows" { // leading dimensions first
		var lead []string
		for ; len(ints) > 3; ints = ints[1:] {
			lead = append(lead, formText(ints[0]).s)
		}
		args[0] = view(args[0], strings.Join(lead, ", "))
	}
	for _, f := range ints {
		args = append(args, formText(f).s)
	}
	args = append(args, p.m.note(n.Note)...)
	return call("_"+n.Call, args...)
}

// listed reports whether a list is read, by itself or as part of another.
func (p *printer) listed(g *loops.Item) bool { return g != nil && (p.Uses[g] > 0 || p.listed(g.In)) }

// define names a value, appends it to its loop's list, or both.
func (p *printer) define(x *loops.Item, e expr) []statement {
	g := x.In
	listed := p.listed(g)
	switch {
	case listed && p.Uses[x] == 0 && !p.keep[x]:
		return []statement{{list: p.name(g), value: e.s}}
	case listed:
		return []statement{{name: p.name(x), value: e.s}, {list: p.name(g), value: p.name(x)}}
	}
	if p.k == nil && p.names[x] == "" && x.Maker != nil && len(x.Maker.Args) == 1 && p.At[x.Maker.Args[0].Item] == x.Maker {
		switch x.Maker.In.Op { // the next form of a value that is not read again
		case ir.OpConvert, ir.OpReshape, ir.OpTranspose, ir.OpBroadcast, ir.OpSlice, ir.OpPad:
			if name := p.names[x.Maker.Args[0].Item]; name != "" {
				p.names[x] = name
			}
		}
	}
	return []statement{{name: p.name(x), value: e.s}}
}
