package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// analyse finds the phase of each instruction, and which are not placed at all but made where they
// are needed. Five answers, for instruction i:
//
//	phase[i]   the phase that it is in
//	light[i]   loads from input windows, and cheap work on them: it can wait for whoever needs it
//	free[i]    needs no memory at all: constants, casts, the number of the step
//	lazy[i]    made at each use and not placed: a load is cheaper than a place in a ring
//	first[i]   sets a carry before the first chunk, and is done in the first step alone
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
	// What moves rows through scratch (codegen/tpu, toScratch) stores and loads in one chunk's work.
	// If phases shared the scratch, those of two chunks would meet in it. A store that is held back
	// to a later phase pulls what feeds it along, so the phases are found anew until nothing moves.
	// Scratch belongs to one phase, the latest that uses it; the rings are the only memory between
	// phases.
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

// recurs says whether what is stored to a carry is made of what is loaded from it. A carry that does not recur holds nothing up: rows of a
// chunk that the next one needs pass in phase 0.
//
// Values are followed through memory by references: what is in scratch beside such a value is taken to be made of it.
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

// assign finds the phase of each instruction, at least floor, in two passes over the body. Forward:
// the earliest phase that it can be in, which is the latest of what it needs. Backward: what is
// better late moves to the first phase that needs it. Early is the rule since early work is what
// fills the time of the state's chain; late are loads, which would fill rings instead.
//
// Two phases, of which 1 is that of the state S:
//
//	                    earliest   is in
//	k = load K          0          0           phase 0 is the first that needs it
//	a = dot k, k        0          0           not light: it fills time, and passes in a ring
//	v = load V          0          1           light, and first needed in phase 1
//	s = load S          1          1           S is stored to as well: it carries state
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
	// Users are behind what they use, so their phases are settled when it is asked. What is free
	// has no phase and puts none on its operands: each of its users makes it anew.
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

// earliest finds the first phase that instruction i can be in, after what it needs, and whether
// it is light, free or first.
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
	// What takes a unit other than the vector ALU, or has a latency of many cycles, is not cheap.
	switch in.Op {
	// If they were light they would go to the phase that needs them, often that of the state, when
	// it is phase 0 that has time for them.
	case ir.OpDot, ir.OpTranspose, ir.OpTake, ir.OpReduceSum, ir.OpReduceMax, ir.OpExp, ir.OpExp2:
		l.light[i] = false
	}
	// A load of a window that is also stored to is a read of the state: it belongs to the state's
	// phase. So does what enters (Sched.Enter), whatever is made of it.
	if carried || enters || slices.Contains(l.opt.With, in.Task.Stage) {
		l.phase[i] = max(l.phase[i], state)
	}
	// The schedule's word on stages is for dots, which are what a phase is balanced by, and for
	// what follows the state. Vector work of a stage stays where its operands are.
	if hasDot(in) || l.phase[i] >= state && !carried {
		l.phase[i] = max(l.phase[i], stages[in.Task.Stage])
	}
	// A block of outputs is written out when its step ends. Chunks of a step that come from two
	// steps would be in two blocks: so a store waits for a phase whose lag is a whole number of
	// steps.
	// With Steps 2 and lags 0, 1, 2 a store of phase 1 goes to phase 2: in phase 1 a step has the
	// last chunk of the step before and the first of its own.
	if in.Op == ir.OpStore && l.stores(in.Args[1]) {
		for l.phase[i] < lastPhase && l.opt.Lags[l.phase[i]]%l.opt.Steps != 0 {
			l.phase[i]++
		}
	}
	// Left in the body its condition would cut the straight line of every step in two (2.21 for
	// 2.12 cycles on v6e). So it is in front of the first body alone (start). What copies blocks sets no state: in a kernel whose
	// buffers have two halves its condition is that of rows of two chunks: an even number.
	l.first[i] = in.Op == ir.OpWhen && !copies(in) && (l.atFirst(in.Args[0]) && l.still(in) || l.rows.begin(in.Args[0], l.seq))
}

// waits says whether an instruction is better done where it is needed: loads and cheap work on
// them; masks, which can not pass between phases; rows that are spread over tiles, so that the row
// alone passes; joined operands, whose parts pass and may pass anyway. In each case what it makes
// is larger than what it is made of, or costs less than a store and a load.
//
// Of joined operands the case is a part that is in several of them, or beside them: as parts it
// passes once. To take all joins so gained .3 to .7 % in the training step of KDA.
func (l *pipeline) waits(i int) bool {
	in := l.body.Instrs[i]
	mask := len(in.Results) == 1 && in.Result().Type.DType == ir.Bool
	return l.light[i] || mask || spreadsRow(in) || widens(in) || l.grows(i) || in.Op == ir.OpConcat
}

// spreadsRow says whether an instruction repeats one row in all rows of a tile, which a load does
// at no cost: it reads a row with a stride of zero.
func spreadsRow(in *ir.Instr) bool {
	if in.Op != ir.OpBroadcast || in.Result().Type.Rank() != 2 || in.Result().Type.Shape[0] < target.Sublanes {
		return false
	}
	row := in.Args[0].Type.Shape
	return len(row) == 1 || len(row) == 2 && row[0] == 1
}

// widens says whether an instruction takes a half of the words of a tile, which pass in half the
// space.
//
// The case is rows of bf16, tokens before heads: a word has two heads of a token, and its halves
// as float32 would be two tiles in rings for one.
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

// grows says whether an instruction makes a tile of one from a window and of spread rows alone,
// which take less to pass. The case is K times its decay: K is in its window anyway, the decay is a
// row for all tokens, and their product would be a tile of each head in a ring.
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

// findLazy finds what is best computed where it is needed: loads, which are cheap to repeat, and
// light work for one task only. A value that is placed once and used far behind occupies registers
// all the way between, and there are 64; the compiler would spill it to memory and load it again,
// which is what a load at the use costs in the first place. A load of what is stored to later must
// be read before that store; order sees to that for what is before it as built.
//
//	window   a load of an input's block: at each task, as often as there are tasks
//	carry    a load of the state: as well, if its users all are before the last store to it
//	single   light work of one task alone: it is done there and nowhere else
//
// In all three its users are in its own phase: for another, the value is in a ring.
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
			// So a load that only it reads is of one task as well, and chains are lazy as a whole.
			tasks[i] = tasks[users[i][0]]
		}
	}
}

// atFirst says whether a condition holds at the first chunk alone: the form in which Tile writes
// that a carry is set.
func (l *pipeline) atFirst(cond *ir.Value) bool {
	in := cond.Def
	if in == nil || in.Op != ir.OpCompare || in.Attrs.Cmp != ir.EQ {
		return false
	}
	id, zero := in.Args[0].Def, in.Args[1].Def
	return id != nil && zero != nil && id.Op == ir.OpProgramID && id.Attrs.Axis == l.seq && zero.Op == ir.OpConst && zero.Attrs.Value == 0
}

// setLate says whether carries are set in the second step. In a file the first step waits for all that it could read; where no phase that
// has a chunk in it meets a carry, states come behind the blocks of that step, beside its work. A kernel that copies awaits what it reads alone.
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

// still says whether an instruction touches only windows that do not move along the sequential
// axis: those are there before the first chunk, in the form in which all phases see them.
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

// stores says whether a reference is an output window that moves along the sequential axis: what is
// stored to it must come from whole steps.
func (l *pipeline) stores(ref *ir.Value) bool {
	p := l.param[memory(l.root, ref)] - l.g.Tables - len(l.g.In)
	return l.isOut(ref) && l.moves(l.g.Out[p])
}

// down says whether an index walks all chunks from the last to the first, as a backward pass does.
func (l *pipeline) down(x ir.Index) bool { return x.Down && x.Max == l.g.Dims[l.seq].Size-1 }

// moves says whether a window shows another block at another step.
func (l *pipeline) moves(w ir.Window) bool {
	return slices.ContainsFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq })
}

// isOut says whether a reference is an output window.
func (l *pipeline) isOut(ref *ir.Value) bool {
	i, ok := l.param[memory(l.root, ref)]
	first := l.g.Tables + len(l.g.In)
	return ok && i >= first && i < first+len(l.g.Out)
}

// hasDot says whether an instruction, or its body, multiplies.
func hasDot(in *ir.Instr) bool {
	found := in.Op == ir.OpDot
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) { found = found || x.Op == ir.OpDot })
	}
	return found
}
