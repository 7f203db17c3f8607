package pallas

import (
	"math"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// lines are the nodes of a phase: what comes first, two lines of work side by side, and what comes after both.
type lines [4][]*node

const (
	lineFirst = iota
	lineMain
	lineBeside
	lineAfter
)

// fork parts the nodes of a phase where its schedule has stages stand beside the rest. First comes what those stages need of the
// rest, and the loads that both read; last what needs the results of both.
func (k *kernel) fork(nodes []*node, stages []string) (out lines) {
	if !slices.ContainsFunc(nodes, func(n *node) bool { return slices.Contains(stages, n.stage) }) {
		out[lineFirst] = nodes
		return out
	}
	needs := k.needs(nodes)
	line, light := map[*node]int{}, map[*node]bool{}
	var first func(n *node)
	first = func(n *node) {
		if _, ok := line[n]; !ok {
			line[n] = lineFirst
			for _, d := range needs[n] {
				first(d)
			}
		}
	}
	beside := func(n *node) bool { return slices.Contains(stages, n.stage) }
	after := map[string]bool{}
	for _, n := range nodes {
		light[n] = lightOps[n.in.Op] && n.in.Body == nil && !slices.ContainsFunc(needs[n], func(d *node) bool { return !light[d] })
		for _, d := range needs[n] {
			switch {
			case beside(n) == beside(d):
			case beside(n) || light[d]:
				first(d)
			default:
				after[n.stage] = true
			}
		}
	}
	for _, n := range nodes {
		_, ok := line[n]
		switch {
		case ok:
			if beside(n) { // not due later than what else reads it
				n.stage, n.at, n.until = "load", nodes[0].at, nodes[0].at
			}
		case beside(n):
			line[n] = lineBeside
		case after[n.stage] || slices.ContainsFunc(needs[n], func(d *node) bool { return line[d] == lineAfter }):
			line[n] = lineAfter
		default:
			line[n] = lineMain
		}
		out[line[n]] = append(out[line[n]], n)
	}
	return out
}

// lightOps are loads and what is cheap to do with them.
var lightOps = map[ir.Op]bool{ir.OpLoad: true, ir.OpRefCast: true, ir.OpShl: true, ir.OpShr: true, ir.OpAnd: true, ir.OpBitcast: true,
	ir.OpConvert: true, ir.OpHalves: true, ir.OpSlice: true, ir.OpReshape: true, ir.OpBroadcast: true}

// needs lists the nodes that each node must come after: those that make its operands, and accesses to the same memory.
func (k *kernel) needs(nodes []*node) map[*node][]*node {
	maker := map[*item]*node{}
	root := map[*item]*item{}
	type access struct {
		node  *node
		store bool
	}
	accesses := map[*item][]access{}
	out := map[*node][]*node{}
	for _, n := range nodes {
		touched, stores := []*item{}, n.in.Op == ir.OpStore || n.in.Op == ir.OpDMAStart || n.in.Op == ir.OpDMAWait || n.in.Body != nil
		visit(n, func(r *ref) {
			if m := maker[r.item]; m != nil {
				out[n] = append(out[n], m)
			}
			x := r.item
			if y := root[x]; y != nil {
				x = y
			}
			if x.param != 0 && !k.inputs[x] {
				touched = append(touched, x)
			}
		})
		for _, d := range n.defs {
			maker[d] = n
		}
		if n.in.Op == ir.OpRefCast {
			if x := n.args[0].item; root[x] != nil {
				root[n.defs[0]] = root[x]
			} else {
				root[n.defs[0]] = x
			}
			continue
		}
		for _, x := range touched {
			for _, a := range accesses[x] {
				if stores || a.store {
					out[n] = append(out[n], a.node)
				}
			}
			accesses[x] = append(accesses[x], access{n, stores})
		}
	}
	return out
}

// work is what a function of a phase needs, and the text that calls it.
type work struct {
	call      string // without yield from
	generator bool
	reads     []*item // values of earlier functions
	results   []*item
	params    []*item // references
	outer     []*item // values from before the steps
	vars      []*variable
	interpret bool
	calls     []string // of a phase: its statements
}

func (w *work) add(o *work) {
	w.generator = w.generator || o.generator
	w.interpret = w.interpret || o.interpret
	w.params, w.outer, w.vars = union(w.params, o.params), union(w.outer, o.outer), union(w.vars, o.vars)
}

func union[T comparable](a, b []T) []T {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// phase writes the functions of a phase, one for each of its stages, and gives the statements that call them.
func (m *module) phase(k *kernel, ph *phase, names map[*item]string, yields bool, prefix string) (*work, error) {
	w := &phaseWriter{module: m, k: k, ph: ph, names: names, yields: yields, prefix: prefix, usage: newUsage(), shared: map[string]bool{}}
	w.resolve(ph.nodes, map[*item]bool{})
	taken := map[string]bool{}
	for _, v := range ph.vars {
		for taken[v.name] {
			v.name += "_"
		}
		taken[v.name], w.shared[v.name] = true, true
	}
	var segs [len(ph.lines)][]*segment
	for _, s := range segments(ph.lines) {
		segs[s.line] = append(segs[s.line], s)
	}
	out := &work{}
	straight := func(line int) error {
		for _, s := range segs[line] {
			f, err := w.stage(s, false)
			if err != nil {
				return err
			}
			out.add(f)
			out.calls = append(out.calls, w.statement(f))
		}
		return nil
	}
	for _, l := range slices.Backward(ph.lines[:]) {
		if len(l) > 0 {
			hasten(l)
			w.clock = ticks(l[0].at)
		}
	}
	if err := straight(lineFirst); err != nil {
		return nil, err
	}
	if len(segs[lineBeside]) > 0 {
		begin, end := w.clock, w.clock
		var sides, results, parts []string
		for _, line := range []int{lineMain, lineBeside} {
			if len(segs[line]) == 0 {
				continue
			}
			w.clock = begin
			f, err := w.branch(segs[line])
			if err != nil {
				return nil, err
			}
			end = max(end, w.clock)
			out.add(f)
			sides = append(sides, f.call)
			switch names := w.resultNames(f.results); len(names) {
			case 0:
				results = append(results, "_")
			case 1:
				results = append(results, names[0])
			default:
				whole := pythonName(segs[line][len(segs[line])-1].stage)
				results = append(results, whole)
				parts = append(parts, strings.Join(names, ", ")+" = "+whole)
			}
		}
		m.helpers["beside"] = true
		out.generator = true
		out.calls = append(out.calls, strings.Join(results, ", ")+" = yield from _beside("+strings.Join(sides, ", ")+")")
		out.calls = append(out.calls, parts...)
		w.clock = end
	}
	return out, straight(lineAfter)
}

// phaseWriter writes the functions of one phase.
type phaseWriter struct {
	*module
	*usage
	k      *kernel
	ph     *phase
	names  map[*item]string
	yields bool
	prefix string
	shared map[string]bool // names that pass between functions
	clock  int
}

// stage writes the function of a stage; must makes it a generator.
func (w *phaseWriter) stage(s *segment, must bool) (*work, error) {
	p := w.printer(w.k, w.usage, w.names, w.shared)
	p.yields, p.clock, p.until = w.yields, w.clock, math.MaxInt32
	for _, x := range s.results {
		p.keep[x] = true
	}
	body := p.body(s.nodes)
	if w.clock = p.clock; p.failed != nil {
		return nil, p.failed
	}
	out := &work{reads: s.reads, results: s.results, interpret: p.flags["interpret"], params: sortedParams(p.params)}
	if must && !uses(body, "yield") {
		body = append([]statement{{value: "yield 0"}}, body...)
	}
	out.generator = uses(body, "yield")
	for _, x := range w.k.outer {
		if mentions(s.nodes, x) {
			out.outer = append(out.outer, x)
		}
	}
	for _, v := range w.ph.vars {
		if uses(body, v.name) {
			out.vars = append(out.vars, v)
		}
	}
	for _, x := range s.results {
		w.shared[p.name(x)] = true
	}
	var lines []string
	for _, b := range body {
		lines = append(lines, b.text()...)
	}
	w.function(out, pythonName(s.stage), w.stageDoc(s, p), lines)
	return out, nil
}

// hasten makes nodes due no later than what comes after them.
func hasten(nodes []*node) {
	due := math.Inf(1)
	for _, n := range slices.Backward(nodes) {
		if n.loop != nil {
			hasten(n.loop.body)
		}
		n.at = min(n.at, due)
		n.until = min(n.until, max(due, n.at))
		due = n.at
	}
}

// branch writes a line of work beside another: that of one stage, or a function that calls those of its stages.
func (w *phaseWriter) branch(segs []*segment) (*work, error) {
	if len(segs) == 1 {
		return w.stage(segs[0], true)
	}
	out := &work{generator: true}
	var stages, lines []string
	own := map[*item]bool{}
	for i, s := range segs {
		f, err := w.stage(s, i == 0)
		if err != nil {
			return nil, err
		}
		out.add(f)
		for _, x := range f.reads {
			if !own[x] {
				out.reads = union(out.reads, []*item{x})
			}
		}
		for _, x := range f.results {
			own[x] = true
			if slices.ContainsFunc(w.ph.lines[lineAfter], func(n *node) bool { return mentions([]*node{n}, x) }) {
				out.results = append(out.results, x)
			}
		}
		stages, lines = append(stages, s.stage), append(lines, w.statement(f))
	}
	last := len(stages) - 1
	w.function(out, pythonName(stages[0])+"_to_"+pythonName(stages[last]), "The stages "+strings.Join(stages[:last], ", ")+" and "+stages[last]+".", lines)
	return out, nil
}

// function writes a function, and sets the text of its call.
func (w *phaseWriter) function(f *work, base, doc string, lines []string) {
	var args, hints []string
	add := func(name, hint string) { args, hints = append(args, name), append(hints, name+": "+hint) }
	for _, x := range f.reads {
		add(w.names[x], hint(x))
	}
	for _, x := range f.outer {
		add(w.names[x], "jax.Array")
	}
	bundled := false
	for _, x := range f.params {
		if strings.HasPrefix(w.k.names[x], "refs.") {
			bundled = true
			continue
		}
		add(w.k.names[x], hint(x))
	}
	if bundled {
		add("refs", w.k.class)
	}
	for _, v := range f.vars {
		add(v.name, "int")
	}
	if f.interpret {
		add("interpret", "bool")
	}
	name := w.fresh("_" + w.prefix + base)
	text := []string{header(name, hints, returns(f.results, f.generator)), `    """` + doc + `"""`}
	for _, l := range lines {
		text = append(text, "    "+l)
	}
	if len(f.results) > 0 {
		text = append(text, "    return "+strings.Join(w.resultNames(f.results), ", "))
	}
	w.funcs = append(w.funcs, strings.Join(text, "\n"))
	f.call = name + "(" + strings.Join(args, ", ") + ")"
}

func (w *phaseWriter) resultNames(items []*item) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = w.names[x]
	}
	return out
}

// statement calls a function and names its results.
func (w *phaseWriter) statement(f *work) string {
	s := f.call
	if f.generator {
		s = "yield from " + s
	}
	if len(f.results) > 0 {
		s = strings.Join(w.resultNames(f.results), ", ") + " = " + s
	}
	return s
}
