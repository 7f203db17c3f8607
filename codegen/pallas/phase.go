package pallas

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/parts"
	"github.com/gdngen/gdngen/codegen/pallas/plan"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// work is what a function of a phase needs, and the text that calls it.
type work struct {
	call      string
	reads     []*loops.Item // values of earlier functions
	results   []*loops.Item
	params    []*loops.Item // references
	outer     []*loops.Item // values from before the steps
	vars      []*loops.Variable
	interpret bool
	calls     []string // of a phase: its statements
	state     bool     // of a phase: it takes the state through a chunk
}

func (w *work) add(o *work) {
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
func (m *module) phase(k *kernel, i int, names map[*loops.Item]string, phased bool, prefix string) (*work, error) {
	ph := k.Phases[i]
	w := &phaseWriter{module: m, k: k, ph: ph, name: naming.Phase(i, len(k.Phases)), names: names, phased: phased, prefix: prefix, Usage: loops.NewUsage(), shared: map[string]bool{}}
	w.Resolve(ph.Nodes, map[*loops.Item]bool{})
	taken := map[string]bool{}
	for _, v := range ph.Vars {
		for taken[v.Name] {
			v.Name += "_"
		}
		taken[v.Name], w.shared[v.Name] = true, true
	}
	out := &work{}
	var segs [len(ph.Lines)][]*plan.Segment
	for _, s := range plan.Segments(ph.Lines) {
		segs[s.Line] = append(segs[s.Line], s)
		out.state = out.state || s.Stage == "state" && s.Multiplies()
	}
	spans := m.spans(k)
	straight := func(line int) error {
		for _, s := range segs[line] {
			f, err := w.stage(s)
			if err != nil {
				return err
			}
			out.add(f)
			call := []string{w.statement(f)}
			if name := pythonName(s.Stage); slices.ContainsFunc(spans, func(x due) bool { return x.of == name }) {
				call = []string{"with jax.named_scope(\"" + name + "\"):", "    " + call[0]}
			}
			out.calls = append(out.calls, call...)
		}
		return nil
	}
	for line := range segs {
		if err := straight(line); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// phaseWriter writes the functions of one phase.
type phaseWriter struct {
	*module
	*loops.Usage
	k      *kernel
	ph     *plan.Phase
	name   string
	names  map[*loops.Item]string
	phased bool // it stands beside others
	prefix string
	shared map[string]bool // names that pass between functions
}

// stage writes the function of a stage.
func (w *phaseWriter) stage(s *plan.Segment) (*work, error) {
	p := w.printer(w.k, w.Usage, w.names, w.shared)
	p.phased = w.phased
	for _, x := range s.Results {
		p.keep[x] = true
	}
	body := p.body(s.Nodes)
	if p.failed != nil {
		return nil, p.failed
	}
	out := &work{reads: s.Reads, results: s.Results, interpret: p.flags["interpret"], params: sortedParams(p.params)}
	for _, x := range w.k.outer {
		if mentions(s.Nodes, x) {
			out.outer = append(out.outer, x)
		}
	}
	for _, v := range w.ph.Vars {
		if uses(body, v.Name) {
			out.vars = append(out.vars, v)
		}
	}
	for _, x := range s.Results {
		w.shared[p.name(x)] = true
	}
	var lines []string
	for _, b := range body {
		lines = append(lines, b.text()...)
	}
	w.function(out, pythonName(s.Stage), w.stageDoc(s, p), lines, loops.Types(s.Nodes, p.names))
	return out, nil
}

// longest is how many lines a function has: what it has more are functions of their own, of which it keeps the order.
const longest = 78

// function writes a function, and sets the text of its call.
func (w *phaseWriter) function(f *work, base, doc string, lines []string, types map[string]string) {
	var all []parts.Value
	var args []string
	add := func(name, hint string) {
		args, all = append(args, name), append(all, parts.Value{Name: name, Hint: hint})
	}
	for _, x := range f.reads {
		add(w.names[x], loops.Hint(x))
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
		add(w.k.names[x], loops.Hint(x))
	}
	if bundled {
		add("refs", w.k.class)
	}
	for _, v := range f.vars {
		add(v.Name, "int")
	}
	if f.interpret {
		add("interpret", "bool")
	}
	stage := base
	if w.phased && w.taken["_"+w.prefix+base] { // of another phase
		base = w.name + "_" + base
	}
	name := w.fresh("_" + w.prefix + base)
	long := parts.Function{Params: all, Locals: types, Lines: lines, Returns: w.resultNames(f.results)}
	long.Cut(longest, func(p parts.Part) string { return w.part("_"+stage, doc, p) })
	w.text(name, all, loops.Returns(f.results), doc, long.Lines, long.Returns)
	f.call = name + "(" + strings.Join(args, ", ") + ")"
}

// part writes a part of a function, and gives its call.
func (w *phaseWriter) part(base, doc string, p parts.Part) string {
	var args, results []string
	for _, v := range p.Params {
		args = append(args, v.Name)
	}
	var hints []string
	for _, v := range p.Results {
		results, hints = append(results, v.Name), append(hints, v.Hint)
	}
	whole, _, _ := strings.Cut(strings.TrimSuffix(doc, "."), ": ") // without shapes
	name := w.fresh(base + "_" + parts.Subject(results))
	call := name + "(" + strings.Join(args, ", ") + ")"
	if len(results) > 0 {
		call = strings.Join(results, ", ") + " = " + call
	}
	w.text(name, p.Params, loops.Together(hints), whole+", in part.", p.Lines, results)
	return call
}

// text writes the text of a function.
func (w *phaseWriter) text(name string, params []parts.Value, result, doc string, lines, results []string) {
	var hints []string
	for _, v := range params {
		hints = append(hints, v.Name+": "+v.Hint)
	}
	if strings.Contains(result+strings.Join(hints, ""), "Tiles") {
		w.helpers["Tiles"] = true
	}
	text := []string{header(name, hints, result), `    """` + doc + `"""`}
	for _, l := range lines {
		text = append(text, "    "+l)
	}
	if len(results) > 0 {
		text = append(text, "    return "+strings.Join(results, ", "))
	}
	w.funcs = append(w.funcs, pytext.OwnNames(strings.Join(text, "\n")))
}

func (w *phaseWriter) resultNames(items []*loops.Item) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = w.names[x]
	}
	return out
}

// statement calls a function and names its results.
func (w *phaseWriter) statement(f *work) string {
	s := f.call
	if len(f.results) > 0 {
		s = strings.Join(w.resultNames(f.results), ", ") + " = " + s
	}
	return s
}
