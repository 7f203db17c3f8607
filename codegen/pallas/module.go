package pallas

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/helpers"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/pallas/naming"
	"github.com/gdngen/gdngen/codegen/pallas/plan"
	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/codegen/tpu"
	"github.com/gdngen/gdngen/ir"
)

// module is a Python module under construction.
type module struct {
	helpers map[string]bool
	vmem    int             // the most VMEM that a kernel asks for, in MiB
	taken   map[string]bool // names at the top level
	tasks   map[*ir.Instr]tpu.Place
	scheds  map[string]ir.Sched  // by kernel
	hints   map[*ir.Value]string // names of values that kernels return
	funcs   []string             // kernels and their callers, in order
	scale   float64              // of q; 0: it has no name
	of      Facts
	single  bool               // only one kernel, whose stages need no prefix
	outside map[*ir.Value]bool // arrays of the caller
	rows    bool               // for any number of batch rows
}

// kernel is one kernel being written as Python.
type kernel struct {
	*plan.Plan
	name      string
	names     map[*loops.Item]string // of references
	taken     map[string]bool
	pipelined bool          // phases of several steps overlap
	bundle    bool          // functions pass references as one tuple
	class     string        // name of the tuple's class
	classAt   int           // index of the class's text in funcs
	outer     []*loops.Item // values of the prologue that phases read
	held      *plan.Held    // contents of scratch
	inLine    *plan.InLine  // back-to-back batch rows; nil: none
}

// constant returns the name of a number that has one, and whether it has.
func (m *module) constant(d ir.DType, c float64) (string, bool) {
	name := helpers.Constant(d, c, m.scale)
	if name != "" {
		m.helpers[name] = true
	}
	return "_" + name, name != ""
}

// note returns a helper's last argument as text, and records the helper that it needs.
func (m *module) note(n string) []string {
	name, args := helpers.Note(n)
	if name != "" {
		m.helpers[name] = true
	}
	return args
}

func (m *module) fresh(base string) string {
	name := base
	for i := 2; m.taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	m.taken[name] = true
	return name
}

// nameRef names a reference of the kernel.
func (k *kernel) nameRef(x *loops.Item, base string) {
	name := base
	for i := 2; k.taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	k.taken[name] = true
	if k.bundle {
		k.names[x] = "refs." + name
	} else {
		k.names[x] = name + "_ref"
	}
}

func (m *module) printer(k *kernel, u *loops.Usage, names map[*loops.Item]string, taken map[string]bool) *printer {
	p := &printer{Usage: u, m: m, k: k, names: names, taken: map[string]bool{}, text: map[*loops.Item]expr{}, carried: map[*loops.Item]*loops.Item{}, busy: map[string]bool{},
		flags: map[string]bool{}, keep: map[*loops.Item]bool{}, params: map[*loops.Item]bool{}, full: map[string]string{}}
	for _, n := range slices.Concat(slices.Collect(maps.Keys(taken)), sizes.Params, []string{"interpret"}) {
		p.taken[n] = true
	}
	return p
}

// baseName returns a reference's name without the marks of a reference.
func baseName(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "refs."), "_ref")
}

// kernel writes one kernel, and returns the name of the function that calls it.
func (m *module) kernel(in *ir.Instr, args, results []string) (call string, outs []string, err error) {
	k, err := m.newKernel(in, args, results)
	if err != nil {
		return "", nil, err
	}
	g := in.Attrs.Grid
	if k.Phases == nil && len(k.Steps) > 0 {
		return "", nil, fmt.Errorf("pallas: kernel %s: the chunks of a step do different work", g.Name)
	}
	w := &kernelWriter{module: m, k: k, names: map[*loops.Item]string{}}
	k.RollPhases(m.scheds[g.Name].Side)
	if err := w.before(); err != nil {
		return "", nil, err
	}
	if err := w.writePhases(); err != nil {
		return "", nil, err
	}
	name, scratch := w.function()
	call, err = m.launch(k, name, w.interpret, args, scratch)
	for i := range g.Out {
		outs = append(outs, baseName(k.names[k.Params[g.Tables+len(g.In)+i]]))
	}
	return call, outs, err
}

// newKernel plans a kernel and names its references after their arrays. If there are many, they go through phases as one tuple.
func (m *module) newKernel(in *ir.Instr, args, results []string) (*kernel, error) {
	work, err := plan.New(in, m.tasks)
	if err != nil {
		return nil, err
	}
	g := in.Attrs.Grid
	k := &kernel{Plan: work, name: pythonName(g.Name), names: map[*loops.Item]string{}, taken: map[string]bool{},
		pipelined: len(work.Steps) > 1 || len(work.Phases) > 1}
	if k.bundle = len(k.Params) >= 10 || k.pipelined; k.bundle {
		k.class = m.fresh("_" + strings.ToUpper(k.name[:1]) + k.name[1:] + "Refs")
		m.helpers["refs"] = true
		m.funcs = append(m.funcs, "") // the class's text is set later
		k.classAt = len(m.funcs) - 1
	}
	for i := range g.Tables + len(g.In) {
		k.nameRef(k.Params[i], args[i])
	}
	for i, r := range results {
		if r != "" {
			k.nameRef(k.Params[g.Tables+len(g.In)+i], r)
		}
	}
	if k.pipelined && m.rows {
		k.inLine = k.InLine()
	}
	k.held = work.Held(func(x *loops.Item) string { return baseName(k.names[x]) })
	scratch, names := k.Copied(func(x *loops.Item) string { return baseName(k.names[x]) })
	for _, x := range scratch {
		k.nameRef(x, names[x])
	}
	return k, nil
}

// prefix returns the first part of the names of a kernel's functions.
func (m *module) prefix(k *kernel) string {
	if m.single {
		return ""
	}
	return k.name + "_"
}

// kernelWriter writes the functions of one kernel.
type kernelWriter struct {
	*module
	k         *kernel
	names     map[*loops.Item]string
	p         *printer // prints the kernel's function
	lines     []string // of the kernel's function
	interpret bool     // it takes the parameter interpret
}

// before writes the statements before the steps.
func (w *kernelWriter) before() error {
	k, u := w.k, loops.NewUsage()
	u.Resolve(k.Prologue, map[*loops.Item]bool{})
	w.p = w.printer(k, u, w.names, nil)
	w.p.once = map[*loops.Item]bool{}
	for _, s := range k.Steps {
		if s.Cond.Item != nil && k.pipelined { // for a single step, the grid's length says it
			u.Uses[s.Cond.Item]++
			w.p.once[s.Cond.Item] = s.Cond.Item.Maker.In.Op == ir.OpCompare // other conditions are made before the steps
		}
	}
	k.outer = k.Outside()
	for _, x := range k.outer {
		w.p.keep[x] = true
	}
	for _, s := range w.p.body(k.Prologue) {
		w.lines = append(w.lines, s.text()...)
	}
	return w.p.failed
}

// phaseText is a written phase, and the name of its function.
type phaseText struct {
	*work
	name string
}

// writePhases writes the phases, as functions if they overlap, and the steps that run them.
func (w *kernelWriter) writePhases() error {
	k, prefix := w.k, w.prefix(w.k)
	var phases []phaseText
	for i, ph := range k.Phases {
		for _, r := range ph.Refs {
			k.names[r] = strings.TrimPrefix(k.names[k.Params[r.Param-1]], "refs.")
			if k.bundle {
				k.names[r] += "_ref"
			}
		}
		c, err := w.phase(k, i, w.names, k.pipelined, prefix)
		if err != nil {
			return err
		}
		w.interpret = w.interpret || c.interpret
		d := phaseText{work: c}
		if k.pipelined {
			d.name = w.fresh("_" + prefix + naming.Phase(i, len(k.Phases)))
		}
		phases = append(phases, d)
	}
	if !k.pipelined {
		for _, d := range phases { // kernels without tasks are written with the prologue
			w.lines = append(w.lines, d.calls...)
		}
		return nil
	}
	l, err := w.steps(k, w.p, func(i int) (string, *work) { return phases[i].name, phases[i].work })
	if err != nil {
		return err
	}
	w.lines = append(w.lines, l...)
	for _, d := range phases {
		w.funcs = append(w.funcs, w.phaseFunction(d))
	}
	return nil
}

// phaseFunction returns the text of a phase's function.
func (w *kernelWriter) phaseFunction(d phaseText) string {
	k := w.k
	var hints []string
	for _, x := range d.params {
		if !strings.HasPrefix(k.names[x], "refs.") {
			hints = append(hints, k.names[x]+": Ref")
		}
	}
	if k.bundle {
		hints = append(hints, "refs: "+k.class)
	}
	for _, x := range d.outer {
		hints = append(hints, w.names[x]+": jax.Array")
	}
	for _, v := range d.vars {
		hints = append(hints, v.Name+": int")
	}
	if d.interpret {
		hints = append(hints, "interpret: bool")
	}
	f := []string{header(d.name, hints, "None"), `    """` + naming.PhaseDoc(d.name, d.state) + `"""`}
	for _, l := range d.calls {
		f = append(f, "    "+l)
	}
	return strings.Join(f, "\n")
}

// function writes the kernel's own function and the class of its references. It returns the function's name and its scratch.
func (w *kernelWriter) function() (name string, scratch []*loops.Item) {
	k := w.k
	g := k.In.Attrs.Grid
	var hints []string
	var tops []*loops.Item
	for i, x := range k.Params {
		y := x
		for y.In != nil {
			y = y.In
		}
		if y.Param != x.Param {
			continue
		}
		if i >= len(k.Params)-len(g.Scratch) {
			scratch = append(scratch, y)
		}
		if k.names[y] == "" {
			k.nameRef(y, "unused")
		}
		hints, tops = append(hints, k.names[y]+": Ref"), append(tops, y)
	}
	name = w.fresh("_" + k.name + "_kernel")
	if k.bundle {
		w.funcs[k.classAt] = classText(k.class, hints, tops, len(scratch))
		hints = []string{"*args: Ref"}
		if w.interpret {
			hints = append(hints, "interpret: bool")
		}
	} else if w.interpret {
		hints = append(hints, "*", "interpret: bool")
	}
	if k.inLine != nil {
		hints = append(hints, "row_steps: int") // 0: one program per row
	}
	f := []string{header(name, hints, "None"), `    """One point of the grid (` + gridDoc(g) + `)."""`}
	if k.bundle {
		f = append(f, "    refs = "+k.class+"(*args)")
	}
	for _, l := range w.lines {
		f = append(f, "    "+l)
	}
	w.funcs = append(w.funcs, strings.Join(f, "\n"))
	return name, scratch
}

// classText returns the class of the references that functions pass as one tuple. The last fields are scratch; their defaults are the
// scratch types.
func classText(class string, hints []string, refs []*loops.Item, scratch int) string {
	types := scratchShapes(refs[len(refs)-scratch:])
	c := []string{"class " + class + "(NamedTuple):", `    """Windows of the operands and results, then scratch and its types."""`, ""}
	for i, h := range hints {
		h = "    " + strings.TrimPrefix(h, "refs.")
		if j := i - len(refs) + scratch; j >= 0 {
			c = append(c, h+" = "+types[j])
			continue
		}
		c = append(c, h+"  # "+loops.RefDoc(refs[i]))
	}
	return strings.Join(c, "\n")
}

func mentions(ns []*loops.Node, x *loops.Item) bool {
	found := false
	for _, n := range ns {
		loops.EachRef(n, func(r *loops.Ref) { found = found || r.Item == x })
	}
	return found
}

// steps writes the bodies of a pipelined kernel's steps.
func (m *module) steps(k *kernel, p *printer, phase func(int) (string, *work)) ([]string, error) {
	m.helpers["interleave"] = true
	spans := "_" + strings.ToUpper(m.prefix(k)) + "SPANS"
	m.funcs = append(m.funcs, m.spansText(k, spans))
	var lines []string
	for _, s := range k.Steps {
		indent := ""
		if s.Cond.Item != nil {
			lines = append(lines, "", "@pl.when("+p.ref(s.Cond).s+")", "def _():")
			indent = "    "
		}
		u := loops.NewUsage()
		u.Resolve(s.Start, map[*loops.Item]bool{})
		q := m.printer(k, u, p.names, nil)
		q.text = p.text
		for _, st := range q.body(s.Start) {
			for _, t := range st.text() {
				lines = append(lines, indent+t)
			}
		}
		if q.failed != nil {
			return nil, q.failed
		}
		var calls []string
		for _, w := range s.Slots {
			name, c := phase(w.Phase)
			var args []string
			stands := k.Phases[w.Phase].Refs
			for _, x := range c.params {
				if i := slices.Index(stands, x); i >= 0 {
					x = w.Refs[i]
				} else if k.bundle {
					continue
				}
				args = append(args, k.names[x])
			}
			if k.bundle {
				args = append(args, "refs")
			}
			for _, x := range c.outer {
				args = append(args, p.names[x])
			}
			for _, v := range c.vars {
				args = append(args, fmt.Sprintf("%s=%d", v.Name, w.Args[v]))
			}
			if c.interpret {
				args = append(args, "interpret=interpret")
			}
			calls = append(calls, fmt.Sprintf("(%d, %q, lambda refs: %s(%s))", w.Time, naming.Phase(w.Phase, len(k.Phases)), name, strings.Join(args, ", ")))
		}
		calls = slices.Insert(calls, 0, "refs", spans)
		lines = append(lines, indent+"_interleave("+strings.Join(calls, ", ")+")")
	}
	return lines, nil
}
