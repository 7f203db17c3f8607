package pipeline

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// event is an instruction of a slot at a time of the step.
type event struct {
	at    float64
	slot  int
	instr int
	wait  int // of an instruction with several waits, the number of the wait to emit, from 1; 0: all
}

// step emits the body of a run of steps for some active slots. Each slot's instructions have their own times; sorting all by time
// interleaves the phases. Equal times keep the order of slots, so that the program does not depend on the sort.
//
//	phase 0 of chunk 2   a .17       b .50       c .83
//	phase 1 of chunk 1         d .25       e .75
//	written              a     d     b     e     c
func (l *pipeline) step(b *ir.Builder, c *ir.Value, r run, slots []slot) error {
	if r.lo == 0 && r.turn == 0 && !l.late && l.rows.every == 0 {
		if err := l.start(b, c, r.hi); err != nil {
			return err
		}
	}
	l.waitTimes = map[int][]float64{}
	var events []event
	var soon []bool
	end := r.hi == l.steps+l.last-1 && len(l.outputs) > 0
	if end {
		soon = l.results()
	}
	copiers := make([]*copier, len(slots))
	for k, s := range slots {
		copiers[k] = &copier{pipeline: l, slot: s, run: r, b: b, step: c, env: map[*ir.Value]*ir.Value{}}
		for i, at := range l.timeline(s.phase, soon) {
			switch {
			case at < 0 || l.never(s, l.body.Instrs[i]) || l.ahead.later(i):
			case len(l.waitTimes[i]) > 0:
				for j, at := range l.waitTimes[i] {
					events = append(events, event{float64(s.time) + at, k, i, j + 1})
				}
			default:
				events = append(events, event{at: float64(s.time) + at, slot: k, instr: i})
			}
		}
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
	var sends delivering
	if end {
		sends = l.deliveringBy(events)
	}
	more := l.ahead != nil // input copies start before output copies, which may wait
	for at, e := range events {
		if more && copies(l.body.Instrs[e.instr]) {
			l.ahead.end(b, c, r)
			more = false
		}
		if r.hi == 0 && l.g.Live > 0 && e.at > lastAwaited {
			l.awaitParts(b, len(l.awaited))
		}
		in, done := l.body.Instrs[e.instr], len(b.Block().Instrs)
		if e.wait > 0 {
			in = awaitOne(in, e.wait-1)
		}
		copiers[e.slot].lag = l.ahead.lag(e.instr)
		if err := copiers[e.slot].place(in); err != nil {
			return err
		}
		if l.places != nil {
			s := slots[e.slot]
			for _, x := range b.Block().Instrs[done:] {
				l.places[x] = Place{Phase: s.phase, Time: s.time, Chunk: s.chunk, Task: in.Task, At: e.at - float64(s.time)}
			}
		}
		if end {
			l.after(b, sends, at)
		}
	}
	// Parts that the step does not read are awaited too: step 1 starts the copy of block 2 into the same half.
	if r.hi == 0 {
		l.awaitParts(b, len(l.awaited))
	}
	if more {
		l.ahead.end(b, c, r)
	}
	if end {
		l.drain(b, sends)
	}
	return b.Err()
}

// timeline returns the time of each instruction of a phase in its time slot, 0 to 1; -1 if the phase does not place it. Instructions
// follow one another, each with a share of time in proportion to its weight. Stages on the side (Sched.Side) have their own sequence. No
// instruction is before its operands.
//
//	weights 2, 1, 1 from 0 to 1:              at .25, .625, .875: the middle of each share
//	the same from .5 (a state_delay of 50):   at .625, .8125, .9375
//
// A phase with half as much work is spread over the same time: it takes every third position of the straight line, not the first third.
// So the state's chain finds other work at every wait. Without a sequence of their own, stages of Sched.Side would run together in one
// place, where only one unit has work.
func (l *pipeline) timeline(phase int, soon []bool) []float64 {
	from, to := 0.0, 1.0
	if phase == l.opt.State() {
		from = float64(l.opt.Late) / 100
	}
	if l.opt.Ends != nil {
		to = float64(l.opt.Ends[phase]) / 100
	}
	n := len(l.body.Instrs)
	line := func(i int) int {
		if slices.Contains(l.opt.Side, l.body.Instrs[i].Task.Stage) {
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
	sent := l.sent()            // buffers that are copied out in the last step
	known := make([]float64, n) // time when all dependences of an instruction, placed or not, are done
	for i, in := range l.body.Instrs {
		for _, d := range l.deps[i] {
			known[i] = max(known[i], known[d])
		}
		if at[i] < 0 {
			continue
		}
		// Each sequence has shares of its own total, so a time may precede an operand in the other sequence; known corrects that.
		w, k := weight(in), line(i)
		at[i] = max(known[i], from+(to-from)*(done[k]+w/2)/max(total[k], 1))
		if soon != nil && soon[i] || in.Op == ir.OpStore && sent[memory(l.root, in.Args[1])] {
			at[i] = known[i]
		}
		if copies(in) {
			at[i] = 1
		}
		known[i] = at[i]
		done[k] += w
	}
	if l.ahead.ending() {
		l.drainEarly(at)
	}
	if l.opt.Grain > 0 && l.places == nil { // in a JAX file, phases are ordered elsewhere
		together(at, float64(l.opt.Grain)/10000)
	}
	return at
}

// together groups the work of a phase into pieces at least one grain (time quantum) from each other, each at the time of its first instruction. Times 1 and -1
// stay.
//
//	grain .25 of .125, .25, .375, .625, .75, 1:   at 0, .25, .25, .625, .625, 1
func together(at []float64, grain float64) {
	var order []int
	for i, t := range at {
		if t >= 0 && t < 1 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	now := 0.0
	for _, i := range order {
		if at[i] >= now+grain {
			now = at[i]
		}
		at[i] = now
	}
}

// copies reports whether an instruction starts or awaits copies under a condition. It ends a straight line, within which the compiler
// schedules, so these instructions come after all others.
func copies(in *ir.Instr) bool {
	found := false
	if in.Body != nil {
		in.Body.Walk(func(x *ir.Instr) { found = found || x.Op == ir.OpDMAStart || x.Op == ir.OpDMAWait })
	}
	return found
}

// start sets the carries at the first of the steps 0 to hi, and with back-to-back rows at the first step of each row. If hi is 0 it
// needs no condition. It precedes all other work of the step, since the state's phase may be in the first slot.
func (l *pipeline) start(b *ir.Builder, c *ir.Value, hi int) error {
	k := &copier{pipeline: l, slot: slot{delay: l.rows.behind}, b: b, step: c, env: map[*ir.Value]*ir.Value{}}
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

// weight estimates how many bundles an instruction fills, from the registers it works on. A dot pushes one register a bundle; the units
// for transposes, lanes and transcendental functions take one; the vector ALUs take four, stores two. Only the proportions matter:
// weights place instructions, and costs come from the compiler. The estimator's table of units (autotune) is finer; using it here
// changes every program by -.2 to +.5 %.
//
//	[64, 128] f32, 8 registers:   multiply 2, store 4, exp 8, as the left side of a dot 8
//	[64, 128] bf16, 4 registers:  multiply 1, store 2, exp 4, as the left side of a dot 4
func weight(in *ir.Instr) float64 {
	regs := func(t ir.Type) float64 {
		_, r, l := tiles.RowsLanes(t.Shape)
		per := target.RegisterRows(t.DType.Bytes())
		return float64((r + per - 1) / per * ((l + target.Lanes - 1) / target.Lanes))
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
	// Most of these only select registers and emit nothing.
	case ir.OpSlice, ir.OpConcat, ir.OpReshape:
		return 0
	}
	if len(in.Results) == 0 {
		return 1
	}
	return regs(in.Result().Type) / 4
}
