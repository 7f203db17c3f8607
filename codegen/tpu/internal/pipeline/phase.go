package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// analyse finds the phase of each instruction, or how it is made again where it is used. For instruction i:
//
//	phase[i]   its phase
//	light[i]   loads from input windows, and cheap work on them: may move to a later phase that needs it
//	free[i]    needs no memory: constants, casts, the number of the step; made again at each use
//	lazy[i]    not placed, made again for each task that uses it: a load is cheaper than a ring
//	first[i]   sets a carry before the first chunk, in the first step only
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
	for i, in := range ins {
		for _, r := range in.Results {
			l.index[r] = i
		}
		if in.Op == ir.OpRefCast {
			l.root[in.Result()] = memory(l.root, in.Args[0])
		}
	}
	firstOut := l.g.Tables + len(l.g.In)
	recurring := map[*ir.Value]bool{}
	for _, out := range l.body.Params[firstOut:][:len(l.g.Out)] {
		recurring[out] = l.recurs(out)
	}
	l.deps = dependences(l.body)
	deps := l.deps
	l.free, l.first = make([]bool, len(ins)), make([]bool, len(ins))
	// Code that moves rows through scratch (codegen/tpu, toScratch) stores and loads within one chunk's work. If two phases shared the
	// scratch, two chunks would overwrite each other. So scratch belongs to one phase, the latest that uses it; only rings pass values
	// between phases. Moving a store to a later phase also moves the instructions before it, so phases are assigned again until nothing
	// changes.
	floor := make([]int, len(ins))
	for again := true; again; {
		l.assign(deps, stages, recurring, floor)
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

// recurs reports whether the value stored to a carry depends on a load from it. A carry that does not recur delays nothing: rows that
// the next chunk needs pass in phase 0.
//
// Values are followed through memory per reference: everything in a scratch buffer counts as dependent once one value in it is.
func (l *pipeline) recurs(carry *ir.Value) bool {
	made, held := map[*ir.Value]bool{}, map[*ir.Value]bool{carry: true} // values, and references that hold such
	for again := true; again; {
		again = false
		for _, in := range l.body.Instrs {
			of := false
			uses(in, func(v *ir.Value) { of = of || made[v] })
			accesses(in, func(ref *ir.Value, store bool, _ *box) { of = of || !store && held[memory(l.root, ref)] })
			if !of {
				continue
			}
			for _, r := range in.Results {
				again, made[r] = again || !made[r], true
			}
			recurs := false
			accesses(in, func(ref *ir.Value, store bool, _ *box) {
				if ref = memory(l.root, ref); store {
					recurs = recurs || ref == carry
					again, held[ref] = again || !held[ref], true
				}
			})
			if recurs {
				return true
			}
		}
	}
	return false
}

// assign finds the phase of each instruction, at least floor, in two passes over the body. Forward: the earliest possible phase, which
// is the latest of its operands. Backward: instructions that are better late (waits) move to the first phase that needs them. Early is
// the rule, since early work fills the time of the state's chain; a load made early would only fill rings.
//
// Two phases; phase 1 is the phase of the state S:
//
//	                    earliest   is in
//	k = load K          0          0           phase 0 is the first that needs it
//	a = dot k, k        0          0           not light: it fills time, and passes in a ring
//	v = load V          0          1           light, and first needed in phase 1
//	s = load S          1          1           S is also stored: it carries state
//	u = dot a, s        1          1
//	w = add u, v        1          1
func (l *pipeline) assign(deps [][]int, stages map[string]int, recurring map[*ir.Value]bool, floor []int) {
	n := len(l.body.Instrs)
	l.phase, l.light = make([]int, n), make([]bool, n)
	for i := range n {
		l.earliest(i, deps[i], stages, recurring, floor[i])
	}
	first := make([]int, n) // phase that first needs an instruction
	lastPhase := len(l.opt.Lags) - 1
	for i := range first {
		first[i] = lastPhase + 1
	}
	// Users come after their operands, so in this order their phases are final. A free instruction has no phase and gives its operands
	// none: each user makes it again.
	for i := n - 1; i >= 0; i-- {
		if l.free[i] {
			continue
		}
		if l.waits(i) && first[i] <= lastPhase {
			l.phase[i] = max(l.phase[i], first[i])
		}
		for _, d := range deps[i] {
			first[d] = min(first[d], l.phase[i])
		}
	}
}

// earliest sets the first phase that instruction i can be in, and whether it is light, free or first.
func (l *pipeline) earliest(i int, deps []int, stages map[string]int, recurring map[*ir.Value]bool, floor int) {
	in := l.body.Instrs[i]
	lastPhase, state, firstOut := len(l.opt.Lags)-1, l.opt.State(), l.g.Tables+len(l.g.In)
	carried, window, scratch, enters := false, true, false, false
	accesses(in, func(ref *ir.Value, store bool, _ *box) {
		ref = memory(l.root, ref)
		carried = carried || recurring[ref]
		window = window && !store && l.param[ref] < firstOut
		scratch = scratch || l.param[ref] >= firstOut
		enters = enters || slices.Contains(l.opt.Enter, l.param[ref]-l.g.Tables)
	})
	l.phase[i] = floor
	l.free[i] = in.Body == nil && (in.Op == ir.OpRefCast || in.Op == ir.OpProgramID || !ir.Ops[in.Op].Effect)
	l.light[i] = in.Body == nil && window && !scratch
	for _, d := range deps {
		l.phase[i] = max(l.phase[i], l.phase[d])
		l.free[i] = l.free[i] && l.free[d]
		l.light[i] = l.light[i] && (l.light[d] || l.free[d])
	}
	// Work on a unit other than the vector ALU, or with a latency of many cycles, is not cheap.
	switch in.Op {
	// If light, these would move to the phase that needs them, often the state's, though phase 0 has time for them.
	case ir.OpDot, ir.OpTranspose, ir.OpTake, ir.OpReduceSum, ir.OpReduceMax, ir.OpExp, ir.OpExp2:
		l.light[i] = false
	}
	// A load of a window that is also stored reads the state, so it is in the state's phase. So are loads of Sched.Enter and their
	// users.
	if carried || enters || slices.Contains(l.opt.With, in.Task.Stage) {
		l.phase[i] = max(l.phase[i], state)
	}
	// A schedule assigns stages to phases only for dots, which balance the phases, and for work after the state. Other vector work of a
	// stage is in the phase of its operands.
	if hasDot(in) || l.phase[i] >= state && !carried {
		l.phase[i] = max(l.phase[i], stages[in.Task.Stage])
	}
	// A block of outputs is written out at the end of its step. Chunks of one step that come from two steps would be in two blocks. So a
	// store waits for a phase whose lag is a whole number of steps. With Steps 2 and lags 0, 1, 2, a store of phase 1 goes to phase 2:
	// in phase 1 a step has the last chunk of the step before and the first of its own.
	if in.Op == ir.OpStore && l.stores(in.Args[1]) {
		for l.phase[i] < lastPhase && l.opt.Lags[l.phase[i]]%l.opt.Steps != 0 {
			l.phase[i]++
		}
	}
	// In the body, the condition would split the straight line of every step (2.21 instead of 2.12 cycles on v6e). So it is only before
	// the first body (start). An instruction that copies blocks sets no state, though its condition may look like rows of two chunks:
	// with two buffer halves it asks for an even number.
	l.first[i] = in.Op == ir.OpWhen && !copies(in) && (l.atFirst(in.Args[0]) && l.still(in) || l.rows.begin(in.Args[0], l.seq))
}

// waits reports whether an instruction is better done in the phase that needs it, because its result is larger than its operands or
// cheaper than a store and a load. These are loads and cheap work on them; masks, which can not pass between phases; rows spread over
// tiles, so that only the row passes; and concatenations, whose parts pass instead.
//
// A part may be in several concatenations, or be used alone: then it passes once. Moving all concatenations gained .3 to .7 % in the
// training step of KDA.
func (l *pipeline) waits(i int) bool {
	in := l.body.Instrs[i]
	mask := len(in.Results) == 1 && in.Result().Type.DType == ir.Bool
	return l.light[i] || mask || spreadsRow(in) || widens(in) || l.grows(i) || in.Op == ir.OpConcat
}

// spreadsRow reports whether an instruction repeats one row in all rows of a tile. A load does that for free, with a stride of zero.
func spreadsRow(in *ir.Instr) bool {
	if in.Op != ir.OpBroadcast || in.Result().Type.Rank() != 2 || in.Result().Type.Shape[0] < target.Sublanes {
		return false
	}
	row := in.Args[0].Type.Shape
	return len(row) == 1 || len(row) == 2 && row[0] == 1
}

// widens reports whether an instruction takes a half of the words of a tile: the words pass in half the space.
//
// Example: bf16 rows with tokens before heads. A word has two heads of a token; its halves as float32 would be two tiles in rings
// instead of one.
func widens(in *ir.Instr) bool {
	if len(in.Results) != 1 {
		return false
	}
	if _, _, ok := tiles.HalfOf(in.Result()); ok {
		return true
	}
	_, _, ok := tiles.HalfBits(in)
	return ok
}

// grows reports whether an instruction makes a tile from a window and spread rows only; these take less space to pass. Example: K times
// its decay. K is in its window anyway, the decay is one row for all tokens, and the product would be one tile per head in a ring.
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

// findLazy finds work that is best repeated where it is used: loads, and light work of one task only. A value placed once and used much
// later occupies registers in between, and there are 64. The compiler would spill and reload it, which costs as much as a load at the
// use. If the memory is stored to later, the load must precede that store; order keeps loads built before a store before it.
//
//	window   a load of an input's block: repeated for each task
//	carry    a load of the state: likewise, if all users precede the last store to it
//	single   light work for one task: done there only
//
// In all three, the users are in the same phase; other phases read a ring.
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
	tasks := make([]ir.Task, len(ins))
	for i := len(ins) - 1; i >= 0; i-- {
		in := ins[i]
		tasks[i] = in.Task
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
			// So a load that only it reads has one task too, and whole chains are lazy.
			tasks[i] = tasks[users[i][0]]
		}
	}
}

// atFirst reports whether a condition is `point == 0` on the sequential axis, as Tile writes it to set a carry.
func (l *pipeline) atFirst(cond *ir.Value) bool {
	in := cond.Def
	if in == nil || in.Op != ir.OpCompare || in.Attrs.Cmp != ir.EQ {
		return false
	}
	id, zero := in.Args[0].Def, in.Args[1].Def
	return id != nil && zero != nil && id.Op == ir.OpProgramID && id.Attrs.Axis == l.seq && zero.Op == ir.OpConst && zero.Attrs.Value == 0
}

// setLate reports whether carries are set in the second step. A JAX file's first step waits for all blocks it could read. If no phase
// with a chunk in that step uses a carry, the states can come after the step's blocks, during its work. A kernel that copies awaits only
// what it reads.
func (l *pipeline) setLate() bool {
	if l.places == nil || l.last == 0 || l.g.Live > 0 || l.rows.every > 0 {
		return false
	}
	set := map[*ir.Value]bool{}
	for i, in := range l.body.Instrs {
		if l.first[i] {
			accesses(in, func(ref *ir.Value, store bool, _ *box) { set[memory(l.root, ref)] = set[memory(l.root, ref)] || store })
		}
	}
	early := map[int]bool{} // phases with a chunk in the first step
	for _, s := range l.active(0) {
		early[s.phase] = true
	}
	met := false
	for i, in := range l.body.Instrs {
		if early[l.phase[i]] && !l.first[i] {
			accesses(in, func(ref *ir.Value, _ bool, _ *box) { met = met || set[memory(l.root, ref)] })
		}
	}
	return len(set) > 0 && !met
}

// still reports whether an instruction touches only windows that do not move along the sequential axis: they are valid before the first
// chunk, in the same form for all phases.
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

// stores reports whether a reference is an output window that moves along the sequential axis: its stores must come from whole steps.
func (l *pipeline) stores(ref *ir.Value) bool {
	p := l.param[memory(l.root, ref)] - l.g.Tables - len(l.g.In)
	return l.isOut(ref) && l.moves(l.g.Out[p])
}

// down reports whether an index walks all chunks from the last to the first, as in a backward pass.
func (l *pipeline) down(x ir.Index) bool { return x.Down && x.Max == l.g.Dims[l.seq].Size-1 }

// moves reports whether a window shows different blocks at different steps.
func (l *pipeline) moves(w ir.Window) bool {
	return slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq })
}

// isOut reports whether a reference is an output window.
func (l *pipeline) isOut(ref *ir.Value) bool {
	i, ok := l.param[memory(l.root, ref)]
	first := l.g.Tables + len(l.g.In)
	return ok && i >= first && i < first+len(l.g.Out)
}

// hasDot reports whether an instruction, or its body, has a dot.
func hasDot(in *ir.Instr) bool {
	found := in.Op == ir.OpDot
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) { found = found || x.Op == ir.OpDot })
	}
	return found
}
