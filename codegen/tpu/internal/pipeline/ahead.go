package pipeline

import (
	"errors"
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// ahead writes the bodies of a kernel that copies by itself: two steps on. A step ends with the start of the copies of what the step after the next reads, into
// the half that it has read itself, and with that of what it has written. It begins with the wait for its own blocks, which have had all of the step before,
// and for what has to leave the half that it writes to.
//
//	step 0   start 0, start 1   await parts of 0 as they are read   work, start 2, send 0
//	step 1   await 1                                                work, start 3, send 1
//	step 2   await 2, await what step 0 sent                        work, start 4, send 2
//
// The compiler puts a copy that starts within a straight line where the next wait stands, or at its end. No wait stands within the work, so the addresses of the
// copies, 3.6 bundles each, are made beside it, where they had blocks of their own before it (fetch and deliver, which files still have): 111 bundles a step of
// packed prefill on v6e. Blocks of two steps are under way at once, and a wait can not tell copies of one semaphore apart: even and odd steps have their own.
//
// It writes kernels too where an operand says how many chunks run (Grid.Live), whether they copy or not. There the number of chunks, live, is a value, and steps
// behind the last chunk have bodies by how many they are behind.
type ahead struct {
	*pipeline
	live   *ir.Value      // the number of chunks, nil where it is known
	behind int            // steps behind the last chunk, of those whose bodies are written, where live says which that is
	before int            // the instruction by which a chunk awaits what the one before has sent, -1 where none does so in the step after the next
	sems   []int          // parameters: its semaphores
	blocks [][2]*ir.Value // those in their places, of even and odd chunks
}

// newAhead finds what a chunk sends by instructions of its own. Where another phase than the last sends it, a chunk awaits what the one before has sent where it did.
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

// going says whether steps are written that have chunks of the first phase, where live says which do; ending whether that is the last step of all.
func (a *ahead) going() bool  { return a != nil && a.live != nil && a.behind == 0 }
func (a *ahead) ending() bool { return a != nil && a.live != nil && a.behind > 0 && a.behind == a.last }

// later says whether an instruction has its waits in the step after the next: but for the last chunk, behind which there is none.
func (a *ahead) later(i int) bool { return a != nil && a.before == i && a.behind < a.last }

// sends says whether a parameter is the semaphore of what a chunk sends by itself, which has those of even and odd chunks in its place.
func (a *ahead) sends(param int) bool { return a != nil && slices.Contains(a.sems, param) }

// lag is whose semaphore an instruction has for what it sends or awaits: that of so many chunks before its own. It is 1 for what the chunk before has sent, and
// for what the last chunk sends, so that the wait for the former makes the compiler start the latter. The same semaphore is awaited once more at the end.
func (a *ahead) lag(i int) int {
	if a != nil && (a.before == i || a.ending()) {
		return 1
	}
	return 0
}

// sentBy is the semaphore by which a chunk sends something, in place of a parameter. All have their own: copies of one start in their order, and the state of a
// visit is there long before its output.
func (a *ahead) sentBy(param, chunk int) *ir.Value {
	return a.blocks[slices.Index(a.sems, param)][chunk&1]
}

// makeSemaphores makes those of even and odd chunks.
func (a *ahead) makeSemaphores(b *ir.Builder) {
	for range a.sems {
		a.blocks = append(a.blocks, [2]*ir.Value{a.scratch(b, ir.Ref(ir.VMEM, ir.Sem)), a.scratch(b, ir.Ref(ir.VMEM, ir.Sem))})
	}
}

// write writes the bodies of runs of steps. Where live says how many chunks run, phases follow those before them to the end of these: a step behind the last
// chunk has a body for each number of steps that it is behind. Bodies of one such number are under one condition, by which all others pass at once.
//
//	live 2, delays 0, 1 and 2:   steps 0 and 1 have all that have begun, step 2 (behind 1) has delays 1 and 2, step 3 (behind 2) has delay 2
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

// holds is the condition that a step belongs to a run, where it is one of those whose bodies are written: only what that leaves open is asked.
//
//	steps 1 to 30 of two turns, the last of all:   odd ones by c & 1 == 1, even ones by c >= 1 besides
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

// writeStep writes a step with its copies.
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

// first writes the first step, which starts the copies of its own blocks too; its work awaits them. Groups of copies are before conditions that always hold,
// which the compiler does not know: within a block it starts those of one semaphore in their order, and those of several in turn.
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

// await waits for the blocks of a step, in the order in which their copies start, and for what has to leave the half that it writes to.
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

// start starts the copies of the blocks that a step some steps on reads. Blocks of delay d are read in as many steps as there are chunks, from step d on: where all steps
// of a run start some, or none, nothing is asked.
//
// All look-ups come first: those that are under a condition the compiler makes elsewhere where that does not hold, for two instructions more each.
func (a *ahead) start(b *ir.Builder, c *ir.Value, r run, more int) {
	b.Stage("fetch")
	at := a.numbers(b, c, more)
	for d := a.last; d >= 0; d-- {
		list := a.ofDelay(d)
		var conditions []*ir.Value
		begins, ends := d-more, d-more+a.steps // the steps for which it has blocks
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

// end ends a step that is not the last: it starts the copies of what the step after the next reads, and sends the blocks that it has written.
func (a *ahead) end(b *ir.Builder, c *ir.Value, r run) {
	a.start(b, c, r, 2)
	if r.lo >= a.last && r.hi < a.steps+a.last-1 {
		b.Stage("copy")
		for _, x := range a.outputs {
			x.copyBlock(b, ir.OpDMAStart, c, 0, r.turn&1)
		}
	}
}

// awaitWritten waits for the blocks that the step two steps before has sent, the first of which is step last.
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

// awaitSent waits for what the chunk two steps before has sent, by the instruction by which the chunk of the step before would have awaited it at its end (before).
// A block below zero was none. Look-ups and comparisons come first, since none passes a wait.
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

// when does something under all of some conditions.
func when(b *ir.Builder, conditions []*ir.Value, do func(*ir.Builder)) {
	if len(conditions) == 0 {
		do(b)
	} else {
		b.When(all(b, conditions), do)
	}
}

// all holds where each of some conditions does.
func all(b *ir.Builder, conditions []*ir.Value) *ir.Value {
	x := conditions[0]
	for _, y := range conditions[1:] {
		x = b.And(x, y)
	}
	return x
}

// fewSteps is how many steps a kernel may have that has a body for each. With five there is one body more than with turns: the first and the last are alone
// anyway.
const fewSteps = 5

// few says whether each step has a body of its own, in which the numbers of all blocks are constants: where one program has few steps, and the kernel copies
// what they read and write. A file has one function for the copies of all steps (places).
func (l *pipeline) few() bool {
	early := slices.ContainsFunc(l.fetched, func(f *fetch) bool { return f.seen.delay == 0 })
	return l.places == nil && l.g.Live == 0 && early && len(l.outputs) > 0 && l.steps > 1 && l.steps+l.last <= fewSteps
}

// semaphore makes one for a copy, or gives that of the others which are awaited with it: of the blocks of a step, and of the parts of the last block. When all of
// them have been awaited, all have ended, in whatever order. A kernel looks at each when it ends, for four bundles.
func (l *pipeline) semaphore(b *ir.Builder, shared **ir.Value) *ir.Value {
	switch {
	case shared == nil || l.ahead == nil && l.g.Live == 0:
		return l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	case *shared == nil:
		*shared = l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	}
	return *shared
}
