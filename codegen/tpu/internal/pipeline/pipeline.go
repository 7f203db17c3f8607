package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// Apply returns a module in which every kernel that has a schedule (ir.Sched) is ordered and pipelined. Instructions that carry state
// are in the state's phase. Dots of the stages that the schedule names, and state-dependent work of these stages, are in the named phase
// or later. All other work is in the earliest possible phase, except loads and cheap work on them, which wait until they are needed.
// Values pass between phases through rings in scratch. The first and last steps, in which some phases have no chunk, get their own
// bodies.
func Apply(m *ir.Module) (*ir.Module, error) { return pipelined(m, own, nil) }

// ApplyBy is Apply with schedules by kernel name instead of the kernels' own. A kernel without an entry keeps its order. It errs if a
// schedule does not fit its kernel.
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

// own returns the kernel's own schedule.
func own(g *ir.Grid) *ir.Sched { return g.Sched }

// Place is the position of an instruction in a step of a pipelined kernel: a phase, a time slot, and the number of the chunk in its
// step.
type Place struct {
	Phase, Time, Chunk int
	Task               ir.Task // of the instruction as built; its operands may have been computed or loaded again under it
	At                 float64 // position in the time slot, from 0 to 1
}

// Places is Apply, and also returns the place of each instruction in the steps' bodies.
func Places(m *ir.Module) (*ir.Module, map[*ir.Instr]Place, error) {
	places := map[*ir.Instr]Place{}
	out, err := pipelined(m, own, places)
	return out, places, err
}

// pipelined copies a module and lowers the kernels that have a schedule. The body of one chunk is ordered first; each phase keeps that
// order.
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

// read returns the values that the module's instructions or its caller read.
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

// pipeline lowers one kernel. Its slices are indexed by instruction number in the ordered body.
type pipeline struct {
	kernel *ir.Instr // the kernel before the pass
	// Values that one kernel passes to another. The compiler may leave them in VMEM, where a window reads them in place. A copy by the
	// kernel would load and store all of it: 33 bundles for 64 registers on v6e.
	passed map[*ir.Value]bool
	read   map[*ir.Value]bool // values that the module or its caller reads
	kept   []int              // outputs of the new kernel, by their number in the old kernel
	opt    *ir.Sched
	g      *ir.Grid
	body   *ir.Block

	seq       int    // the sequential axis
	steps     int    // steps in which a phase has chunks
	slots     []slot // of a step
	last      int    // greatest delay of a slot: steps from the first phase to the last
	index     map[*ir.Value]int
	root      map[*ir.Value]*ir.Value
	param     map[*ir.Value]int // number of a parameter
	deps      [][]int           // earlier instructions that each must follow
	phase     []int
	light     []bool // loads from windows and cheap work on them
	free      []bool // made again at each use
	lazy      []bool // made again for each task that uses it
	first     []bool // sets a carry before the first chunk: done in the first step, so later bodies need no test
	late      bool   // carries are set in the second step (setLate)
	rows      rows   // how batch rows follow one another
	rings     map[*ir.Value]*ring
	fetched   []*fetch
	awaited   []firstPart // parts that the first step has not yet waited for
	outputs   []*delivery
	ahead     *ahead              // for kernels that copy, or with Grid.Live; nil in a JAX file: it has one function for all copies
	waitTimes map[int][]float64   // in the last step, the times of the waits of an instruction that awaits several copies
	unrolled  bool                // each step has a body of its own
	places    map[*ir.Instr]Place // the places of the steps' instructions, if a caller wants them

	ng     *ir.Grid
	blk    *ir.Block
	params map[seen]*ir.Value // new parameters
}

// seen is an old parameter as one phase sees it: a window delayed by some steps. A phase that works on the chunk of two steps ago reads
// the block of two steps ago. So the new kernel has a second window of that operand, whose index is shifted by two.
type seen struct {
	param, delay int
}

// ring holds a value of the last chunks between two phases.
//
// Made in phase 0 and read in phase 2, lags 0 and 2, one chunk a step:
//
//	step       0    1    2    3    4
//	stored     [0]  [1]  [2]  [3]  [0]
//	read                 [0]  [1]  [2]
//
// Three buffer slots are in use at a time; a fourth makes the number a power of two (runs).
type ring struct {
	ref   *ir.Value
	mod   int  // steps after which a buffer slot is reused; a power of two
	words bool // bf16 rows are stored as u32 words
}

// slot is one phase's work in one time slot of a step.
type slot struct {
	phase, time  int
	delay, chunk int // the chunk is number chunk of the step delay steps earlier
}

// lower makes the new kernel: phases of instructions, slots of a step, windows, rings, then the bodies. The sequential axis gets l.last
// more steps, the lag of the last phase.
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
	if l.g.Live > 0 { // steps after the last chunk that must run do nothing
		b.Stage("glue")
		live := args[len(args)-1]
		if !l.g.Bounded() {
			live = b.Reshape(b.SliceAxis(args[l.g.Live-1], 0, 0, 1))
		}
		kargs = append(kargs, b.Add(live, b.Const(ir.T(ir.I32), float64(l.last))))
		l.ng.Dims[l.seq].Bound = true
	} else if l.g.Bounded() { // the last operand already is the bound
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

// cutSlots computes the chunk of each phase in each time slot of a step: chunk t - lag, counted from the first chunk of the step. A
// negative number is a chunk of an earlier step, delay steps before, where its number is again 0 to Steps-1.
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

// active returns the slots that have a chunk at a step: a slot of delay d begins d steps after the first, and has its last chunk d steps
// after the last.
//
//	3 steps of chunks, delays 0, 1 and 2:   0    0 1    0 1 2    1 2    2     for steps 0 to 4
func (l *pipeline) active(step int) []slot {
	return slices.DeleteFunc(slices.Clone(l.slots), func(s slot) bool { return step < s.delay || step >= l.steps+s.delay })
}

// bodies emits the kernel: one body for each run of steps in which the same slots have a chunk.
func (l *pipeline) bodies(b *ir.Builder) error {
	b.Stage("step")
	c := b.ProgramID(l.seq)
	var live *ir.Value // the number of chunks that must run
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
	if l.rows.every > 0 { // before all bodies, so that no condition splits their straight lines
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
		// A condition costs control bundles in every step. If nothing lags, there are no first and last steps, and one turn: no
		// condition.
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

// alone reports whether a step has its own body: the first, which awaits the blocks it reads, and the last, which writes its blocks
// back.
func (l *pipeline) alone(step int) bool {
	return step == 0 && len(l.awaited) > 0 || step == l.steps+l.last-1 && len(l.outputs) > 0
}

// bodiesUntil emits the bodies of a JAX file in which live is the number of chunks to run: each has its whole condition. Other kernels
// use ahead.
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

// activeBehind returns the slots that have a chunk at a step that is behind steps after the last chunk; none if the run has no such
// step.
func (l *pipeline) activeBehind(r run, behind int) []slot {
	if behind == 0 && r.lo >= l.steps || behind > 0 && r.hi == 0 {
		return nil
	}
	return slices.DeleteFunc(l.active(r.lo), func(s slot) bool { return s.delay < behind })
}

// runsBehind emits the condition that step c is behind steps after the last chunk; behind 0 means a step with a new chunk.
func runsBehind(b *ir.Builder, c, live *ir.Value, behind int) *ir.Value {
	if behind == 0 {
		return b.Compare(ir.LT, c, live)
	}
	return b.Compare(ir.EQ, c, b.Add(live, number(b, behind-1)))
}

// run is a set of steps that share a body: the steps s from lo to hi with s % turns == turn.
type run struct {
	lo, hi, turn, turns int
}

// runs splits the steps lo to hi so that each body has constant ring positions. If a position depended on the step number, the compiler
// could not tell a load of one chunk from a store of another, and would keep their order. Other turns are copies of the code. Ring sizes
// are powers of two, so that all rings repeat with the largest.
//
//	steps 2 to 7, 4 turns:   2 and 6 share a body, 3 and 7 too; 4 and 5 have one each
func (l *pipeline) runs(lo, hi int) []run {
	turns := l.turns()
	var out []run
	for at := lo; at <= hi && at < lo+turns; at++ {
		r := run{lo: lo, hi: hi, turn: at % turns, turns: turns}
		// The only step of its turn: one comparison by number instead of three.
		if at+turns > hi {
			r.lo, r.hi = at, at
		}
		out = append(out, r)
	}
	return out
}

// turns returns the number of steps after which the positions of all rings repeat.
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

// holds emits the condition that step c belongs to the run. turns is a power of two, so c modulo turns is a mask, without a division.
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

// makeRings gives each value that passes between phases a ring, long enough for the last phase that reads it. bf16 tiles are stored as
// u32 words of two rows; a reader takes the half it needs.
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
		// Chunks between the store and the last load, and one more. With two chunks a step and reach 2, three positions are needed: two
		// steps of two.
		for mod*l.opt.Steps < reach[v]+1 {
			mod *= 2
		}
		shape := slices.Clone(v.Type.Shape)
		// Masks have no form in memory; phase.go keeps them in the phase that uses them.
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
