package passes

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gdngen/gdngen/ir"
)

// Pipeline orders the body of every kernel that has a schedule (ir.Sched) and overlaps the phases of successive chunks. What
// carries state stands in the phase of the state; dots of the stages that the schedule names, and what of them depends on the
// state, stand in the phase it gives or later; everything else in the earliest phase that it can, except loads and cheap work on them, which wait until they are needed.
// Values pass from phase to phase through rings in scratch. The first and last steps, in which some phases have no chunk, get
// bodies of their own.
func Pipeline(m *ir.Module) (*ir.Module, error) { return pipelined(m, nil) }

// Task is what an instruction of a pipelined kernel's step works for: a phase of the step's chunk number Chunk, in a time slot.
type Task struct {
	Phase, Time, Chunk int
	Loc                ir.Loc  // of the instruction as built, for which operands may have been computed anew or loaded
	At                 float64 // where it stands in the time slot, from 0 to 1
}

// PipelineTasks is Pipeline, and tells what each instruction in the steps' bodies works for.
func PipelineTasks(m *ir.Module) (*ir.Module, map[*ir.Instr]Task, error) {
	tasks := map[*ir.Instr]Task{}
	out, err := pipelined(m, tasks)
	return out, tasks, err
}

func pipelined(m *ir.Module, tasks map[*ir.Instr]Task) (*ir.Module, error) {
	return Transform(m, func(r *Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Op != ir.OpKernel || in.Attrs.Grid.Sched == nil {
			return nil, false
		}
		l := &pipeline{tasks: tasks, opt: in.Attrs.Grid.Sched, g: in.Attrs.Grid, body: &ir.Block{Params: in.Body.Params, Instrs: slices.Clone(in.Body.Instrs)}}
		order(l.body, l.opt)
		rs, err := l.lower(r.Builder, args)
		if err != nil {
			r.Failf("pipeline %s: %w", l.g.Name, err)
		}
		return rs, true
	})
}

// pipeline lowers one kernel.
type pipeline struct {
	opt  *ir.Sched
	g    *ir.Grid
	body *ir.Block

	seq   int // the sequential axis
	index map[*ir.Value]int
	root  map[*ir.Value]*ir.Value
	param map[*ir.Value]int // number of a parameter
	deps  [][]int           // earlier instructions that each needs
	phase []int
	light []bool // loads from windows and cheap work on them
	free  []bool // computed anew wherever it is needed
	lazy  []bool // computed where a task needs it, and again for another task
	first []bool // sets a carry before the first chunk: done at the first step, so that no later body has to test for it
	rings map[*ir.Value]*ring
	tasks map[*ir.Instr]Task // what the instructions of steps work for, where a caller asks

	ng     *ir.Grid
	blk    *ir.Block
	params map[seen]*ir.Value // new parameters
}

// seen is an old parameter as a phase sees it: a window delayed by some steps.
type seen struct {
	param, delay int
}

// ring holds a value of the last few chunks between two phases.
type ring struct {
	ref   *ir.Value
	mod   int  // steps after which a place is used again; a power of two
	words bool // bf16 rows as u32 words
}

// slot is one phase's work in one time slot of a step.
type slot struct {
	phase, time  int
	delay, chunk int // the chunk is number chunk of the step that was delay steps ago
}

func (l *pipeline) lower(b *ir.Builder, args []*ir.Value) ([]*ir.Value, error) {
	l.seq = len(l.g.Dims) - 1
	n := l.g.Dims[l.seq].Size
	l.analyse()
	var slots []slot
	last := 0
	for t := range l.opt.Steps {
		for p, lag := range l.opt.Lags {
			s := slot{phase: p, time: t}
			if lag > t {
				s.delay = (lag - t + l.opt.Steps - 1) / l.opt.Steps
			}
			s.chunk = t - lag + s.delay*l.opt.Steps
			slots = append(slots, s)
			last = max(last, s.delay)
		}
	}
	steps := n / l.opt.Steps
	l.ng = CloneGrid(l.g)
	l.ng.Dims[l.seq].Size, l.ng.Sched = steps+last, nil
	l.blk = &ir.Block{}
	kb := b.On(l.blk)
	kargs, err := l.windows(kb, slots, args, steps)
	if err != nil {
		return nil, err
	}
	l.makeRings(kb, slots)
	if l.opt.Live > 0 { // steps behind the last chunk that must run do nothing
		b.Stage("glue")
		live := b.Reshape(b.SliceAxis(args[l.opt.Live-1], 0, 0, 1))
		kargs = append(kargs, b.Add(live, b.Const(ir.T(ir.I32), float64(last))))
		l.ng.Dims[l.seq].Bound = true
	}

	// A body for each run of steps in which the same slots have a chunk.
	kb.Stage("step")
	c := kb.ProgramID(l.seq)
	var live *ir.Value // the chunks that must run
	if l.opt.Live > 0 {
		live = kb.Load(l.params[seen{l.opt.Live - 1, 0}], nil, []int{0}, nil)
	}
	active := func(step int) []slot {
		var out []slot
		for _, s := range slots {
			if step >= s.delay && step < steps+s.delay {
				out = append(out, s)
			}
		}
		return out
	}
	for lo := 0; lo < steps+last; {
		hi := lo
		for hi+1 < steps+last && slices.Equal(active(hi+1), active(lo)) {
			hi++
		}
		for _, r := range l.runs(lo, hi) {
			if r.lo == 0 && r.hi == steps+last-1 && r.turns == 1 && l.opt.Live == 0 {
				err = l.step(kb, c, r, slots)
				break
			}
			body := func(holds *ir.Value, slots []slot) {
				if err == nil && len(slots) > 0 {
					kb.When(holds, func(b *ir.Builder) { err = l.step(b, c, r, slots) })
				}
			}
			kb.Stage("step")
			holds := r.holds(kb, c)
			if l.opt.Live == 0 {
				body(holds, active(lo))
			} else {
				if lo < steps {
					body(kb.And(holds, kb.Compare(ir.LT, c, live)), active(lo))
				}
				for k := 0; k < last && r.hi > 0; k++ { // phases follow those before them to the end
					kb.Stage("step")
					at := kb.Add(live, kb.Const(ir.T(ir.I32), float64(k)))
					body(kb.And(holds, kb.Compare(ir.EQ, c, at)), slices.DeleteFunc(active(lo), func(s slot) bool { return s.delay <= k }))
				}
			}
			if err != nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		lo = hi + 1
	}
	if kb.Err() != nil {
		return nil, kb.Err()
	}
	return b.Append(ir.OpKernel, kargs, ir.Attrs{Grid: l.ng}, l.blk), nil
}

// run is the steps from lo to hi that share a body: those whose remainder by turns is turn.
type run struct {
	lo, hi, turn, turns int
}

// runs divides the steps from lo to hi so that each body knows which places of the rings it uses: where a place depends on the
// number of the step, a compiler can not tell a load of one chunk from a store of another, and keeps their order.
func (l *pipeline) runs(lo, hi int) []run {
	turns := 1
	for _, r := range l.rings {
		turns = max(turns, r.mod)
	}
	var out []run
	for at := lo; at <= hi && at < lo+turns; at++ {
		r := run{lo: lo, hi: hi, turn: at % turns, turns: turns}
		if at+turns > hi {
			r.lo, r.hi = at, at
		}
		out = append(out, r)
	}
	return out
}

// holds is the condition that step c belongs to the run.
func (r run) holds(b *ir.Builder, c *ir.Value) *ir.Value {
	i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
	if r.lo == r.hi {
		return b.Compare(ir.EQ, c, i32(r.lo))
	}
	cond := b.Compare(ir.LE, c, i32(r.hi))
	if r.lo > 0 {
		cond = b.And(b.Compare(ir.GE, c, i32(r.lo)), cond)
	}
	if r.turns > 1 {
		cond = b.And(cond, b.Compare(ir.EQ, b.And(c, i32(r.turns-1)), i32(r.turn)))
	}
	return cond
}

// analyse finds the phase of each instruction.
func (l *pipeline) analyse() {
	ins := l.body.Instrs
	l.index, l.root, l.param = map[*ir.Value]int{}, map[*ir.Value]*ir.Value{}, map[*ir.Value]int{}
	for i, p := range l.body.Params {
		l.param[p] = i
	}
	stages := map[string]int{}
	for _, s := range l.opt.Phases {
		stages[s.Stage] = s.Phase
	}
	loaded := map[*ir.Value]bool{}
	for i, in := range ins {
		for _, r := range in.Results {
			l.index[r] = i
		}
		if in.Op == ir.OpRefCast {
			l.root[in.Result()] = memory(l.root, in.Args[0])
		}
		accesses(in, func(ref *ir.Value, store bool, _ *box) {
			if !store {
				loaded[memory(l.root, ref)] = true
			}
		})
	}
	firstOut := l.g.Tables + len(l.g.In)
	l.deps = dependences(l.body)
	deps := l.deps
	l.free, l.first = make([]bool, len(ins)), make([]bool, len(ins))
	// Scratch belongs to one phase, the latest that uses it; the rings are the only memory between phases.
	floor := make([]int, len(ins))
	for again := true; again; {
		l.assign(deps, stages, loaded, floor)
		again = false
		owner := map[*ir.Value]int{}
		scratch := func(visit func(i int, ref *ir.Value)) {
			for i, in := range ins {
				accesses(in, func(ref *ir.Value, _ bool, _ *box) {
					if ref = memory(l.root, ref); l.param[ref] >= firstOut {
						visit(i, ref)
					}
				})
			}
		}
		scratch(func(i int, ref *ir.Value) { owner[ref] = max(owner[ref], l.phase[i]) })
		scratch(func(i int, ref *ir.Value) {
			if l.phase[i] < owner[ref] && floor[i] < owner[ref] {
				floor[i], again = owner[ref], true
			}
		})
	}
	l.findLazy()
}

// assign finds the phase of each instruction, at least floor.
func (l *pipeline) assign(deps [][]int, stages map[string]int, loaded map[*ir.Value]bool, floor []int) {
	ins := l.body.Instrs
	lastPhase, state, firstOut := len(l.opt.Lags)-1, l.opt.State(), l.g.Tables+len(l.g.In)
	l.phase, l.light = make([]int, len(ins)), make([]bool, len(ins))
	for i, in := range ins {
		carried, window, scratch := false, true, false
		accesses(in, func(ref *ir.Value, store bool, _ *box) {
			ref = memory(l.root, ref)
			carried = carried || l.isOut(ref) && loaded[ref]
			window = window && !store && l.param[ref] < firstOut
			scratch = scratch || l.param[ref] >= firstOut
		})
		l.phase[i] = floor[i]
		l.free[i] = in.Body == nil && (in.Op == ir.OpRefCast || in.Op == ir.OpProgramID || !ir.Ops[in.Op].Effect)
		l.light[i] = in.Body == nil && window && !scratch
		for _, d := range deps[i] {
			l.phase[i] = max(l.phase[i], l.phase[d])
			l.free[i] = l.free[i] && l.free[d]
			l.light[i] = l.light[i] && (l.light[d] || l.free[d])
		}
		switch in.Op {
		case ir.OpDot, ir.OpTranspose, ir.OpTake, ir.OpReduceSum, ir.OpReduceMax, ir.OpExp, ir.OpExp2:
			l.light[i] = false
		}
		if carried {
			l.phase[i] = max(l.phase[i], state)
		}
		if hasDot(in) || l.phase[i] >= state && !carried {
			l.phase[i] = max(l.phase[i], stages[in.Loc.Stage])
		}
		if in.Op == ir.OpStore && l.stores(in.Args[1]) {
			for l.phase[i] < lastPhase && l.opt.Lags[l.phase[i]]%l.opt.Steps != 0 {
				l.phase[i]++
			}
		}
		l.first[i] = in.Op == ir.OpWhen && l.atFirst(in.Args[0]) && l.still(in)
	}
	// Loads and cheap work on them wait until they are needed; so do masks, which can not pass between phases, and rows that are
	// spread over tiles, so that the row alone passes.
	first := make([]int, len(ins))
	for i := range first {
		first[i] = lastPhase + 1
	}
	for i := len(ins) - 1; i >= 0; i-- {
		mask := len(ins[i].Results) == 1 && ins[i].Result().Type.DType == ir.Bool
		if (l.light[i] || mask || spreadsRow(ins[i]) || l.grows(i)) && !l.free[i] && first[i] <= lastPhase {
			l.phase[i] = max(l.phase[i], first[i])
		}
		if l.free[i] {
			continue
		}
		for _, d := range deps[i] {
			first[d] = min(first[d], l.phase[i])
		}
	}
}

// spreadsRow says whether an instruction repeats one row in all rows of a tile, which a load does at no cost.
func spreadsRow(in *ir.Instr) bool {
	if in.Op != ir.OpBroadcast || in.Result().Type.Rank() != 2 || in.Result().Type.Shape[0] < sublanes {
		return false
	}
	row := in.Args[0].Type.Shape
	return len(row) == 1 || len(row) == 2 && row[0] == 1
}

// grows says whether an instruction makes a tile of one from a window and of spread rows alone, which take less to pass.
func (l *pipeline) grows(i int) bool {
	in := l.body.Instrs[i]
	if in.Op != ir.OpMul && in.Op != ir.OpAdd && in.Op != ir.OpSub {
		return false
	}
	window := false
	for _, d := range l.deps[i] {
		window = window || l.light[d] && !l.free[d]
		if !l.light[d] && !l.free[d] && !spreadsRow(l.body.Instrs[d]) {
			return false
		}
	}
	return window
}

// findLazy finds what is best computed where it is needed: loads, which are cheap to repeat, and light work for one task only. A
// load of what is stored to later must be read before that store; order sees to that for what stands before it as built.
func (l *pipeline) findLazy() {
	ins := l.body.Instrs
	l.lazy = make([]bool, len(ins))
	lastStore := map[*ir.Value]int{}
	for i, in := range ins {
		accesses(in, func(ref *ir.Value, store bool, _ *box) {
			if store {
				lastStore[memory(l.root, ref)] = i
			}
		})
	}
	users := make([][]int, len(ins))
	for i, in := range ins {
		uses(in, func(v *ir.Value) {
			if j, ok := l.index[v]; ok {
				users[j] = append(users[j], i)
			}
		})
	}
	tasks := make([]ir.Loc, len(ins))
	for i := len(ins) - 1; i >= 0; i-- {
		in := ins[i]
		tasks[i] = in.Loc
		if l.free[i] || len(users[i]) == 0 {
			continue
		}
		single, samePhase, before := true, true, true
		for _, u := range users[i] {
			single = single && tasks[u] == tasks[users[i][0]]
			samePhase = samePhase && l.phase[u] == l.phase[i]
			if in.Op == ir.OpLoad {
				before = before && u < lastStore[memory(l.root, in.Args[0])]
			}
		}
		window := in.Op == ir.OpLoad && l.param[memory(l.root, in.Args[0])] < l.g.Tables+len(l.g.In)
		carry := in.Op == ir.OpLoad && len(in.Args) == 1 && before && l.isOut(in.Args[0])
		if samePhase && (window && l.light[i] || carry || l.light[i] && single) {
			l.lazy[i] = true
			tasks[i] = tasks[users[i][0]]
		}
	}
}

// atFirst says whether a condition holds at the first chunk alone.
func (l *pipeline) atFirst(cond *ir.Value) bool {
	in := cond.Def
	if in == nil || in.Op != ir.OpCompare || in.Attrs.Cmp != ir.EQ {
		return false
	}
	id, zero := in.Args[0].Def, in.Args[1].Def
	return id != nil && zero != nil && id.Op == ir.OpProgramID && id.Attrs.Axis == l.seq && zero.Op == ir.OpConst && zero.Attrs.Value == 0
}

// still says whether an instruction touches only windows that do not move along the sequential axis.
func (l *pipeline) still(in *ir.Instr) bool {
	ok := true
	accesses(in, func(ref *ir.Value, _ bool, _ *box) {
		p := l.param[memory(l.root, ref)] - l.g.Tables
		var w ir.Window
		switch {
		case p >= 0 && p < len(l.g.In):
			w = l.g.In[p]
		case p >= len(l.g.In) && p < len(l.g.In)+len(l.g.Out):
			w = l.g.Out[p-len(l.g.In)]
		default:
			ok = false
		}
		ok = ok && !l.moves(w)
	})
	return ok
}

// stores says whether a reference is an output window that moves along the sequential axis: what is stored to it must come from
// whole steps.
func (l *pipeline) stores(ref *ir.Value) bool {
	p := l.param[memory(l.root, ref)] - l.g.Tables - len(l.g.In)
	return l.isOut(ref) && l.moves(l.g.Out[p])
}

// down says whether an index walks all chunks from the last to the first.
func (l *pipeline) down(x ir.Index) bool { return x.Down && x.Max == l.g.Dims[l.seq].Size-1 }

func (l *pipeline) moves(w ir.Window) bool {
	return slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq })
}

// isOut says whether a reference is an output window.
func (l *pipeline) isOut(ref *ir.Value) bool {
	i, ok := l.param[memory(l.root, ref)]
	first := l.g.Tables + len(l.g.In)
	return ok && i >= first && i < first+len(l.g.Out)
}

func hasDot(in *ir.Instr) bool {
	found := in.Op == ir.OpDot
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) { found = found || x.Op == ir.OpDot })
	}
	return found
}

// windows makes the new grid's windows, one for each delay at which a window is read, and the block's parameters.
func (l *pipeline) windows(b *ir.Builder, slots []slot, args []*ir.Value, steps int) ([]*ir.Value, error) {
	g, ng := l.g, l.ng
	used := map[seen]bool{}
	for i, in := range l.body.Instrs {
		accesses(in, func(ref *ir.Value, _ bool, _ *box) {
			p := l.param[memory(l.root, ref)]
			if l.first[i] {
				used[seen{p, 0}] = true
				return
			}
			for _, s := range slots {
				if s.phase == l.phase[i] {
					used[seen{p, s.delay}] = true
				}
			}
		})
	}
	delayed := func(w ir.Window, delay int) (ir.Window, error) {
		out := ir.Window{Block: slices.Clone(w.Block), Index: slices.Clone(w.Index)}
		if l.opt.Steps == 1 && len(l.opt.Lags) == 1 { // nothing overlaps: only the order changes
			return out, nil
		}
		for d := range out.Index {
			x := &out.Index[d]
			if x.Axis != l.seq {
				continue
			}
			if x.Shift != 0 || x.Max >= 0 && !l.down(*x) || x.Table >= 0 && l.opt.Steps > 1 {
				return out, fmt.Errorf("a window whose index is shifted, or looked up for each of %d chunks, can not be pipelined", l.opt.Steps)
			}
			x.Shift, x.Max = -delay, steps-1
			if x.Table < 0 {
				out.Block[d] *= l.opt.Steps
			}
		}
		return out, nil
	}
	l.params = map[seen]*ir.Value{}
	kargs := slices.Clone(args[:g.Tables])
	for i := range g.Tables {
		p := b.Param("", l.body.Params[i].Type)
		for _, s := range slots {
			l.params[seen{i, s.delay}] = p
		}
	}
	ng.In, ng.Out, ng.Alias = nil, nil, nil
	inputOf := map[int]int{}
	for i, w := range g.In {
		old := g.Tables + i
		var shared *ir.Value
		for d := 0; d < ng.Dims[l.seq].Size; d++ {
			if !used[seen{old, d}] {
				continue
			}
			if shared != nil && !l.moves(w) {
				l.params[seen{old, d}] = shared
				continue
			}
			nw, err := delayed(w, d)
			if err != nil {
				return nil, err
			}
			inputOf[i] = len(ng.In)
			ng.In = append(ng.In, nw)
			kargs = append(kargs, args[old])
			shared = b.Param("", ir.Ref(ir.VMEM, args[old].Type.DType, nw.Block...))
			l.params[seen{old, d}] = shared
		}
	}
	for i, w := range g.Out {
		old := g.Tables + len(g.In) + i
		delay := -1
		for d := 0; d < ng.Dims[l.seq].Size; d++ {
			if used[seen{old, d}] {
				if delay >= 0 && l.moves(w) {
					return nil, fmt.Errorf("output %d is stored in steps of different delay; make the lag of its phase a multiple of the chunks of a step", i)
				}
				delay = d
			}
		}
		nw, err := delayed(w, max(delay, 0))
		if err != nil {
			return nil, err
		}
		ng.Out = append(ng.Out, nw)
		p := b.Param("", l.body.Params[old].Type)
		if !w.Whole(g.Outs[i]) {
			p.Type = ir.Ref(ir.VMEM, g.Outs[i].DType, nw.Block...)
		}
		for _, s := range slots {
			l.params[seen{old, s.delay}] = p
		}
	}
	for _, a := range g.Alias {
		j, ok := inputOf[a[1]]
		if !ok {
			return nil, fmt.Errorf("input %d, alias of output %d, is not read", a[1], a[0])
		}
		ng.Alias = append(ng.Alias, [2]int{a[0], j})
	}
	for i, t := range g.Scratch {
		old := g.Tables + len(g.In) + len(g.Out) + i
		p := b.Param("", t)
		for _, s := range slots {
			l.params[seen{old, s.delay}] = p
		}
	}
	return kargs, nil
}

// makeRings finds the values that pass between phases and gives each a ring that holds it from its phase to the last that
// reads it.
func (l *pipeline) makeRings(b *ir.Builder, slots []slot) {
	l.rings = map[*ir.Value]*ring{}
	reach := map[*ir.Value]int{}
	var order []*ir.Value
	for i, in := range l.body.Instrs {
		if l.free[i] || l.first[i] {
			continue
		}
		uses(in, func(v *ir.Value) {
			j, ok := l.index[v]
			if !ok || l.free[j] || l.phase[j] == l.phase[i] {
				return
			}
			if _, known := reach[v]; !known {
				order = append(order, v)
			}
			reach[v] = max(reach[v], l.opt.Lags[l.phase[i]]-l.opt.Lags[l.phase[j]])
		})
	}
	slices.SortFunc(order, func(x, y *ir.Value) int { return l.index[x] - l.index[y] })
	for _, v := range order {
		mod := 1
		for mod*l.opt.Steps < reach[v]+1 {
			mod *= 2
		}
		shape := slices.Clone(v.Type.Shape)
		if len(shape) != 2 || v.Type.DType == ir.Bool {
			b.Failf("a %s value made at %q passes between phases; only tiles of numbers can", v.Type, l.body.Instrs[l.index[v]].Loc)
			return
		}
		r := &ring{mod: mod, words: v.Type.DType == ir.BF16 && shape[0]%2 == 0}
		d := v.Type.DType
		if r.words {
			d, shape[0] = ir.U32, shape[0]/2
		}
		t := ir.Ref(ir.VMEM, d, append([]int{mod * l.opt.Steps}, shape...)...)
		l.ng.Scratch = append(l.ng.Scratch, t)
		r.ref = b.Param("", t)
		l.rings[v] = r
	}
}

// event is one instruction of one slot on the step's time line.
type event struct {
	at    float64
	slot  int
	instr int
}

// step emits the body of a run of steps, in which some slots are active.
func (l *pipeline) step(b *ir.Builder, c *ir.Value, r run, slots []slot) error {
	if r.lo == 0 && r.turn == 0 {
		if err := l.start(b, c, r.hi); err != nil {
			return err
		}
	}
	var events []event
	copies := make([]*copier, len(slots))
	for k, s := range slots {
		copies[k] = &copier{pipeline: l, slot: s, run: r, b: b, step: c, env: map[*ir.Value]*ir.Value{}}
		for i, at := range l.timeline(s.phase) {
			if at >= 0 {
				events = append(events, event{float64(s.time) + at, k, i})
			}
		}
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
	for _, e := range events {
		in, done := l.body.Instrs[e.instr], len(b.Block().Instrs)
		if err := copies[e.slot].place(in); err != nil {
			return err
		}
		if l.tasks != nil {
			s := slots[e.slot]
			for _, x := range b.Block().Instrs[done:] {
				l.tasks[x] = Task{Phase: s.phase, Time: s.time, Chunk: s.chunk, Loc: in.Loc, At: e.at - float64(s.time)}
			}
		}
	}
	return b.Err()
}

// timeline gives the time of each instruction of a phase within a time slot, in 0 to 1; -1 where the phase does not place it. The
// phase's instructions follow one another, each taking time by its weight, and those of stages beside the rest likewise; none
// stands before what it needs.
func (l *pipeline) timeline(phase int) []float64 {
	from, to := 0.0, 1.0
	if phase == l.opt.State() {
		from = float64(l.opt.Late) / 100
	}
	if l.opt.Ends != nil {
		to = float64(l.opt.Ends[phase]) / 100
	}
	n := len(l.body.Instrs)
	line := func(i int) int {
		if slices.Contains(l.opt.Beside, l.body.Instrs[i].Loc.Stage) {
			return 1
		}
		return 0
	}
	at := make([]float64, n)
	var total, done [2]float64
	for i, in := range l.body.Instrs {
		at[i] = -1
		if l.phase[i] == phase && !l.free[i] && !l.lazy[i] && !l.first[i] {
			at[i] = 0
			total[line(i)] += weight(in)
		}
	}
	known := make([]float64, n) // when everything before an instruction, placed or not, is
	for i, in := range l.body.Instrs {
		for _, d := range l.deps[i] {
			known[i] = max(known[i], known[d])
		}
		if at[i] < 0 {
			continue
		}
		w, k := weight(in), line(i)
		at[i] = max(known[i], from+(to-from)*(done[k]+w/2)/max(total[k], 1))
		if copies(in) {
			at[i] = 1
		}
		known[i] = at[i]
		done[k] += w
	}
	return at
}

// copies says whether an instruction starts copies or waits for them. Their conditions would end the straight line, so that they
// stand behind all else.
func copies(in *ir.Instr) bool {
	found := false
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) { found = found || x.Op == ir.OpDMAStart || x.Op == ir.OpDMAWait })
	}
	return found
}

// start sets the carries at the first of the steps 0 to hi.
func (l *pipeline) start(b *ir.Builder, c *ir.Value, hi int) error {
	k := &copier{pipeline: l, b: b, step: c, env: map[*ir.Value]*ir.Value{}}
	for i, in := range l.body.Instrs {
		if !l.first[i] {
			continue
		}
		if hi > 0 {
			if err := k.emit(b, in); err != nil {
				return err
			}
			continue
		}
		for _, x := range in.Body.Instrs {
			if err := k.emit(b, x); err != nil {
				return err
			}
		}
	}
	return b.Err()
}

// weight estimates how many bundles an instruction fills.
func weight(in *ir.Instr) float64 {
	regs := func(t ir.Type) float64 {
		_, r, l := rowsLanes(t.Shape)
		per := 8 * 4 / max(t.DType.Bytes(), 1)
		return float64((r + per - 1) / per * ((l + 127) / 128))
	}
	switch in.Op {
	case ir.OpDot:
		return regs(in.Args[0].Type)
	case ir.OpStore:
		return regs(in.Args[0].Type) / 2
	case ir.OpLoop, ir.OpWhen:
		w := 0.0
		for _, x := range in.Body.Instrs {
			w += weight(x)
		}
		return w * float64(max(in.Attrs.Count, 1))
	case ir.OpTranspose, ir.OpTake, ir.OpReduceSum, ir.OpReduceMax, ir.OpExp, ir.OpExp2:
		return regs(in.Result().Type)
	case ir.OpSlice, ir.OpConcat, ir.OpReshape:
		return 0
	}
	if len(in.Results) == 0 {
		return 1
	}
	return regs(in.Result().Type) / 4
}

// copier emits one slot's instructions.
type copier struct {
	*pipeline
	slot  slot
	run   run
	b     *ir.Builder
	step  *ir.Value // id of the step
	env   map[*ir.Value]*ir.Value
	task  ir.Loc
	loads []*ir.Value // values read from rings, or lazy, for the current task
}

// place emits an instruction and puts its results into their rings.
func (k *copier) place(in *ir.Instr) error {
	if in.Loc != k.task {
		for _, v := range k.loads {
			delete(k.env, v)
		}
		k.task, k.loads = in.Loc, nil
	}
	if err := k.emit(k.b, in); err != nil {
		return err
	}
	for _, v := range in.Results {
		r := k.rings[v]
		if r == nil {
			continue
		}
		x := k.env[v]
		if r.words {
			x = k.b.Words(x)
		}
		k.b.Store(x, r.ref, k.within(r), nil)
	}
	return k.b.Err()
}

// within is where in a ring the slot's chunk lies.
func (k *copier) within(r *ring) []int {
	turn := (k.run.turn + k.run.turns - k.slot.delay%r.mod) % r.mod
	return []int{turn*k.opt.Steps + k.slot.chunk, 0, 0}
}

// value is what stands for an old value in this slot.
func (k *copier) value(old *ir.Value) (*ir.Value, error) {
	if v := k.env[old]; v != nil {
		return v, nil
	}
	if p, ok := k.param[old]; ok {
		v := k.params[seen{p, k.slot.delay}]
		if v == nil {
			return nil, fmt.Errorf("parameter %d is not seen with a delay of %d steps", p, k.slot.delay)
		}
		return v, nil
	}
	i, ok := k.index[old]
	if !ok {
		return nil, fmt.Errorf("a %s value comes from outside the kernel", old.Type)
	}
	if k.free[i] || k.lazy[i] && k.phase[i] == k.slot.phase {
		if err := k.emit(k.b, k.body.Instrs[i]); err != nil {
			return nil, err
		}
		if k.lazy[i] {
			k.loads = append(k.loads, old)
		}
		return k.env[old], nil
	}
	r := k.rings[old]
	if r == nil {
		return nil, fmt.Errorf("a %s value is used before its phase", old.Type)
	}
	v := k.b.Load(r.ref, r.ref.Type.Shape[1:], k.within(r), nil)
	if r.words {
		v = k.b.Halves(v)
	}
	k.env[old] = v
	k.loads = append(k.loads, old)
	return v, nil
}

// emit copies an instruction, with windows moved to the slot's chunk.
func (k *copier) emit(b *ir.Builder, in *ir.Instr) error {
	b.At(in.Loc)
	args := make([]*ir.Value, len(in.Args))
	for i, a := range in.Args {
		var err error
		if args[i], err = k.value(a); err != nil {
			return fmt.Errorf("%s at %q: %w", in.Op, in.Loc, err)
		}
	}
	attrs := CloneAttrs(in.Attrs)
	var types []ir.Type
	for _, r := range in.Results {
		types = append(types, r.Type)
	}
	b.At(in.Loc)
	switch in.Op {
	case ir.OpProgramID:
		if in.Attrs.Axis != k.seq {
			break
		}
		i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
		c := b.Mul(b.Sub(k.step, i32(k.slot.delay)), i32(k.opt.Steps))
		k.env[in.Result()] = b.Add(c, i32(k.slot.chunk))
		return b.Err()
	case ir.OpLoad:
		k.shift(&attrs, in.Args[0])
	case ir.OpStore:
		k.shift(&attrs, in.Args[1])
	case ir.OpRefCast:
		old, now := in.Args[0].Type.Shape, args[0].Type.Shape
		if !slices.Equal(old, now) {
			t := CloneType(types[0])
			if t.Rank() != len(old) {
				return fmt.Errorf("refcast at %q joins dimensions of a window of several chunks", in.Loc)
			}
			for d := range old {
				t.Shape[d] = t.Shape[d] * now[d] / old[d]
			}
			types[0] = t
		}
	}
	var body *ir.Block
	if in.Body != nil {
		body = &ir.Block{}
		inner := b.On(body)
		for _, p := range in.Body.Params {
			k.env[p] = inner.Param("", p.Type)
		}
		// What the body reads of other phases is loaded before it.
		var err error
		uses(in, func(v *ir.Value) {
			if _, outer := k.index[v]; outer && err == nil {
				_, err = k.value(v)
			}
		})
		if err != nil {
			return err
		}
		for _, x := range in.Body.Instrs {
			if err := k.emit(inner, x); err != nil {
				return err
			}
		}
		for _, y := range in.Body.Yield {
			v, err := k.value(y)
			if err != nil {
				return err
			}
			body.Yield = append(body.Yield, v)
		}
	}
	rs := b.Append(in.Op, args, attrs, body, explicit(in.Op, types)...)
	if b.Err() != nil {
		return b.Err()
	}
	for i, r := range in.Results {
		k.env[r] = rs[i]
	}
	return nil
}

// shift moves the start of a load or store to the slot's chunk of the window behind ref.
func (k *copier) shift(a *ir.Attrs, ref *ir.Value) {
	r := memory(k.root, ref)
	p, ok := k.param[r]
	if !ok {
		return
	}
	var w ir.Window
	switch i := p - k.g.Tables; {
	case i >= 0 && i < len(k.g.In):
		w = k.g.In[i]
	case i >= len(k.g.In) && i < len(k.g.In)+len(k.g.Out):
		w = k.g.Out[i-len(k.g.In)]
	default:
		return
	}
	for d, x := range w.Index {
		if x.Axis == k.seq && x.Table < 0 {
			chunk := k.slot.chunk
			if x.Down {
				chunk = k.opt.Steps - 1 - chunk
			}
			a.Starts[d] += chunk * ref.Type.Shape[d]
		}
	}
}
