package pallas

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/sizes"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/lower/tpu"
)

// module is a Python module under construction.
type module struct {
	helpers map[string]bool
	taken   map[string]bool // names at the top level
	tasks   map[*ir.Instr]tpu.Place
	beside  map[string][]string  // stages beside the rest of their phase, by kernel
	hints   map[*ir.Value]string // names of what kernels give
	funcs   []string             // kernels and what calls them, in order
	single  bool                 // one kernel: its stages need no prefix
	outside map[*ir.Value]bool   // arrays of the caller
}

// constant names the numbers that would be read as noise.
func (m *module) constant(d ir.DType, c float64) (string, bool) {
	if d == ir.U32 && c == 0xffffffff {
		m.helpers["ALL"] = true
		return "_ALL", true
	}
	if d == ir.U32 && c == 0xffff0000 {
		m.helpers["HIGH"] = true
		return "_HIGH", true
	}
	return "", false
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
func (k *kernel) nameRef(x *item, base string) {
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

func (m *module) printer(k *kernel, u *usage, names map[*item]string, taken map[string]bool) *printer {
	p := &printer{usage: u, m: m, k: k, names: names, taken: map[string]bool{}, text: map[*item]expr{}, busy: map[string]bool{},
		flags: map[string]bool{}, keep: map[*item]bool{}, params: map[*item]bool{}, full: map[string]string{}}
	for _, n := range slices.Concat(slices.Collect(maps.Keys(taken)), sizes.Params, []string{"interpret"}) {
		p.taken[n] = true
	}
	return p
}

func newUsage() *usage { return &usage{map[*item]int{}, map[*item]*node{}, map[*item]bool{}} }

// baseName is the name of a reference without what marks it as one.
func baseName(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "refs."), "_ref")
}

// refDoc is the type and shape of a reference.
func refDoc(x *item) string {
	shape := listShape(x)
	return shortType(ir.T(x.typ.DType, shape...))
}

func listShape(x *item) []int {
	var shape []int
	for y := x; y.isList(); y = y.elems[0] {
		shape = append(shape, len(y.elems))
	}
	z := x
	for z.isList() {
		z = z.elems[0]
	}
	return append(shape, z.typ.Shape...)
}

// kernel writes one kernel and its call, and gives the name of the latter.
func (m *module) kernel(in *ir.Instr, args, results []string) (call string, outs []string, err error) {
	k, err := newKernel(in, m.tasks)
	if err != nil {
		return "", nil, err
	}
	g := in.Attrs.Grid
	k.name = pythonName(g.Name)
	k.names, k.taken = map[*item]string{}, map[string]bool{}
	pipelined := len(k.steps) > 1 || len(k.phases) > 1
	if k.bundle = pipelined && len(k.params) > 10; k.bundle {
		k.class = m.fresh("_" + strings.ToUpper(k.name[:1]) + k.name[1:] + "Refs")
		m.helpers["refs"] = true
		m.funcs = append(m.funcs, "") // the class comes here
	}
	class := len(m.funcs) - 1
	for i := range g.Tables + len(g.In) {
		k.nameRef(k.params[i], args[i])
	}
	for i, r := range results {
		if r != "" {
			k.nameRef(k.params[g.Tables+len(g.In)+i], r)
		}
	}
	prefix := ""
	if !m.single {
		prefix = k.name + "_"
	}
	names := map[*item]string{}
	var lines []string
	interpret := false
	for _, ph := range k.phases {
		ph.lines = k.fork(ph.nodes, m.beside[g.Name])
		for i, l := range ph.lines {
			if len(l) > 0 {
				ph.lines[i] = roll(arrange(l, k.inputs))
			}
		}
		ph.nodes = slices.Concat(ph.lines[:]...)
	}

	u := newUsage()
	own := map[*item]bool{}
	u.resolve(k.prologue, own)
	for _, s := range k.steps {
		if s.cond.item != nil {
			u.uses[s.cond.item] += 2
		}
	}
	p := m.printer(k, u, names, nil)
	k.outer = k.outside()
	for _, x := range k.outer {
		p.keep[x] = true
	}
	for _, s := range p.body(k.prologue) {
		lines = append(lines, s.text()...)
	}
	if p.failed != nil {
		return "", nil, p.failed
	}
	type done struct {
		*work
		name string
	}
	var phases []done
	for i, ph := range k.phases {
		for j, r := range ph.refs {
			_ = j
			k.names[r] = strings.TrimPrefix(k.names[k.params[r.param-1]], "refs.")
			if k.bundle {
				k.names[r] += "_ref"
			}
		}
		c, err := m.phase(k, ph, names, pipelined, prefix)
		if err != nil {
			return "", nil, err
		}
		interpret = interpret || c.interpret
		d := done{work: c}
		if pipelined {
			if !c.generator {
				c.calls = append(c.calls, "yield 0")
			}
			d.name = m.fresh("_" + prefix + phaseName(i, len(k.phases)))
		}
		phases = append(phases, d)
	}
	if k.phases == nil && len(k.steps) > 0 {
		return "", nil, fmt.Errorf("pallas: kernel %s: the chunks of a step do different work", g.Name)
	}
	// kernels without tasks are written with the prologue
	if len(k.phases) == 1 && !pipelined {
		lines = append(lines, phases[0].calls...)
	}
	if pipelined {
		l, err := m.steps(k, p, func(i int) (string, *work) { return phases[i].name, phases[i].work })
		if err != nil {
			return "", nil, err
		}
		lines = append(lines, l...)
		for _, d := range phases {
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
				hints = append(hints, names[x]+": jax.Array")
			}
			for _, v := range d.vars {
				hints = append(hints, v.name+": int")
			}
			if d.interpret {
				hints = append(hints, "interpret: bool")
			}
			f := []string{header(d.name, hints, "Work[None]"), `    """` + phaseDoc(d.name) + `"""`}
			for _, l := range d.calls {
				f = append(f, "    "+l)
			}
			m.funcs = append(m.funcs, strings.Join(f, "\n"))
		}
	}
	// The kernel's function.
	var hints []string
	var scratch, tops []*item
	for i, x := range k.params {
		y := x
		for y.in != nil {
			y = y.in
		}
		if y.param != x.param {
			continue
		}
		if i >= len(k.params)-len(g.Scratch) {
			scratch = append(scratch, y)
		}
		if k.names[y] == "" {
			k.nameRef(y, "unused")
		}
		hints, tops = append(hints, k.names[y]+": Ref"), append(tops, y)
	}
	name := m.fresh("_" + k.name + "_kernel")
	if k.bundle {
		c := []string{"class " + k.class + "(NamedTuple):", `    """Windows of the operands and results, then scratch."""`, ""}
		for i, h := range hints {
			h = strings.TrimPrefix(h, "refs.")
			c = append(c, "    "+h+"  # "+refDoc(tops[i]))
		}
		m.funcs[class] = strings.Join(c, "\n")
		hints = []string{"*args: Ref"}
		if interpret {
			hints = append(hints, "interpret: bool")
		}
	} else if interpret {
		hints = append(hints, "*", "interpret: bool")
	}
	f := []string{header(name, hints, "None"), `    """One point of the grid (` + gridDoc(g) + `)."""`}
	if k.bundle {
		f = append(f, "    refs = "+k.class+"(*args)")
	}
	for _, l := range lines {
		f = append(f, "    "+l)
	}
	m.funcs = append(m.funcs, strings.Join(f, "\n"))
	call, err = m.launch(k, name, interpret, args, scratch)
	for i := range g.Out {
		outs = append(outs, baseName(k.names[k.params[g.Tables+len(g.In)+i]]))
	}
	return call, outs, err
}

// outside lists the values, made before the steps, that phases read.
func (k *kernel) outside() []*item {
	var out []*item
	for _, ph := range k.phases {
		for _, n := range ph.nodes {
			visit(n, func(r *ref) {
				if x := r.item; x.param == 0 && x.maker != nil && slices.Contains(k.prologue, x.maker) && !slices.Contains(out, x) {
					out = append(out, x)
				}
			})
		}
	}
	return out
}

func mentions(ns []*node, x *item) bool {
	found := false
	for _, n := range ns {
		visit(n, func(r *ref) { found = found || r.item == x })
	}
	return found
}

func phaseName(i, n int) string {
	switch {
	case i == n-1 && n > 1:
		return "advance"
	case i == 0:
		return "prepare"
	}
	return []string{"", "invert", "merge", "finish"}[min(i, 3)]
}

func phaseDoc(name string) string {
	switch {
	case strings.HasSuffix(name, "prepare"):
		return "The work on a chunk that needs no state."
	case strings.HasSuffix(name, "advance"):
		return "Takes a chunk through the state."
	}
	return "The work on a chunk between the two."
}

// steps writes the bodies of a pipelined kernel's steps.
func (m *module) steps(k *kernel, p *printer, phase func(int) (string, *work)) ([]string, error) {
	m.helpers["interleave"] = true
	var lines []string
	for _, s := range k.steps {
		indent := ""
		if s.cond.item != nil {
			lines = append(lines, "", "@pl.when("+p.ref(s.cond).s+")", "def _():")
			indent = "    "
		}
		u := newUsage()
		u.resolve(s.start, map[*item]bool{})
		q := m.printer(k, u, p.names, nil)
		q.text = p.text
		for _, st := range q.body(s.start) {
			for _, t := range st.text() {
				lines = append(lines, indent+t)
			}
		}
		if q.failed != nil {
			return nil, q.failed
		}
		var calls []string
		for _, w := range s.slots {
			name, c := phase(w.phase)
			var args []string
			stands := k.phases[w.phase].refs
			for _, x := range c.params {
				if i := slices.Index(stands, x); i >= 0 {
					x = w.refs[i]
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
				args = append(args, fmt.Sprintf("%s=%d", v.name, w.args[v]))
			}
			if c.interpret {
				args = append(args, "interpret=interpret")
			}
			calls = append(calls, fmt.Sprintf("(%s, %s(%s))", strconv.FormatFloat(w.at, 'f', 2, 64), name, strings.Join(args, ", ")))
		}
		lines = append(lines, indent+"_interleave("+strings.Join(calls, ", ")+")")
	}
	return lines, nil
}
