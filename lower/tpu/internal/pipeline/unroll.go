package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// fewSteps is how many steps a kernel may have that has a body for each. With five there is one body more than with turns: the first and the last are alone
// anyway.
const fewSteps = 5

// few says whether each step has a body of its own, in which the numbers of all blocks are constants: where one program has few steps, and the kernel copies
// what they read and write. A file has one function for the copies of all steps (places).
func (l *pipeline) few() bool {
	early := slices.ContainsFunc(l.fetched, func(f *fetch) bool { return f.seen.delay == 0 })
	return l.places == nil && l.g.Live == 0 && early && len(l.delivered) > 0 && l.steps > 1 && l.steps+l.last <= fewSteps
}

// unroll emits a body for each step. Conditions on the step and numbers of blocks are control, which nothing hides: 74 bundles a step on v6e, and here a third
// of that. Copies start before a condition that always holds, which the compiler does not know: in one line with the work they would start where the next wait
// stands.
//
//	if c == 1 { await the blocks of step 1; start those of step 2; if c >= 1 { the work of step 1 } }
func (l *pipeline) unroll(b *ir.Builder, c *ir.Value, turns int) error {
	var err error
	for s := range l.steps + l.last {
		b.When(b.Compare(ir.EQ, c, number(b, s)), func(b *ir.Builder) {
			b.Stage("fetch")
			holds := b.Compare(ir.GE, c, number(b, s))
			if s == 0 { // that c is not below 0 the compiler knows
				holds = b.Compare(ir.LE, c, number(b, s))
				l.copyParts(b, ir.OpDMAStart, l.awaited)
			} else {
				l.copiesOf(b, s)
			}
			b.When(holds, func(b *ir.Builder) {
				if s == 0 { // behind its own, which the body awaits: in one block the compiler puts these first
					l.copiesOf(b, s)
				}
				b.Stage("step")
				if err == nil {
					err = l.step(b, c, run{lo: s, hi: s, turn: s % turns, turns: turns}, l.active(s))
				}
			})
		})
		b.Stage("step")
	}
	return err
}

// copiesOf begins a step as fetch and deliver do: it awaits what the step reads, starts the copies of what the next one reads and of what the one before has
// written, and awaits what has to leave the place that it writes to.
func (l *pipeline) copiesOf(b *ir.Builder, step int) {
	come := func(op ir.Op, at int) {
		for _, f := range l.fetched {
			if d := f.seen.delay; at >= d && at < l.steps+d {
				b.Append(op, []*ir.Value{f.from, f.buffer, f.sem, f.block.At(b, number(b, at), 0, nil), number(b, at%2)}, ir.Attrs{Dims: f.window.Block}, nil)
			}
		}
	}
	leave := func(op ir.Op, at int) {
		for _, x := range l.delivered {
			if at >= l.last {
				x.copyBlock(b, op, number(b, at), 0, at%2)
			}
		}
	}
	if step > 0 {
		come(ir.OpDMAWait, step)
	}
	come(ir.OpDMAStart, step+1)
	leave(ir.OpDMAStart, step-1)
	leave(ir.OpDMAWait, step-2)
}

// semaphore makes one for a copy, or gives that of the others which are awaited with it, where each step has a body of its own, or a table numbers blocks: of
// the blocks of a step, and of the parts of the last block. When all of them have been awaited, all have ended, in whatever order. A kernel looks at each when
// it ends, for four bundles.
func (l *pipeline) semaphore(b *ir.Builder, shared **ir.Value) *ir.Value {
	switch {
	case shared == nil || !l.unrolled && l.g.Live == 0:
		return l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	case *shared == nil:
		*shared = l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
	}
	return *shared
}
