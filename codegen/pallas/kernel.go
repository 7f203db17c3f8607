package pallas

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/lower/tpu"
)

// kernel is one kernel on its way to Python.
type kernel struct {
	in     *ir.Instr
	tasks  map[*ir.Instr]tpu.Place
	params []*item
	of     map[*ir.Value]*item // parameters, and values outside of tasks

	name     string
	names    map[*item]string // of parameters
	taken    map[string]bool
	bundle   bool           // references go from function to function as one tuple
	class    string         // its class
	inputs   map[*item]bool // references that are only read
	prologue []*node        // before the steps
	outer    []*item        // of the prologue, read by phases
	steps    []*step
	phases   []*phase // nil where the steps' bodies are written out
}

// step is a body that some steps of the kernel run.
type step struct {
	cond  ref // no item: every step
	start []*node
	slots []*slotWork
	all   []*ir.Instr
}

// slotWork is what one phase does in one time slot of a step.
type slotWork struct {
	phase, time, chunk int
	instrs             []*ir.Instr
	at                 float64           // when its first instruction is due, in time slots
	args               map[*variable]int // values of the phase's variables
	refs               []*item           // parameters, in the order of the phase's
}

// phase is what all of its slots have in common.
type phase struct {
	nodes []*node
	lines lines // the nodes, parted
	vars  []*variable
	refs  []*item // stand-ins for the parameters that the slots pass
}

func newKernel(in *ir.Instr, tasks map[*ir.Instr]tpu.Place) (*kernel, error) {
	k := &kernel{in: in, tasks: tasks, of: map[*ir.Value]*item{}}
	scratch := len(in.Body.Params) - len(in.Attrs.Grid.Scratch)
	for i, p := range in.Body.Params {
		x := &item{typ: p.Type, param: i + 1, scratch: i >= scratch}
		k.of[p] = x
		k.params = append(k.params, x)
	}
	single := &step{}
	var prologue []*ir.Instr
	var conds []*ir.Value
	for _, x := range in.Body.Instrs {
		if _, ok := tasks[x]; ok {
			single.all = append(single.all, x)
			continue
		}
		if x.Op == ir.OpWhen && len(tasks) > 0 && slices.ContainsFunc(x.Body.Instrs, func(y *ir.Instr) bool { _, ok := tasks[y]; return ok }) {
			s := &step{all: x.Body.Instrs}
			k.steps, conds = append(k.steps, s), append(conds, x.Args[0])
			continue
		}
		prologue = append(prologue, x)
	}
	k.prologue = k.nodes(prologue, k.of)
	for i, c := range conds {
		k.steps[i].cond = ref{item: k.of[c]}
	}
	if len(single.all) > 0 {
		if len(k.steps) > 0 {
			return nil, fmt.Errorf("work of steps stands outside of their bodies")
		}
		k.steps = []*step{single}
	}
	for _, s := range k.steps {
		k.split(s)
	}
	k.inputs = map[*item]bool{}
	for _, x := range k.params[:in.Attrs.Grid.Tables+len(in.Attrs.Grid.In)] {
		k.inputs[x] = true
	}
	k.unify()
	return k, nil
}

// split sorts the instructions of a step by slot.
func (k *kernel) split(s *step) {
	at := map[[2]int]*slotWork{}
	var start []*ir.Instr
	defer func() { s.start = roll(k.nodes(start, maps.Clone(k.of))) }()
	for _, in := range s.all {
		t, ok := k.tasks[in]
		if !ok {
			start = append(start, in)
			continue
		}
		key := [2]int{t.Time, t.Phase}
		w := at[key]
		if w == nil {
			w = &slotWork{phase: t.Phase, time: t.Time, chunk: t.Chunk, at: float64(t.Time) + t.At, args: map[*variable]int{}}
			at[key] = w
			s.slots = append(s.slots, w)
		}
		w.instrs = append(w.instrs, in)
	}
	for _, w := range s.slots {
		w.instrs = k.byStage(w.instrs)
	}
}

// byStage brings what a phase does for a stage together, where the schedule has stages stand side by side. Pure values come with
// what first reads them. Instructions stay as they are where accesses to the same memory would change their order.
func (k *kernel) byStage(instrs []*ir.Instr) []*ir.Instr {
	rank, place := map[string]int{}, map[*ir.Instr]int{}
	def := map[*ir.Value]*ir.Instr{}
	for i, in := range instrs {
		if s := k.tasks[in].Task.Stage; rank[s] == 0 {
			rank[s] = len(rank) + 1
		}
		place[in] = i
		for _, r := range in.Results {
			def[r] = in
		}
	}
	sorted := slices.Clone(instrs)
	slices.SortStableFunc(sorted, func(a, b *ir.Instr) int { return rank[k.tasks[a].Task.Stage] - rank[k.tasks[b].Task.Stage] })
	var out []*ir.Instr
	stage := map[*ir.Instr]string{}
	done := map[*ir.Instr]bool{}
	var put func(in *ir.Instr, s string) bool
	put = func(in *ir.Instr, s string) bool {
		if done[in] {
			return true
		}
		for _, a := range in.Args {
			if d := def[a]; d != nil && !put(d, s) {
				return false
			}
		}
		if in.Body != nil {
			return false
		}
		done[in], stage[in] = true, s
		out = append(out, in)
		return true
	}
	for _, in := range sorted {
		if !put(in, k.tasks[in].Task.Stage) {
			return instrs
		}
	}
	// The order of stores, and of loads around them, must be as it was.
	root := func(v *ir.Value) *ir.Value {
		for v.Def != nil && v.Def.Op == ir.OpRefCast {
			v = v.Def.Args[0]
		}
		return v
	}
	lastStore, lastAny := map[*ir.Value]int{}, map[*ir.Value]int{}
	for _, in := range out {
		switch in.Op {
		case ir.OpLoad:
			r := root(in.Args[0])
			if place[in] < lastStore[r] {
				return instrs
			}
			lastAny[r] = max(lastAny[r], place[in])
		case ir.OpStore:
			r := root(in.Args[1])
			if place[in] < lastAny[r] {
				return instrs
			}
			lastAny[r], lastStore[r] = place[in], place[in]
		case ir.OpDMAStart, ir.OpDMAWait:
			return instrs
		}
	}
	for in, s := range stage {
		t := k.tasks[in]
		t.Task.Stage = s
		k.tasks[in] = t
	}
	return out
}

// unify finds what the slots of each phase have in common. Where two slots of a phase differ in more than integers and
// parameters, phases stay nil.
func (k *kernel) unify() {
	slots := map[int][]*slotWork{}
	for _, s := range k.steps {
		for _, w := range s.slots {
			slots[w.phase] = append(slots[w.phase], w)
		}
	}
	// Slots of a phase that do different work are phases of their own.
	for _, p := range slices.Sorted(maps.Keys(slots)) {
		for rest := slots[p]; len(rest) > 0; {
			same, other := rest[:1:1], []*slotWork(nil)
			for _, w := range rest[1:] {
				if k.unifyPhase([]*slotWork{same[0], w}) != nil {
					same = append(same, w)
				} else {
					other = append(other, w)
				}
			}
			ph := k.unifyPhase(same)
			if ph == nil {
				same, other = same[:1], rest[1:]
				ph = k.unifyPhase(same)
			}
			for _, w := range same {
				w.phase = len(k.phases)
			}
			k.phases = append(k.phases, ph)
			rest = other
		}
	}
}

func (k *kernel) unifyPhase(slots []*slotWork) *phase {
	for _, w := range slots {
		w.args, w.refs = map[*variable]int{}, nil
	}
	ph := &phase{}
	var lists [][]*node
	var shapes []*shape
	for _, w := range slots {
		nodes := k.nodes(w.instrs, maps.Clone(k.of))
		s := describe(&node{loop: &loop{v: &variable{}, count: number(1), body: nodes}})
		if len(shapes) > 0 && s.text != shapes[0].text {
			return nil
		}
		lists, shapes = append(lists, nodes), append(shapes, s)
	}
	chunks := make([]int, len(slots))
	for i, w := range slots {
		chunks[i] = w.chunk
	}
	chunk := &variable{"chunk"}
	known := map[string]*variable{}
	values := make([]int, len(slots))
	for x, f := range shapes[0].ints {
		for i := range slots {
			values[i] = shapes[i].ints[x].c
		}
		same, step, ok := true, 0, true
		for i := range slots {
			same = same && values[i] == values[0]
			if chunks[i] != chunks[0] {
				step = (values[i] - values[0]) / (chunks[i] - chunks[0])
			}
		}
		for i := range slots {
			ok = ok && values[i] == values[0]+step*(chunks[i]-chunks[0])
		}
		switch {
		case same:
		case ok:
			if !slices.Contains(ph.vars, chunk) {
				ph.vars = append(ph.vars, chunk)
				for i, w := range slots {
					w.args[chunk] = chunks[i]
				}
			}
			*f = form{c: values[0] - step*chunks[0], t: []term{{chunk, step}}, div: 1}
		default:
			key := fmt.Sprint(values)
			v := known[key]
			if v == nil {
				v = &variable{"place"}
				known[key] = v
				ph.vars = append(ph.vars, v)
				for i, w := range slots {
					w.args[v] = values[i]
				}
			}
			*f = form{t: []term{{v, 1}}, div: 1}
		}
	}
	// References: the same parameter everywhere, or a stand-in for what each slot passes.
	stands := map[string]*item{}
	for x, r := range shapes[0].refs {
		key := ""
		same := true
		for i := range slots {
			other := shapes[i].refs[x].item
			key += fmt.Sprint(other.param, " ")
			same = same && other == r.item
			if other.param == 0 && other != r.item {
				return nil
			}
		}
		if same {
			continue
		}
		if stands[key] == nil {
			stands[key] = &item{typ: r.item.typ, param: r.item.param}
			k.inputs[stands[key]] = k.inputs[r.item]
			ph.refs = append(ph.refs, stands[key])
			for i, w := range slots {
				w.refs = append(w.refs, shapes[i].refs[x].item)
			}
		}
		r.item = stands[key]
	}
	ph.nodes = lists[0]
	return ph
}

// nodes turns instructions into nodes. Constants are left out: they stand where they are used. So does another view of a
// reference, which is made anew for each user: no list holds it.
func (k *kernel) nodes(instrs []*ir.Instr, of map[*ir.Value]*item) []*node {
	var out []*node
	for _, in := range instrs {
		if in.Op == ir.OpConst || in.Op == ir.OpRefCast {
			continue
		}
		n := &node{in: in, stage: in.Task.Stage, head: number(in.Task.Head), ints: bodyInts(in)}
		if t, ok := k.tasks[in]; ok {
			n.stage, n.at, n.until = t.Task.Stage, t.At, t.At
		}
		var operand func(a *ir.Value) *item
		operand = func(a *ir.Value) *item {
			if a.Def == nil || a.Def.Op != ir.OpRefCast {
				return of[a]
			}
			c := *n
			c.in, c.ints, c.args = a.Def, bodyInts(a.Def), []ref{{item: operand(a.Def.Args[0])}}
			x := &item{typ: a.Type, maker: &c}
			c.defs = []*item{x}
			out = append(out, &c)
			return x
		}
		for _, a := range in.Args {
			if _, ok := constant(a); !ok {
				n.args = append(n.args, ref{item: operand(a)})
			}
		}
		for _, r := range in.Results {
			x := &item{typ: r.Type, maker: n}
			of[r] = x
			n.defs = append(n.defs, x)
		}
		if in.Body != nil && in.Op != ir.OpKernel {
			inner := maps.Clone(of)
			for _, p := range in.Body.Params {
				x := &item{typ: p.Type, maker: n}
				inner[p] = x
				n.params = append(n.params, x)
			}
			n.body = roll(k.nodes(in.Body.Instrs, inner))
			for _, y := range in.Body.Yield {
				n.yield = append(n.yield, ref{item: inner[y]})
			}
		}
		out = append(out, n)
	}
	return out
}

// arrange brings what a stage does for one head together. What serves several heads goes before them, and what a level of the
// order begins with is marked.
func arrange(nodes []*node, inputs map[*item]bool) []*node {
	maker := map[*item]int{}
	users := make([][]int, len(nodes))
	for i, n := range nodes {
		visit(n, func(r *ref) {
			if j, ok := maker[r.item]; ok {
				users[j] = append(users[j], i)
			}
		})
		for _, d := range n.defs {
			maker[d] = i
		}
		if n.in.Op == ir.OpRefCast && inputs[n.args[0].item] {
			inputs[n.defs[0]] = true
		}
	}
	// Heads of what carries none: that of all users, else that of all operands.
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if n.head.c >= 0 || len(n.defs) == 0 || len(users[i]) == 0 {
			continue
		}
		h := nodes[users[i][0]].head.c
		for _, u := range users[i] {
			if nodes[u].head.c != h || nodes[u].stage != n.stage {
				h = -1
			}
		}
		n.head.c = h
	}
	for _, n := range nodes {
		if n.head.c >= 0 {
			continue
		}
		h, any := -1, false
		visit(n, func(r *ref) {
			j, ok := maker[r.item]
			if !ok {
				return
			}
			if g := nodes[j].head.c; !any {
				h, any = g, true
			} else if g != h {
				h = -1
			}
		})
		if any {
			n.head.c = h
		}
	}
	// What one head makes for others, of nothing that is a head's own, belongs to none; nor does what only such work reads.
	for range 3 {
		for i, n := range nodes {
			if n.head.c < 0 || len(users[i]) == 0 {
				continue
			}
			some, all := false, true
			for _, u := range users[i] {
				h := nodes[u].head.c
				some = some || h >= 0 && h != n.head.c
				all = all && h < 0
			}
			all = all && n.in.Op != ir.OpLoad
			shared := some || all
			visit(n, func(r *ref) {
				if j, ok := maker[r.item]; ok {
					shared = shared && nodes[j].head.c < 0
				}
			})
			if shared {
				n.head.c = -1
			}
		}
	}
	// A row of scratch that serves all heads is none's either.
	for i, n := range nodes {
		if n.in.Op != ir.OpLoad || len(users[i]) == 0 || !n.args[0].item.scratch {
			continue
		}
		if !slices.ContainsFunc(users[i], func(u int) bool { return nodes[u].head.c >= 0 }) {
			n.head.c = -1
		}
	}
	var out []*node
	for lo := 0; lo < len(nodes); {
		// A level: the same stage, heads not falling.
		hi, top := lo+1, nodes[lo].head.c
		for hi < len(nodes) && nodes[hi].stage == nodes[lo].stage {
			h := nodes[hi].head.c
			if h >= 0 && h < top {
				break
			}
			top = max(top, h)
			hi++
		}
		level := nodes[lo:hi]
		// What serves several heads, and needs none of them, goes first.
		mine := map[*item]bool{}
		var first, rest []*node
		for _, n := range level {
			free := n.head.c < 0 && len(n.defs) > 0 && n.in.Body == nil && (n.in.Op != ir.OpLoad || inputs[n.args[0].item])
			visit(n, func(r *ref) { free = free && !mine[r.item] })
			if free {
				first = append(first, n)
				continue
			}
			for _, d := range n.defs {
				mine[d] = true
			}
			rest = append(rest, n)
		}
		level = append(first, rest...)
		level[0].begins = true
		out = append(out, level...)
		lo = hi
	}
	return out
}

// visit calls f with every operand of a node.
func visit(n *node, f func(*ref)) {
	for i := range n.args {
		f(&n.args[i])
	}
	for i := range n.list {
		f(&n.list[i])
	}
	for i := range n.yield {
		f(&n.yield[i])
	}
	for _, b := range n.body {
		visit(b, f)
	}
	if n.loop != nil {
		for _, c := range n.loop.carries {
			f(&c.init)
		}
		for _, b := range n.loop.body {
			visit(b, f)
		}
	}
}
