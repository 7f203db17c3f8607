package pipeline

import (
	"errors"
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// ahead writes the bodies of a kernel that copies its blocks itself, two steps ahead. At its end, a step starts the copies for the step
// after the next, into the half of the buffer that it has read, and the copies of the blocks that it has written. At its start, it waits
// for its own blocks, in flight since the step before, and for the copy out of the half that it will write.
//
//	step 0   start 0, start 1   await parts of 0 as they are read   work, start 2, send 0
//	step 1   await 1                                                work, start 3, send 1
//	step 2   await 2, await the output of step 0                    work, start 4, send 2
//
// The compiler places a copy that starts in a straight line at the next wait, or at the end. The work has no wait, so the addresses of
// the copies, 3.6 bundles each, are computed during it. In blocks before the work (fetch and writeBack, as JAX files still have) they
// cost 111 bundles a step of packed prefill on v6e. Blocks of two steps are in flight at once, and a wait can not tell copies of one
// semaphore apart: even and odd steps have their own.
//
// It also writes kernels with Grid.Live, whether they copy or not: an operand, live, is the number of chunks to run. Steps after the
// last chunk have a body per number of steps that they are behind it.
type ahead struct {
	*pipeline
	live   *ir.Value      // the number of chunks; nil if constant
	behind int            // the bodies being written are this many steps after the last chunk
	before int            // the instruction in which a chunk awaits the copies of the chunk before; -1 if no wait moves to the step after the next
	sems   []int          // parameters: the semaphores of these copies
	blocks [][2]*ir.Value // the semaphores that replace them, of even and odd chunks
}

// newAhead finds copies that chunks send in instructions of the body. If their phase is not the last, their waits stay where they are.
func newAhead(l *pipeline) *ahead {
	a := &ahead{pipeline: l, before: -1}
	if len(l.fetched) == 0 || l.g.Live == 0 {
		return a
	}
	i := slices.IndexFunc(l.body.Instrs, func(in *ir.Instr) bool {
		x := onlyCopy(in)
		return len(awaited(in)) > 0 || x != nil && x.Op == ir.OpDMAStart
	})
	if i < 0 || slices.ContainsFunc(l.slots, func(s slot) bool { return s.phase == l.phase[i] && s.delay != l.last }) {
		return a
	}
	for _, x := range awaited(l.body.Instrs[i]) {
		a.before, a.sems = i, append(a.sems, l.param[x.Args[2]])
	}
	return a
}

// going reports whether the written steps have chunks of the first phase under Grid.Live; ending, whether they are the last step of all.
func (a *ahead) going() bool  { return a != nil && a.live != nil && a.behind == 0 }
func (a *ahead) ending() bool { return a != nil && a.live != nil && a.behind > 0 && a.behind == a.last }

// later reports whether the waits of an instruction move to the step after the next. Not for the last chunk: no step follows.
func (a *ahead) later(i int) bool { return a != nil && a.before == i && a.behind < a.last }

// sends reports whether a parameter is the semaphore of a copy that chunks send, which is replaced by one for even and one for odd
// chunks.
func (a *ahead) sends(param int) bool { return a != nil && slices.Contains(a.sems, param) }

// lag returns whose semaphore an instruction uses for copies it starts or awaits: the chunk's own (0) or the chunk's before (1). It is 1
// for waits on the chunk before, and for copies of the last chunk, so that these waits also make the compiler start those copies. The end
// awaits the same semaphore again.
func (a *ahead) lag(i int) int {
	if a != nil && (a.before == i || a.ending()) {
		return 1
	}
	return 0
}

// sentBy returns the semaphore that replaces a parameter for a chunk. Each parameter has its own pair: copies of one semaphore start in
// order, and the state of a varlen block is ready long before its output.
func (a *ahead) sentBy(param, chunk int) *ir.Value {
	return a.blocks[slices.Index(a.sems, param)][chunk&1]
}

// makeSemaphores makes the semaphores of even and odd chunks.
func (a *ahead) makeSemaphores(b *ir.Builder) {
	for range a.sems {
		a.blocks = append(a.blocks, [2]*ir.Value{a.scratch(b, ir.Ref(ir.VMEM, ir.Sem)), a.scratch(b, ir.Ref(ir.VMEM, ir.Sem))})
	}
}

// write writes the bodies of runs of steps. With Grid.Live, each phase continues to the last chunk, so steps after it have a body per
// number of steps behind. Bodies of one such number are under one condition, which all other steps skip at once.
//
//	live 2, delays 0, 1 and 2:   steps 0 and 1 have all slots with a chunk, step 2 (behind 1) has delays 1 and 2, step 3 (behind 2) has delay 2
func (a *ahead) write(b *ir.Builder, runs []run, c, live *ir.Value) (err error) {
	write := func(b *ir.Builder, active func(run) []slot) {
		for _, r := range runs {
			if slots := active(r); err == nil && len(slots) > 0 {
				b.Stage("step")
				b.When(a.holds(b, r, c), func(b *ir.Builder) { err = a.writeStep(b, c, r, slots) })
			}
		}
		b.Stage("step")
	}
	if a.live = live; live == nil {
		write(b, func(r run) []slot { return a.active(r.lo) })
		return err
	}
	for a.behind = range a.last + 1 {
		b.When(runsBehind(b, c, live, a.behind), func(b *ir.Builder) {
			write(b, func(r run) []slot { return a.activeBehind(r, a.behind) })
		})
	}
	return err
}

// holds emits the condition that a step is in a run, given that it is among the steps whose bodies are written: it tests only what
// remains open.
//
//	steps 1 to 30, the last of all, in two turns:   odd steps c & 1 == 1; even steps c & 1 == 0 and c >= 1
func (a *ahead) holds(b *ir.Builder, r run, c *ir.Value) *ir.Value {
	end := a.steps - 1 + a.last
	if a.live != nil {
		end = a.steps - 1 + a.behind
	}
	var conditions []*ir.Value
	if r.turns > 1 {
		conditions = append(conditions, b.Compare(ir.EQ, b.And(c, number(b, r.turns-1)), number(b, r.turn)))
	}
	if r.lo > r.turn {
		conditions = append(conditions, b.Compare(ir.GE, c, number(b, r.lo)))
	}
	if r.hi < end {
		conditions = append(conditions, b.Compare(ir.LE, c, number(b, r.hi)))
	}
	if r.lo == r.hi || len(conditions) == 0 {
		return r.holds(b, c)
	}
	return all(b, conditions)
}

// writeStep writes the body of a run with its copies.
func (a *ahead) writeStep(b *ir.Builder, c *ir.Value, r run, slots []slot) (err error) {
	work := func(b *ir.Builder) {
		b.Stage("step")
		err = errors.Join(err, a.step(b, c, r, slots))
	}
	b.Stage("fetch")
	switch {
	case r.hi > 0:
		err = a.await(b, c, r, slots)
		work(b)
	case len(a.awaited) > 0:
		a.first(b, c, r, work)
	default: // no window of delay 0 is fetched
		a.start(b, c, r, 1)
		work(b)
	}
	return err
}

// first writes the first step, which also starts the copies of its own blocks; its work awaits them. Groups of copies are separated by
// conditions that always hold, unknown to the compiler: within a block it starts copies of one semaphore in order, but alternates
// semaphores.
func (a *ahead) first(b *ir.Builder, c *ir.Value, r run, work func(*ir.Builder)) {
	next := func(b *ir.Builder) {
		b.When(b.Compare(ir.LE, c, number(b, 0)), func(b *ir.Builder) {
			a.start(b, c, r, 1)
			work(b)
		})
	}
	if a.live == nil {
		a.copyParts(b, ir.OpDMAStart, a.awaited)
		next(b)
		return
	}
	late := lastOperand(a.awaited)
	a.copyParts(b, ir.OpDMAStart, a.awaited[:late])
	b.When(b.Compare(ir.GE, a.live, number(b, 1)), func(b *ir.Builder) {
		a.copyParts(b, ir.OpDMAStart, a.awaited[late:])
		next(b)
	})
}

// await waits for the blocks of a step, in the order in which their copies start, and for copies out of the half that the step writes.
func (a *ahead) await(b *ir.Builder, c *ir.Value, r run, slots []slot) error {
	at := a.numbers(b, c, 0)
	for d := a.last; d >= 0; d-- {
		if slices.ContainsFunc(slots, func(s slot) bool { return s.delay == d }) {
			for _, f := range a.ofDelay(d) {
				f.copyBlock(b, ir.OpDMAWait, at(f), r.turn&1)
			}
		}
	}
	a.awaitWritten(b, c, r)
	return a.awaitSent(b, c, r, slots)
}

// start starts the copies of the blocks that the step c+more reads. Blocks of delay d are read from step d on, in as many steps as there
// are chunks. There is no condition if all steps of a run start copies, or none does.
//
// All look-ups come first: under a condition, the compiler would place them elsewhere when it does not hold, at two instructions each.
func (a *ahead) start(b *ir.Builder, c *ir.Value, r run, more int) {
	b.Stage("fetch")
	at := a.numbers(b, c, more)
	for d := a.last; d >= 0; d-- {
		list := a.ofDelay(d)
		var conditions []*ir.Value
		begins, ends := d-more, d-more+a.steps // the steps c at which it has blocks to start
		switch {
		case len(list) == 0 || r.hi < begins || a.live == nil && r.lo >= ends || a.behind > 0 && a.behind-1 >= d-more:
			continue
		case a.live == nil && r.hi >= ends:
			conditions = append(conditions, b.Compare(ir.LT, c, number(b, ends)))
		case a.going() && d < more:
			conditions = append(conditions, b.Compare(ir.LT, c, b.Sub(a.live, number(b, more-d))))
		}
		if r.lo < begins {
			conditions = append(conditions, b.Compare(ir.GE, c, number(b, begins)))
		}
		for _, f := range list {
			at(f)
		}
		when(b, conditions, func(b *ir.Builder) {
			for _, f := range list {
				f.copyBlock(b, ir.OpDMAStart, at(f), (r.turn+more)&1)
			}
		})
	}
}

// end ends a step that is not the last: it starts the copies for the step after the next, and copies out the blocks written.
func (a *ahead) end(b *ir.Builder, c *ir.Value, r run) {
	a.start(b, c, r, 2)
	if r.lo >= a.last && r.hi < a.steps+a.last-1 {
		b.Stage("copy")
		for _, x := range a.outputs {
			x.copyBlock(b, ir.OpDMAStart, c, 0, r.turn&1)
		}
	}
}

// awaitWritten waits for the blocks that step c-2 copied out; the first step that copies out is step a.last.
func (a *ahead) awaitWritten(b *ir.Builder, c *ir.Value, r run) {
	first := a.last + 2
	if len(a.outputs) == 0 || r.hi < first {
		return
	}
	var conditions []*ir.Value
	if r.lo < first {
		conditions = append(conditions, b.Compare(ir.GE, c, number(b, first)))
	}
	when(b, conditions, func(b *ir.Builder) {
		for _, x := range a.outputs {
			x.copyBlock(b, ir.OpDMAWait, c, 2, r.turn&1)
		}
	})
}

// awaitSent waits for the copies of the chunk two steps before, which the chunk of the step before would have awaited at its end
// (a.before). A negative block number means no copy. Look-ups and comparisons come first, since no load can move across a wait.
func (a *ahead) awaitSent(b *ir.Builder, c *ir.Value, r run, slots []slot) error {
	if a.before < 0 || r.hi < a.last+2 {
		return nil
	}
	b.Stage("copy")
	in := a.body.Instrs[a.before]
	k := &copier{pipeline: a.pipeline, run: r, b: b, step: b.Sub(c, number(b, 1)), env: map[*ir.Value]*ir.Value{}}
	k.slot = slots[slices.IndexFunc(slots, func(s slot) bool { return s.phase == a.phase[a.before] })]
	begun, err := k.value(in.Args[0])
	if err == nil {
		err = k.outer(in)
	}
	emit := func(waits bool) {
		for _, x := range in.Body.Instrs {
			if err == nil && (x.Op == ir.OpWhen) == waits {
				err = k.emit(b, x)
			}
		}
	}
	if emit(false); err != nil {
		return err
	}
	least := b.Select(begun, number(b, 0), number(b, math.MaxInt32))
	for _, x := range in.Body.Instrs {
		if x.Op == ir.OpWhen {
			k.env[x.Args[0]] = b.Compare(ir.GE, k.env[x.Args[0].Def.Args[0]], least)
		}
	}
	emit(true)
	return err
}

// when emits do under the conjunction of conditions; unconditionally if there are none.
func when(b *ir.Builder, conditions []*ir.Value, do func(*ir.Builder)) {
	if len(conditions) == 0 {
		do(b)
	} else {
		b.When(all(b, conditions), do)
	}
}

// all emits the conjunction of conditions, at least one.
func all(b *ir.Builder, conditions []*ir.Value) *ir.Value {
	x := conditions[0]
	for _, y := range conditions[1:] {
		x = b.And(x, y)
	}
	return x
}

// fewSteps is the most steps of a kernel that has a body per step. With five steps that is one body more than with turns, since the
// first and the last step have their own anyway.
const fewSteps = 5

// few reports whether each step has its own body with constant block numbers: one program has few steps, and the kernel copies its
// inputs and outputs. A JAX file has one function for the copies of all steps (places), so never there.
func (l *pipeline) few() bool {
	early := slices.ContainsFunc(l.fetched, func(f *fetch) bool { return f.seen.delay == 0 })
	return l.places == nil && l.g.Live == 0 && early && len(l.outputs) > 0 && l.steps > 1 && l.steps+l.last <= fewSteps
}

// semaphore returns a semaphore for a copy: *shared, made on first use, or a new one if shared is nil, and in JAX files without
// Grid.Live. Copies that are awaited together share one; once all waits are done, all have ended, in any order. A kernel tests each
// semaphore at its end, 4 bundles each.
func (l *pipeline) semaphore(b *ir.Builder, shared **ir.Value) *ir.Value {
	switch {
	case shared == nil || l.ahead == nil && l.g.Live == 0:
		return l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	case *shared == nil:
		*shared = l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	}
	return *shared
}
