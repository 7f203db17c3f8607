package pallas

import (
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/plan"
	"github.com/gdngen/gdngen/codegen/pallas/pytext"
)

// work lists what a phase's function needs, and the text that calls it.
type work struct {
	call      string
	reads     []*loops.Item // values of earlier functions
	results   []*loops.Item
	params    []*loops.Item // references
	outer     []*loops.Item // values made before the steps
	vars      []*loops.Variable
	interpret bool
	calls     []string // of a phase: its statements
	state     bool     // of a phase: it carries the state through a chunk
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

// phase writes the functions of a phase, one per stage, and the statements that call them.
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
	spans := m.spans(k)
	for _, s := range plan.Segments(ph.Nodes) {
		f, err := w.stage(s)
		if err != nil {
			return nil, err
		}
		out.add(f)
		out.state = out.state || s.Stage == "state" && s.Multiplies()
		call := []string{w.statement(f)}
		if name := pythonName(s.Stage); slices.ContainsFunc(spans, func(x due) bool { return x.of == name }) {
			call = []string{"with jax.named_scope(\"" + name + "\"):", "    " + call[0]}
		}
		out.calls = append(out.calls, call...)
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
	phased bool // it is interleaved with other phases
	prefix string
	shared map[string]bool // names passed between functions
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
	w.function(out, pythonName(s.Stage), w.stageDoc(s, p), lines)
	return out, nil
}

// function writes a function, and sets the text of its call.
func (w *phaseWriter) function(f *work, base, doc string, lines []string) {
	var args, hints []string
	add := func(name, hint string) { args, hints = append(args, name), append(hints, name+": "+hint) }
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
	if w.phased && w.taken["_"+w.prefix+base] { // another phase has the name
		base = w.name + "_" + base
	}
	name, result := w.fresh("_"+w.prefix+base), loops.Returns(f.results)
	if strings.Contains(result+strings.Join(hints, ""), "Tiles") {
		w.helpers["Tiles"] = true
	}
	text := []string{header(name, hints, result), `    """` + doc + `"""`}
	for _, l := range lines {
		text = append(text, "    "+l)
	}
	if len(f.results) > 0 {
		text = append(text, "    return "+strings.Join(w.resultNames(f.results), ", "))
	}
	w.funcs = append(w.funcs, pytext.OwnNames(strings.Join(text, "\n")))
	f.call = name + "(" + strings.Join(args, ", ") + ")"
}

func (w *phaseWriter) resultNames(items []*loops.Item) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = w.names[x]
	}
	return out
}

// statement returns a call of a function, assigned to its results' names.
func (w *phaseWriter) statement(f *work) string {
	s := f.call
	if len(f.results) > 0 {
		s = strings.Join(w.resultNames(f.results), ", ") + " = " + s
	}
	return s
}
