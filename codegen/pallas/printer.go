package pallas

import (
	"fmt"
	"math"
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
	vars    map[*variable]bool
}

// filled names an array of one number; it is made where the function begins.
func (p *printer) filled(t ir.Type, c float64, text string) string {
	e := filled(t, c, text).s
	if p.k == nil || strings.Contains(text, " ") {
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

// fresh makes a name that is not taken.
func (p *printer) fresh(base string) string {
	base = strings.Trim(base, "_")
	if base == "" {
		base = "x"
	}
	name := base
	for i := 2; p.taken[name] || pythonWords[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	p.taken[name] = true
	return name
}

var pythonWords = map[string]bool{"jax": true, "jnp": true, "lax": true, "np": true, "pl": true, "pltpu": true, "in": true, "is": true, "if": true,
	"for": true, "not": true, "and": true, "or": true, "lambda": true, "range": true, "list": true, "sum": true, "from": true, "interpret": true}

func (p *printer) name(x *item) string {
	if x.param != 0 {
		if p.k.names[x] == "" {
			p.k.nameRef(x, "scratch")
		}
		p.params[x] = true
		return p.k.names[x]
	}
	if p.names[x] == "" {
		p.names[x] = p.fresh(p.base(x))
	}
	return p.names[x]
}

// base is what an item is called, apart from a number: after what it is a form of, or after what made it.
func (p *printer) base(x *item) string {
	n := x.maker
	if n == nil {
		if x.typ.IsRef() {
			return "ref"
		}
		return "x"
	}
	if n.loop != nil {
		for _, c := range n.loop.carries {
			if c.last == x {
				return p.base(c.next)
			}
		}
		i := slices.Index(n.defs, x)
		return plural(p.base(flatDefs(n.loop.body)[i]))
	}
	if n.list != nil {
		return plural(strings.TrimSuffix(p.base(n.list[0].item), "s"))
	}
	of := func() string {
		if len(n.args) == 0 {
			return "x"
		}
		a := n.args[0].item
		name := p.names[a]
		if a.param != 0 {
			name = p.name(a)
		}
		if name != "" {
			name = strings.TrimRight(baseName(name), "_0123456789")
			if len(n.args[0].at) > 0 {
				name = strings.TrimSuffix(name, "s")
			}
			return name
		}
		return baseName(p.base(a))
	}
	switch n.in.Op {
	case ir.OpLoad, ir.OpRefCast, ir.OpConvert, ir.OpBitcast, ir.OpWords, ir.OpHalves, ir.OpBroadcast, ir.OpReshape, ir.OpSlice:
		return of()
	case ir.OpTranspose:
		return strings.TrimSuffix(of(), "_t") + "_t"
	case ir.OpIota:
		return [...]string{"row", "column", "index"}[min(n.in.Attrs.Axis, 2)]
	case ir.OpLog, ir.OpLog2, ir.OpLog1p:
		return "log_" + of()
	case ir.OpSelect:
		if _, ok := constant(n.in.Args[1]); ok {
			return of()
		}
	}
	if name := stageNames[n.stage][n.in.Op]; name != "" {
		return name
	}
	return rules[n.in.Op].name
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

func plural(s string) string {
	if strings.HasSuffix(s, "s") || strings.HasSuffix(s, "x") {
		return s
	}
	return s + "s"
}

// ref is the text of a reference to an item.
func (p *printer) ref(r ref) expr {
	e, ok := p.text[r.item]
	if !ok && isCast(r.item) {
		e, _ = p.write(r.item.maker)
		ok = true
	}
	if !ok {
		e = expr{p.name(r.item), atom}
	}
	if len(r.at) == 0 {
		return e
	}
	if r.item.typ.IsRef() { // one reference with more dimensions
		at := make([]string, len(r.at))
		for i, f := range r.at {
			at[i] = formText(f).s
		}
		return expr{e.s + "[" + strings.Join(at, ", ") + "]", atom}
	}
	for _, f := range r.at {
		e = expr{e.in(atom) + "[" + formText(f).s + "]", atom}
	}
	return e
}

// operands gives the texts of a node's operands.
func (p *printer) operands(n *node) *operands {
	o := &operands{in: n.in, ints: n.ints, p: p}
	arg, small_ := 0, len(n.ints)
	for _, a := range n.in.Args {
		if c, ok := constant(a); ok && small(c) {
			small_--
		} else if !ok {
			arg++
		}
	}
	arg = 0
	for _, a := range n.in.Args {
		c, ok := constant(a)
		switch {
		case ok && small(c):
			f := n.ints[small_]
			small_++
			if f.isConst() {
				o.texts = append(o.texts, expr{scalarText(a.Type.DType, c), atom})
				if c < 0 {
					o.texts[len(o.texts)-1].prec = precUnary
				}
			} else if a.Type.DType == ir.U32 {
				o.texts = append(o.texts, call("np.uint32", formText(f).s))
			} else {
				o.texts = append(o.texts, formText(f))
			}
		case ok:
			e := expr{scalarText(a.Type.DType, c), atom}
			if strings.HasPrefix(e.s, "-") {
				e.prec = precUnary
			}
			if name, ok := p.m.constant(a.Type.DType, c); ok {
				e = expr{name, atom}
			}
			o.texts = append(o.texts, e)
		default:
			o.texts = append(o.texts, p.ref(n.args[arg]))
			arg++
		}
	}
	return o
}

// listText is a list of expressions: elements of a list in their order are a slice of it, equal ones are repeated.
func (p *printer) listText(l []expr) string {
	var parts, plain []string // what is added; elements of the list that comes next
	flush := func() {
		if len(plain) > 0 {
			parts = append(parts, "["+strings.Join(plain, ", ")+"]")
			plain = nil
		}
	}
	for i := 0; i < len(l); {
		same := 1
		for i+same < len(l) && l[i+same] == l[i] {
			same++
		}
		run := 1
		name, lo, _ := consecutive(l[i : i+1])
		for i+run < len(l) {
			if _, _, ok := consecutive(l[i : i+run+1]); !ok {
				break
			}
			run++
		}
		switch {
		case same > 2:
			flush()
			parts = append(parts, fmt.Sprintf("[%s] * %d", l[i].s, same))
			i += same
		case run > 2 || run == 2 && len(l) == 2:
			hi := lo + run
			part := strings.Replace(fmt.Sprintf("%s[%d:%d]", name, lo, hi), "[0:", "[:", 1)
			if n := p.lengths(name); lo == 0 && n == hi {
				part = name
			} else if n == hi {
				part = fmt.Sprintf("%s[%d:]", name, lo)
			}
			if run == len(l) {
				return part
			}
			plain = append(plain, "*"+part)
			i += run
		default:
			plain = append(plain, l[i].s)
			i++
		}
	}
	flush()
	return strings.Join(parts, " + ")
}

// lengths is the length of the list of a name; 0 if there is none.
func (p *printer) lengths(name string) int {
	for x, n := range p.names {
		if n == name {
			return len(x.elems)
		}
	}
	return 0
}

func consecutive(l []expr) (name string, lo int, ok bool) {
	for i, e := range l {
		at := strings.LastIndexByte(e.s, '[')
		var k int
		if at < 0 || e.prec != atom {
			return "", 0, false
		}
		if n, err := fmt.Sscanf(e.s[at:], "[%d]", &k); n != 1 || err != nil || fmt.Sprintf("[%d]", k) != e.s[at:] {
			return "", 0, false
		}
		if i == 0 {
			name, lo = e.s[:at], k
		}
		if e.s[:at] != name || k != lo+i {
			return "", 0, false
		}
	}
	return name, lo, true
}

// maxInline is the length up to which a value is written where it is used.
const maxInline = 64

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
	if spreads(n.in) && e.prec == atom && len(e.s) < 24 && p.elementwise(nodes, x) {
		return true
	}
	if p.uses[x] != 1 || len(e.s) > maxInline {
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
			if e, ok := p.spread(ns, i); ok && len(e.s) < 32 {
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

// loop writes a loop: a comprehension where all it does is make one list.
func (p *printer) loop(n *node) []statement {
	l := n.loop
	var out []statement
	inner := flatDefs(l.body)
	lists_, finals := n.defs[:len(inner)], n.defs[len(inner):]
	for _, g := range lists_ { // names of lists come before those of elements
		if p.listed(g) && p.names[g] == "" {
			p.name(g)
		}
	}
	for _, c := range l.carries {
		// What begins the carry may go by its name.
		if len(c.init.at) == 0 && p.uses[c.init.item] == 1 && !c.init.item.isList() && p.names[c.init.item] != "" && !p.keep[c.init.item] && c.init.item.param == 0 {
			p.names[c.item] = p.names[c.init.item]
		} else {
			p.names[c.item] = p.fresh(strings.TrimRight(p.base(c.next), "_0123456789"))
			out = append(out, statement{name: p.names[c.item], value: p.ref(c.init).s})
		}
		if p.replaces(l.body, c) {
			p.names[c.next] = p.names[c.item]
		}
	}
	l.v.name = p.variable(n)
	p.loops++
	p.busy[l.v.name] = true
	body, pause := p.round(n)
	for _, c := range l.carries {
		if p.names[c.next] != p.names[c.item] {
			body = append(body, statement{name: p.names[c.item], value: p.ref(ref{item: c.next}).s})
		}
	}
	delete(p.busy, l.v.name)
	p.loops--
	count := formText(l.count).s
	v := l.v.name
	if !uses(body, v) {
		v = "_"
	}
	var lists []*item
	for _, g := range lists_ {
		if p.listed(g) {
			lists = append(lists, g)
		}
	}
	if len(lists) == 1 && len(body) == 1 && body[0].list != "" && len(l.carries) == 0 && len(pause) == 0 {
		s := statement{value: "[" + body[0].value + " for " + v + " in range(" + count + ")]"}
		s.name = p.name(lists[0])
		if g := lists[0]; p.listed(g.in) && !p.keep[g] {
			if p.uses[g] == 0 {
				s.list, s.name = p.name(g.in), ""
				return append(out, s)
			}
			return append(out, s, statement{list: p.name(g.in), value: s.name})
		}
		return append(out, s)
	}
	for _, g := range lists {
		out = append(out, statement{name: p.name(g), value: "[]"})
	}
	s := statement{lines: []string{"for " + v + " in range(" + count + "):"}}
	for _, b := range body {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	for _, w := range pause {
		s.lines = append(s.lines, "    "+w.value)
	}
	out = append(out, s)
	for _, g := range n.defs {
		if slices.Contains(finals, g) && p.names[g] == "" {
			for _, c := range l.carries {
				if c.last == g {
					p.names[g] = p.names[c.item]
				}
			}
		}
		if p.listed(g.in) && (p.listed(g) || slices.Contains(finals, g)) {
			out = append(out, statement{list: p.name(g.in), value: p.name(g)})
		}
	}
	return out
}

// A phase that shares its time with others gives way when its next piece is due later than what it wrote last. Time is in parts of
// a chunk's.
const (
	wholeChunk = 10000
	leastPiece = 25
)

func ticks(at float64) int { return int(math.Round(at * wholeChunk)) }

// pause gives way until at, where that is worth it.
func (p *printer) pause(at float64) []statement {
	wait := min(ticks(at), p.until) - p.clock
	if !p.yields || p.quiet || wait < leastPiece {
		return nil
	}
	p.clock += wait
	return []statement{{value: fmt.Sprintf("yield %d", wait)}}
}

// round writes the body of a loop's rounds, and how it gives way at the end of each.
func (p *printer) round(n *node) (body, pause []statement) {
	l, begin, until, quiet := n.loop, p.clock, p.until, p.quiet
	count := l.count.c
	defer func() { p.until, p.quiet = until, quiet }()
	if !p.yields || quiet || !l.count.isConst() {
		p.quiet = true
		return p.nodes(l.body), nil
	}
	lasts := min(ticks(n.until), until) - begin
	// Where an inner loop grows shorter, a round lasts as long as its rounds.
	for _, b := range l.body {
		if b.loop == nil || b.loop.count.isConst() {
			continue
		}
		sum := 0
		for i := range count {
			sum += b.loop.count.c + b.loop.count.t[0].k*i
		}
		if each := lasts / sum; each > 0 {
			p.clock += each * sum
			pause = []statement{{value: fmt.Sprintf("yield %d * %s", each, formText(b.loop.count).in(precMul+1))}}
		}
		p.quiet = true
		return p.nodes(l.body), pause
	}
	// The body is written at the times of the first round.
	p.clock, p.until = ticks(n.at), ticks(n.at)+lasts/count
	if lasts/count < leastPiece {
		p.quiet = true
	}
	body = p.nodes(l.body)
	pause = p.pause(n.until)
	p.clock = begin + count*(p.clock-ticks(n.at))
	return body, pause
}

// uses says whether a name stands in the text.
func uses(body []statement, name string) bool {
	for _, b := range body {
		for _, t := range b.text() {
			for _, w := range strings.FieldsFunc(t, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			}) {
				if w == name {
					return true
				}
			}
		}
	}
	return false
}

// replaces says whether what a round makes may take the name of what it was given: nothing reads the latter afterwards.
func (p *printer) replaces(body []*node, c *carry) bool {
	if c.next.isList() && len(c.next.elems) == 0 {
		return false
	}
	seen := false
	for _, n := range body {
		if seen && reads(n, c.item) {
			return false
		}
		if slices.Contains(n.defs, c.next) {
			seen = true
			if n.loop != nil { // built while the old one is read
				return false
			}
		}
	}
	return true
}

func reads(n *node, x *item) bool {
	is := func(r ref) bool { return r.item == x }
	if slices.ContainsFunc(n.args, is) || slices.ContainsFunc(n.list, is) || slices.ContainsFunc(n.yield, is) {
		return true
	}
	sub := n.body
	if n.loop != nil {
		sub = append(slices.Clone(n.loop.body), sub...)
		for _, c := range n.loop.carries {
			if is(c.init) || c.next == x {
				return true
			}
		}
	}
	return slices.ContainsFunc(sub, func(m *node) bool { return reads(m, x) })
}

// variable names a loop's variable: h where it counts heads.
func (p *printer) variable(n *node) string {
	names := []string{"i", "j", "m", "n", "r"}
	if headed(n.loop.body, n.loop.v) {
		names = append([]string{"h"}, names...)
	}
	for _, s := range names {
		if !p.busy[s] && !p.taken[s] {
			return s
		}
	}
	return p.fresh("i")
}

func headed(ns []*node, v *variable) bool {
	for _, n := range ns {
		if n.loop != nil && headed(n.loop.body, v) {
			return true
		}
		for _, t := range n.head.t {
			if t.v == v && t.k == 1 && n.head.c == 0 {
				return true
			}
		}
	}
	return false
}

// effect writes a store or a copy.
func (p *printer) effect(n *node) statement {
	if n.in.Op == ir.OpStore {
		p.nameStored(n)
	}
	o := p.operands(n)
	switch n.in.Op {
	case ir.OpStore:
		refType, val := n.in.Args[1].Type, n.in.Args[0].Type
		// operands of access are those of a load: the reference, then the starts
		at, err := o.access(refType, val.Shape, o.texts[2:])
		if err != nil {
			p.fail(n, err)
		}
		value := o.full(0).s
		target := p.ref(n.args[len(n.args)-1-len(o.texts[2:])]).s
		if base, ok := strings.CutSuffix(target, ".bitcast(jnp.uint32)"); ok && refType.DType == ir.U32 {
			return p.storeWords(n, base, val.Shape[0], value)
		}
		return statement{value: element(target, at, refType.Rank()-val.Rank()) + " = " + value}
	case ir.OpDMAStart, ir.OpDMAWait:
		method := map[ir.Op]string{ir.OpDMAStart: "start", ir.OpDMAWait: "wait"}[n.in.Op]
		return statement{value: fmt.Sprintf("pltpu.make_async_copy(%s, %s, %s).%s()", o.texts[0].s, o.texts[1].s, o.texts[2].s, method)}
	}
	p.fail(n, fmt.Errorf("no statement"))
	return statement{}
}

// nameStored names a reference after what is first stored to it.
func (p *printer) nameStored(n *node) {
	x := n.args[len(n.args)-1-(len(n.in.Args)-2)].item
	if x.param == 0 || p.k.names[x] != "" {
		return
	}
	base := "zeros"
	if _, ok := constant(n.in.Args[0]); !ok {
		base = p.base(n.args[0].item)
		if name := p.names[n.args[0].item]; name != "" {
			base = name
		}
	}
	base = strings.TrimRight(base, "_0123456789")
	if !strings.HasPrefix(base, n.stage) {
		base = n.stage + "_" + base
	}
	p.k.nameRef(x, base)
}

// storeWords writes u32 words to pairs of bf16 rows. Interpret mode has no stores through a bitcast.
func (p *printer) storeWords(n *node, base string, rows int, value string) statement {
	p.need("store_words")
	p.flags["interpret"] = true
	k := len(n.ints)
	lead := make([]string, 0, k)
	for _, f := range n.ints[:k-2] {
		lead = append(lead, formText(f).s)
	}
	target := base
	if len(lead) > 0 {
		target += ".at[" + strings.Join(lead, ", ") + "]"
	}
	step := n.in.Attrs.Step(k - 2)
	return statement{value: fmt.Sprintf("_store_words(%s, %s, %d, %s, interpret)", target, formText(n.ints[k-2]).s, step, value)}
}

// when writes a condition's body as a function under pl.when.
func (p *printer) when(n *node) statement {
	defer func(quiet bool) { p.quiet = quiet }(p.quiet)
	p.quiet = true
	s := statement{lines: []string{"@pl.when(" + p.ref(n.args[0]).s + ")", "def _():"}}
	for _, b := range p.nodes(n.body) {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	return s
}

// foriLoop writes a loop of the kernel itself.
func (p *printer) foriLoop(n *node) []statement {
	defer func(quiet bool) { p.quiet = quiet }(p.quiet)
	p.quiet = true
	name := p.fresh("round")
	var carried []string
	for _, x := range n.params[1:] {
		carried = append(carried, p.name(x))
	}
	i := p.name(n.params[0])
	state := tuple(carried)
	s := statement{lines: []string{fmt.Sprintf("def %s(%s, carried):", name, i)}}
	if len(carried) > 0 {
		s.lines = append(s.lines, "    "+state+" = carried")
	}
	for _, b := range p.nodes(n.body) {
		for _, t := range b.text() {
			s.lines = append(s.lines, "    "+t)
		}
	}
	var results, init, outs []string
	for _, y := range n.yield {
		results = append(results, p.ref(y).s)
	}
	o := p.operands(n)
	for i := range n.in.Args {
		init = append(init, o.full(i).s)
	}
	for _, d := range n.defs {
		if p.uses[d] == 0 && !p.keep[d] {
			outs = append(outs, "_")
			continue
		}
		outs = append(outs, p.name(d))
	}
	s.lines = append(s.lines, "    return "+tuple(results))
	left := ""
	if len(outs) > 0 {
		left = tuple(outs) + " = "
	}
	run := statement{value: fmt.Sprintf("%slax.fori_loop(0, %d, %s, %s)", left, n.in.Attrs.Count, name, tuple(init))}
	return []statement{s, run}
}

// tuple is a Python tuple.
func tuple(s []string) string {
	if len(s) == 1 {
		return "(" + s[0] + ",)"
	}
	return "(" + strings.Join(s, ", ") + ")"
}
