package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Apply orders the body of every kernel that has a schedule (ir.Sched) and overlaps the phases of
// successive chunks. What carries state is in the phase of the state; dots of the stages that
// the schedule names, and what of them depends on the state, are in the phase it gives or later;
// everything else in the earliest phase that it can, except loads and cheap work on them, which
// wait until they are needed. Values pass from phase to phase through rings in scratch. The first
// and last steps, in which some phases have no chunk, get bodies of their own.
func Apply(m *ir.Module) (*ir.Module, error) { return pipelined(m, own, nil) }

// ApplyBy is Apply by schedules of the caller's, by the names of kernels, so that kernels that are
// tiled once can have one schedule after another. Kernels without one keep their order.
func ApplyBy(m *ir.Module, scheds map[string]*ir.Sched) (*ir.Module, error) {
	for _, in := range m.Body.Instrs {
		if in.Op != ir.OpKernel {
			continue
		}
		if err := scheds[in.Attrs.Grid.Name].Check(in.Attrs.Grid); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", in.Attrs.Grid.Name, err)
		}
	}
	return pipelined(m, func(g *ir.Grid) *ir.Sched { return scheds[g.Name] }, nil)
}

// own is the schedule that is in a kernel.
func own(g *ir.Grid) *ir.Sched { return g.Sched }

// Place is where an instruction of a pipelined kernel's step stands: in a phase of the step's chunk
// number Chunk, in a time slot.
type Place struct {
	Phase, Time, Chunk int
	Task               ir.Task // of the instruction as built, for which operands may have been computed anew or loaded
	At                 float64 // where it is in the time slot, from 0 to 1
}

// Places is Apply, and tells where each instruction in the steps' bodies stands.
func Places(m *ir.Module) (*ir.Module, map[*ir.Instr]Place, error) {
	places := map[*ir.Instr]Place{}
	out, err := pipelined(m, own, places)
	return out, places, err
}

// pipelined copies a module, with the kernels that have a schedule lowered. Order comes first, on
// the body of one chunk: what the phases then take apart keeps that order within each phase.
func pipelined(m *ir.Module, schedOf func(*ir.Grid) *ir.Sched, places map[*ir.Instr]Place) (*ir.Module, error) {
	between, wanted := passes.Handed(m), read(m)
	return passes.Transform(m, func(r *passes.Rewriter, in *ir.Instr, args []*ir.Value) ([]*ir.Value, bool) {
		if in.Op != ir.OpKernel || schedOf(in.Attrs.Grid) == nil {
			return nil, false
		}
		l := &pipeline{kernel: in, passed: between, read: wanted, places: places, opt: schedOf(in.Attrs.Grid), g: in.Attrs.Grid, body: &ir.Block{Params: in.Body.Params, Instrs: slices.Clone(in.Body.Instrs)}}
		order(l.body, l.opt)
		rs, err := l.lower(r.Builder, args)
		if err != nil {
			r.Failf("pipeline %s: %w", l.g.Name, err)
		}
		return rs, true
	})
}

// read are the values of a module that anything reads outside of bodies, its caller too.
func read(m *ir.Module) map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	for _, in := range m.Body.Instrs {
		uses(in, func(v *ir.Value) { out[v] = true })
	}
	for _, y := range m.Body.Yield {
		out[y] = true
	}
	return out
}

// pipeline lowers one kernel. Slices are by the number of an instruction in the ordered body.
type pipeline struct {
	kernel *ir.Instr // as it was
	// What kernels hand to each other. The compiler may leave it in vector memory, where a window reads it as it lies; a copy of the
	// kernel's own would be loads and stores of all of it, 33 bundles for 64 registers on v6e.
	passed map[*ir.Value]bool
	read   map[*ir.Value]bool // what anything reads
	kept   []int              // outputs of the new kernel, by their number in the old one
	opt    *ir.Sched
	g      *ir.Grid
	body   *ir.Block

	seq       int    // the sequential axis
	steps     int    // steps in which a phase has chunks
	slots     []slot // of a step
	last      int    // greatest delay of a slot: steps that the last phase needs longer than the first
	index     map[*ir.Value]int
	root      map[*ir.Value]*ir.Value
	param     map[*ir.Value]int // number of a parameter
	deps      [][]int           // earlier instructions that each needs
	phase     []int
	light     []bool // loads from windows and cheap work on them
	free      []bool // computed anew wherever it is needed
	lazy      []bool // computed where a task needs it, and again for another task
	first     []bool // sets a carry before the first chunk: done at the first step, so that no later body has to test for it
	late      bool   // they are set at the second step (setLate)
	rows      rows   // how batch rows follow one another
	rings     map[*ir.Value]*ring
	fetched   []*fetch
	awaited   []firstPart // what the first step has not yet waited for
	outputs   []*delivery
	ahead     *ahead              // where the kernel copies, or a table says how many steps run; not in a file, which has one function for the copies of all steps
	waitTimes map[int][]float64   // when the waits of an instruction stand that awaits several copies, in the last step
	unrolled  bool                // each step has a body of its own
	places    map[*ir.Instr]Place // where the instructions of steps stand, where a caller asks

	ng     *ir.Grid
	blk    *ir.Block
	params map[seen]*ir.Value // new parameters
}

// seen is an old parameter as a phase sees it: a window delayed by some steps. A phase that works
// on the chunk of two steps ago reads the block of two steps ago, so the new kernel has that
// operand once more, with a window whose index is shifted by two.
type seen struct {
	param, delay int
}

// ring holds a value of the last few chunks between two phases.
//
// Made in phase 0 and read in phase 2, lags 0 and 2, one chunk a step:
//
//	step       0    1    2    3    4
//	stored     [0]  [1]  [2]  [3]  [0]
//	read                 [0]  [1]  [2]
//
// Three places are in use at a time; a fourth makes their number a power of two (runs).
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

// lower makes the new kernel: phases of instructions, slots of a step, windows, rings, then the
// bodies. The sequential axis gets as many more steps as the last phase lags behind the first.
func (l *pipeline) lower(b *ir.Builder, args []*ir.Value) ([]*ir.Value, error) {
	l.seq = len(l.g.Dims) - 1
	l.analyse()
	l.cutSlots()
	l.late = l.setLate()
	if err := l.rows.find(l.opt); err != nil {
		return nil, err
	}
	l.ng = passes.CloneGrid(l.g)
	l.ng.Dims[l.seq].Size, l.ng.Sched, l.ng.Live = l.steps+l.last, nil, 0
	l.blk = &ir.Block{}
	kb := b.On(l.blk)
	kargs, err := l.windows(kb, args)
	if err != nil {
		return nil, err
	}
	l.unrolled = l.few()
	l.makeRings(kb)
	l.makeBuffers(kb)
	l.makeDeliveries(kb)
	if l.g.Live > 0 { // steps behind the last chunk that must run do nothing
		b.Stage("glue")
		live := b.Reshape(b.SliceAxis(args[l.g.Live-1], 0, 0, 1))
		kargs = append(kargs, b.Add(live, b.Const(ir.T(ir.I32), float64(l.last))))
		l.ng.Dims[l.seq].Bound = true
	}
	if l.g.Bounded() { // already, by the last operand
		kargs = append(kargs, args[len(args)-1])
	}
	if err := l.bodies(kb); err != nil {
		return nil, err
	}
	pieces(kb, l.ng, l.blk)
	rs, all := b.Append(ir.OpKernel, kargs, ir.Attrs{Grid: l.ng}, l.blk), make([]*ir.Value, len(l.g.Outs))
	for i, r := range rs {
		all[l.kept[i]] = r
	}
	return all, nil
}

// cutSlots finds the chunk that each phase works on in each time slot of a step: chunk t - lag,
// counted from the step's first. Where that is below zero it is a chunk of an earlier step: delay
// steps earlier, in which it has a number from 0 to Steps-1 again.
//
//	Steps 2, lag 1, slot 0:  chunk -1  ->  delay 1, chunk 1 of that step
func (l *pipeline) cutSlots() {
	l.steps = l.g.Dims[l.seq].Size / l.opt.Steps
	for t := range l.opt.Steps {
		for p, lag := range l.opt.Lags {
			s := slot{phase: p, time: t}
			if lag > t {
				s.delay = (lag - t + l.opt.Steps - 1) / l.opt.Steps
			}
			s.chunk = t - lag + s.delay*l.opt.Steps
			l.slots = append(l.slots, s)
			l.last = max(l.last, s.delay)
		}
	}
}

// active are the slots that have a chunk at a step: a slot of delay d begins d steps after the
// first, and has its last chunk d steps after the last.
//
//	3 steps of chunks, delays 0, 1 and 2:   0    0 1    0 1 2    1 2    2     for steps 0 to 4
func (l *pipeline) active(step int) []slot {
	return slices.DeleteFunc(slices.Clone(l.slots), func(s slot) bool { return step < s.delay || step >= l.steps+s.delay })
}

// bodies emits the kernel: one body for each run of steps in which the same slots have a chunk.
func (l *pipeline) bodies(b *ir.Builder) error {
	b.Stage("step")
	c := b.ProgramID(l.seq)
	var live *ir.Value // the chunks that must run
	if l.g.Live > 0 {
		live = b.Load(l.params[seen{l.g.Live - 1, 0}], nil, []int{0}, nil)
	}
	if len(l.fetched) > 0 && l.ahead == nil {
		b.Stage("fetch")
		chunks := live
		if chunks == nil {
			chunks = b.Const(ir.T(ir.I32), float64(l.steps))
		}
		l.fetch(b, c, chunks)
	}
	if len(l.outputs) > 0 && l.ahead == nil {
		l.writeBack(b, c)
	}
	var err error
	if l.rows.every > 0 { // in front of all bodies, whose straight lines no condition cuts so
		err = l.start(b, c, l.steps)
	}
	var all []run
	for lo, hi := 0, 0; lo < l.steps+l.last; lo = hi + 1 {
		for hi = lo; hi+1 < l.steps+l.last && slices.Equal(l.active(hi+1), l.active(lo)) && !l.alone(hi) && !l.alone(hi+1) && !l.unrolled; {
			hi++
		}
		all = append(all, l.runs(lo, hi)...)
	}
	switch {
	case l.ahead != nil:
		return errors.Join(err, l.ahead.write(b, all, c, live), b.Err())
	case live != nil:
		return errors.Join(err, l.bodiesUntil(b, all, c, live), b.Err())
	}
	if l.late {
		b.When(b.Compare(ir.EQ, c, number(b, 1)), func(b *ir.Builder) { err = l.start(b, c, 0) })
	}
	for _, r := range all {
		// A condition is control, which costs bundles in every step. Where nothing lags there are no first and last steps, and no turns of rings or of halves.
		if r.lo == 0 && r.hi == l.steps+l.last-1 && r.turns == 1 {
			return errors.Join(err, l.step(b, c, r, l.active(r.lo)))
		}
		b.Stage("step")
		b.When(r.holds(b, c), func(b *ir.Builder) {
			if err == nil {
				err = l.step(b, c, r, l.active(r.lo))
			}
		})
	}
	return errors.Join(err, b.Err())
}

// alone says whether a step shares its body with no other: the first, which awaits what it reads,
// and the last, which delivers what it writes.
func (l *pipeline) alone(step int) bool {
	return step == 0 && len(l.awaited) > 0 || step == l.steps+l.last-1 && len(l.outputs) > 0
}

// bodiesUntil emits the bodies of a file where live tells how many chunks must run: each has its whole condition. Elsewhere ahead writes them.
func (l *pipeline) bodiesUntil(b *ir.Builder, all []run, c, live *ir.Value) (err error) {
	for _, r := range all {
		for behind := range l.last + 1 {
			slots := l.activeBehind(r, behind)
			if err != nil || len(slots) == 0 {
				continue
			}
			b.When(b.And(r.holds(b, c), runsBehind(b, c, live, behind)), func(b *ir.Builder) { err = l.step(b, c, r, slots) })
			b.Stage("step")
		}
	}
	return err
}

// activeBehind are the slots that have a chunk at a step which is behind the last chunk by as many, none where a run has no such step.
func (l *pipeline) activeBehind(r run, behind int) []slot {
	if behind == 0 && r.lo >= l.steps || behind > 0 && r.hi == 0 {
		return nil
	}
	return slices.DeleteFunc(l.active(r.lo), func(s slot) bool { return s.delay < behind })
}

// runsBehind is the condition that a step is behind the last chunk by as many.
func runsBehind(b *ir.Builder, c, live *ir.Value, behind int) *ir.Value {
	if behind == 0 {
		return b.Compare(ir.LT, c, live)
	}
	return b.Compare(ir.EQ, c, b.Add(live, number(b, behind-1)))
}

// run is the steps from lo to hi that share a body: those whose remainder by turns is turn.
type run struct {
	lo, hi, turn, turns int
}

// runs divides the steps from lo to hi so that each body knows which places of the rings it uses:
// where a place depends on the number of the step, a compiler can not tell a load of one chunk from
// a store of another, and keeps their order. Bodies of other turns are copies of the code, so rings
// are powers of two: the turns of all rings then repeat with those of the largest.
//
//	steps 2 to 7, 4 turns:   2 and 6 share a body, 3 and 7 too; 4 and 5 have one each
func (l *pipeline) runs(lo, hi int) []run {
	turns := l.turns()
	var out []run
	for at := lo; at <= hi && at < lo+turns; at++ {
		r := run{lo: lo, hi: hi, turn: at % turns, turns: turns}
		// The only step of its turn: holds asks for it by number, in one comparison for three.
		if at+turns > hi {
			r.lo, r.hi = at, at
		}
		out = append(out, r)
	}
	return out
}

// turns are how many steps pass until the places of all rings repeat.
func (l *pipeline) turns() int {
	turns := 1
	if len(l.fetched)+len(l.outputs) > 0 {
		turns = 2 // the halves of the buffers
	}
	for _, r := range l.rings {
		turns = max(turns, r.mod)
	}
	return turns
}

// holds is the condition that step c belongs to the run.
// Turns are a power of two: c modulo turns is a mask, and no division by the scalar unit.
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

// makeRings finds the values that pass between phases and gives each a ring that holds it from its
// phase to the last that reads it. bf16 tiles are kept as u32 words of
// two rows, of which a reader takes the half that it wants.
func (l *pipeline) makeRings(b *ir.Builder) {
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
		// Places of a value that is read reach chunks later: its own, and those of the chunks
		// since.
		// Two chunks a step, reach 2: three places are needed, which are two steps of two.
		for mod*l.opt.Steps < reach[v]+1 {
			mod *= 2
		}
		shape := slices.Clone(v.Type.Shape)
		// Masks have no form in memory, so phase.go keeps what makes them in the phase that uses
		// them.
		if len(shape) != 2 || v.Type.DType == ir.Bool {
			b.Failf("a %s value made at %q passes between phases; only tiles of numbers can", v.Type, l.body.Instrs[l.index[v]].Where())
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
