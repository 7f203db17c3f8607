package pallas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// module is a Python module under construction.
type module struct {
	helpers map[string]bool
	taken   map[string]bool // names at the top level
	tasks   map[*ir.Instr]passes.Task
	beside  map[string][]string  // stages beside the rest of their phase, by kernel
	hints   map[*ir.Value]string // names of what kernels give
	funcs   []string             // kernels and what calls them, in order
	single  bool                 // one kernel: its stages need no prefix
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
	for n := range taken {
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

// segment is the part of a phase that belongs to one stage.
type segment struct {
	stage   string
	line    int // of lines
	nodes   []*node
	reads   []*item // made by earlier stages
	results []*item // read by later ones
}

// isCast tells another view of a reference, which stands wherever it is used.
func isCast(x *item) bool {
	return x.maker != nil && x.maker.in != nil && x.maker.in.Op == ir.OpRefCast
}

// segments cuts the lines of a phase by stage and finds what passes between them.
func segments(l lines) []*segment {
	var out []*segment
	for line, nodes := range l {
		for i, n := range nodes {
			if i == 0 || n.stage != nodes[i-1].stage {
				out = append(out, &segment{stage: n.stage, line: line})
			}
			s := out[len(out)-1]
			s.nodes = append(s.nodes, n)
		}
	}
	made := map[*item]*segment{}
	for _, s := range out {
		var read func(ns []*node)
		ref := func(r ref) {
			if m := made[r.item]; m != nil && m != s && !isCast(r.item) {
				if !slices.Contains(s.reads, r.item) {
					s.reads = append(s.reads, r.item)
				}
				if !slices.Contains(m.results, r.item) {
					m.results = append(m.results, r.item)
				}
			}
		}
		read = func(ns []*node) {
			for _, n := range ns {
				for _, r := range n.args {
					ref(r)
				}
				for _, r := range n.list {
					ref(r)
				}
				for _, r := range n.yield {
					ref(r)
				}
				if n.loop != nil {
					for _, c := range n.loop.carries {
						ref(c.init)
					}
					read(n.loop.body)
				}
				read(n.body)
			}
		}
		read(s.nodes)
		for _, n := range s.nodes {
			for _, d := range n.defs {
				made[d] = s
			}
		}
	}
	return out
}

// body writes nodes as the body of a function, or of a part of it.
func (p *printer) body(nodes []*node) []statement {
	body := p.nodes(nodes)
	return append(p.prelude, body...)
}

func header(name string, hints []string, result string) string {
	return "def " + name + "(" + strings.Join(hints, ", ") + ") -> " + result + ":"
}

// hint is the Python type of an item.
func hint(x *item) string {
	switch {
	case x.param != 0:
		return "Ref"
	case x.isList():
		if x.elems[0] != nil && x.elems[0].isList() {
			return "list[list[jax.Array]]"
		}
		return "list[jax.Array]"
	}
	return "jax.Array"
}

func returns(items []*item, generator bool) string {
	t := make([]string, len(items))
	for i, x := range items {
		t[i] = hint(x)
	}
	s := "None"
	switch {
	case len(t) == 1:
		s = t[0]
	case len(t) > 1:
		s = "tuple[" + strings.Join(t, ", ") + "]"
	}
	if generator {
		return "Work[" + s + "]"
	}
	return s
}

func sortedParams(set map[*item]bool) []*item {
	var out []*item
	for x := range set {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *item) int { return a.param - b.param })
	return out
}

func pythonName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	if s == "" {
		return "body"
	}
	return s
}

// stageDocs says what a stage of the algorithm does.
var stageDocs = map[string]string{
	"init":     "Starts the state.",
	"load":     "Loads the rows of the chunk.",
	"gates":    "Sums the log decay over the chunk.",
	"products": "Multiplies K K^T and Q K^T.",
	"decay":    "Weighs the products by the decay between their tokens.",
	"leaf":     "Inverts the diagonal blocks by substitution.",
	"solve":    "Merges the inverses of blocks to that of the chunk.",
	"operands": "Makes what meets the state: K and Q with their decay.",
	"state":    "Reads and updates the state.",
	"output":   "Scales the output.",
	"store":    "Stores what the chunk made.",
	"token":    "Steps through the tokens.",
	"explicit": "Makes U and W.",
}

func (m *module) stageDoc(s *segment, p *printer) string {
	doc := stageDocs[s.stage]
	if doc == "" {
		doc = strings.ToUpper(s.stage[:min(1, len(s.stage))]) + s.stage[min(1, len(s.stage)):] + "."
	}
	var parts []string
	for _, x := range s.results {
		parts = append(parts, p.name(x)+" "+shapeDoc(x))
	}
	if len(parts) > 0 {
		doc = strings.TrimSuffix(doc, ".") + ": " + strings.Join(parts, ", ") + "."
	}
	return doc
}

func shapeDoc(x *item) string {
	switch {
	case x.isList() && x.elems[0] == nil:
		return fmt.Sprintf("%d x %s", len(x.elems), shortType(x.typ))
	case x.isList():
		return fmt.Sprintf("%d x %s", len(x.elems), strings.TrimPrefix(shapeDoc(x.elems[0]), "of "))
	}
	return shortType(x.typ)
}

func shortType(t ir.Type) string {
	s := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		s[i] = strconv.Itoa(n)
	}
	return t.DType.String() + "[" + strings.Join(s, ", ") + "]"
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
		var walk func(ns []*node)
		walk = func(ns []*node) {
			for _, n := range ns {
				visit(n, func(r *ref) {
					if x := r.item; x.param == 0 && x.maker != nil && slices.Contains(k.prologue, x.maker) && !slices.Contains(out, x) {
						out = append(out, x)
					}
				})
			}
		}
		walk(ph.nodes)
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

func gridDoc(g *ir.Grid) string {
	var s []string
	for _, d := range g.Dims {
		s = append(s, fmt.Sprintf("%s: %d", d.Name, d.Size))
	}
	return strings.Join(s, ", ")
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

// launch writes the pallas_call.
func (m *module) launch(k *kernel, kernel string, interpret bool, args []string, scratch []*item) (string, error) {
	g := k.in.Attrs.Grid
	name := m.fresh("_" + k.name)
	var hints []string
	for _, a := range args {
		hints = append(hints, a+": jax.Array")
	}
	results := make([]ir.Type, len(g.Outs))
	copy(results, g.Outs)
	result := "tuple[" + strings.TrimSuffix(strings.Repeat("jax.Array, ", len(results)), ", ") + "]"
	if len(results) == 1 {
		result = "jax.Array"
	}
	hints = append(hints, "*", "interpret: bool")
	var b []string
	add := func(f string, a ...any) { b = append(b, fmt.Sprintf(f, a...)) }
	add("%s", header(name, hints, result))
	add(`    """Runs the kernel: %s -> %s."""`, typesDoc(k.in.Args), outsDoc(g.Outs))
	f := kernel
	if interpret {
		f = "functools.partial(" + kernel + ", interpret=interpret)"
		m.helpers["functools"] = true
	}
	var dims, sem, outs, ins, outSpecs, sc []string
	for _, d := range g.Dims {
		n := strconv.Itoa(d.Size)
		if last := len(args) - 1; d.Bound {
			n, args = args[last], args[:last]
		}
		dims = append(dims, n)
		if d.Seq {
			sem = append(sem, `"arbitrary"`)
		} else {
			sem = append(sem, `"parallel"`)
		}
	}
	for _, t := range g.Outs {
		outs = append(outs, "jax.ShapeDtypeStruct("+shapeText(t.Shape)+", "+dtypes[t.DType]+")")
	}
	for i, w := range g.In {
		if k.in.Body.Params[g.Tables+i].Type.Space == ir.HBM {
			ins = append(ins, "pl.BlockSpec(memory_space=pl.ANY)")
			continue
		}
		ins = append(ins, spec(g, w, true))
	}
	for i, w := range g.Out {
		if w.Whole(g.Outs[i]) {
			outSpecs = append(outSpecs, "pl.BlockSpec(memory_space=pltpu.HBM)")
			continue
		}
		outSpecs = append(outSpecs, spec(g, w, false))
	}
	for _, x := range scratch {
		shape := listShape(x)
		switch {
		case x.typ.DType == ir.Sem:
			sc = append(sc, "pltpu.SemaphoreType.DMA("+shapeText(shape)+")")
		case x.typ.Space == ir.SMEM:
			sc = append(sc, "pltpu.SMEM("+shapeText(shape)+", "+dtypes[x.typ.DType]+")")
		default:
			sc = append(sc, "pltpu.VMEM("+shapeText(shape)+", "+dtypes[x.typ.DType]+")")
		}
	}
	outText, outSpecText := tuple(outs), "["+strings.Join(outSpecs, ", ")+"]"
	if len(outs) == 1 {
		outText, outSpecText = outs[0], outSpecs[0]
	}
	params := "dimension_semantics=" + tuple(sem)
	if limit := vmemLimit(k.in); limit > 0 {
		params += fmt.Sprintf(", vmem_limit_bytes=%d << 20", limit>>20)
	}
	gridArgs := []string{"grid=" + tuple(dims), "in_specs=[" + strings.Join(ins, ", ") + "]", "out_specs=" + outSpecText}
	if len(sc) > 0 {
		gridArgs = append(gridArgs, "scratch_shapes=["+strings.Join(sc, ", ")+"]")
	}
	if g.Tables > 0 {
		gridArgs = []string{fmt.Sprintf("grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=%d, %s)", g.Tables, strings.Join(gridArgs, ", "))}
	}
	all := append([]string{f, "out_shape=" + outText}, gridArgs...)
	if len(g.Alias) > 0 {
		var al []string
		for _, a := range g.Alias {
			al = append(al, fmt.Sprintf("%d: %d", g.Tables+a[1], a[0]))
		}
		all = append(all, "input_output_aliases={"+strings.Join(al, ", ")+"}")
	}
	all = append(all, "compiler_params=pltpu.CompilerParams("+params+")", fmt.Sprintf("name=%q", k.name), "interpret=interpret")
	add("    return pl.pallas_call(%s)(%s)", strings.Join(all, ", "), strings.Join(args, ", "))
	m.funcs = append(m.funcs, strings.Join(b, "\n"))
	return name, nil
}

// spec is the BlockSpec of a window.
func spec(g *ir.Grid, w ir.Window, input bool) string {
	var params, at []string
	used := map[int]bool{}
	fixed := true
	for _, x := range w.Index {
		if x.Axis >= 0 {
			used[x.Axis] = true
			fixed = fixed && g.Dims[x.Axis].Size == 1
		}
	}
	for i, d := range g.Dims {
		n := d.Name
		if !used[i] {
			n = "_" + n
		}
		params = append(params, n)
	}
	tables := false
	for _, x := range w.Index {
		tables = tables || x.Table >= 0
	}
	for i := range g.Tables {
		n := tableName(i)
		if !tables {
			n = "_" + n
		}
		params = append(params, n)
	}
	for _, x := range w.Index {
		s := strconv.Itoa(x.Const)
		if x.Axis >= 0 {
			s = g.Dims[x.Axis].Name
			lo, hi := x.Shift, g.Dims[x.Axis].Size-1+x.Shift
			if x.Shift > 0 {
				s = fmt.Sprintf("%s + %d", s, x.Shift)
			} else if x.Shift < 0 {
				s = fmt.Sprintf("%s - %d", s, -x.Shift)
			}
			switch clampHi := x.Max >= 0 && hi > x.Max; {
			case lo < 0 && clampHi:
				s = fmt.Sprintf("jnp.clip(%s, 0, %d)", s, x.Max)
			case lo < 0:
				s = fmt.Sprintf("jnp.maximum(%s, 0)", s)
			case clampHi:
				s = fmt.Sprintf("jnp.minimum(%s, %d)", s, x.Max)
			}
			if x.Down {
				if x.Shift != 0 && !strings.HasPrefix(s, "jnp.") {
					s = "(" + s + ")"
				}
				s = fmt.Sprintf("%d - %s", x.Max, s)
			}
			if x.Const != 0 {
				s = fmt.Sprintf("%d + %s", x.Const, s)
			}
		}
		if x.Table >= 0 {
			s = tableName(x.Table) + "[" + s + "]"
		}
		at = append(at, s)
	}
	mode := ""
	if input && fixed {
		mode = ", pipeline_mode=pl.Buffered(1)"
	}
	return fmt.Sprintf("pl.BlockSpec(%s, lambda %s: %s%s)", shapeText(w.Block), strings.Join(params, ", "), tuple(at), mode)
}

func tableName(i int) string {
	if i == 0 {
		return "table"
	}
	return fmt.Sprintf("table_%d", i+1)
}

// vmemLimit is what the kernel asks for, 0 for the compiler's default: its windows and scratch, and room for spills.
func vmemLimit(kernel *ir.Instr) int {
	const def, room, most = 16 << 20, 16 << 20, 64 << 20
	n := mosaic.VMEMBytes(kernel)
	if n+room/2 <= def {
		return 0
	}
	return max(min(n+n/4+room, most), n) &^ (1<<20 - 1)
}

func typesDoc(vs []*ir.Value) string {
	var s []string
	for _, v := range vs {
		s = append(s, shortType(v.Type))
	}
	return strings.Join(s, ", ")
}

func outsDoc(ts []ir.Type) string {
	var s []string
	for _, t := range ts {
		s = append(s, shortType(t))
	}
	return strings.Join(s, ", ")
}
