package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// delivery is an output window of a pipelined kernel that the kernel copies to HBM itself. A moving window has a buffer of two halves:
// the block of a step is copied while the next step runs, from the end of its own step (ahead), in a JAX file from the start of the next
// (writeBack). The last step copies its block in parts, each as soon as it is written. So does an output that does not move, such as a
// final state. The compiler's windows are copied whole, after the last step.
//
// For four steps of one block each, halves 0 and 1 of the buffer, and the last block in parts a and b:
//
//	step 0             write half 0, start 0
//	step 1             write half 1, start 1
//	step 2   await 0   write half 0, start 0
//	step 3   await 1   write a of half 1, start a, await half 0, write b, start b
//	end      await a, b
//
// So the end waits only for copies of the values made last.
type delivery struct {
	window     ir.Window
	axis       int // the dimension along which its blocks are counted; -1: it does not move
	param      int // of the old kernel
	to, buffer *ir.Value
	sem        [2]*ir.Value // of the halves
	parts      parts        // of the last block
}

// writesBack reports whether the kernel is to copy the blocks of an output itself, and along which dimension: outputs that follow the
// steps of the only program, and outputs that do not move (-1). Outputs that another kernel reads keep their windows (passed). x is the
// result of the old kernel.
//
// A copy takes one block number, so the window must be whole along all other dimensions. The delay must be the greatest, since writeBack
// counts from step l.last on, the first step with a block of that delay.
func (l *pipeline) writesBack(w ir.Window, x *ir.Value, delay int) (axis int, ok bool) {
	if last := l.opt.Lags[len(l.opt.Lags)-1]; !l.opt.Fetch || last == 0 || l.opt.Steps > 1 || l.g.Live > 0 || l.passed[x] {
		return 0, false
	}
	axis = slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq })
	for d := range w.Index {
		if d != axis && !l.whole(w, x.Type, d) {
			return 0, false
		}
	}
	return axis, axis < 0 || w.Index[axis].Table < 0 && w.Index[axis].Every < 2 && delay == l.last
}

// makeDeliveries adds the buffers of the windows that the kernel copies out.
func (l *pipeline) makeDeliveries(b *ir.Builder) {
	var all *ir.Value
	for _, x := range l.outputs {
		shape := slices.Clone(x.window.Block)
		if x.axis >= 0 {
			shape[0] *= 2
			for i := range x.sem {
				x.sem[i] = l.scratch(b, ir.Ref(ir.VMEM, ir.Sem))
			}
		}
		x.buffer = l.scratch(b, ir.Ref(ir.VMEM, x.to.Type.DType, shape...))
		x.parts = l.cutInParts(b, x.window.Block, x.to.Type.DType, &all)
		for _, s := range l.slots {
			l.params[seen{x.param, s.delay}] = x.buffer
		}
	}
}

// writeBack begins a step of a JAX file: it starts the copy of the block of the step before, and awaits the copy of the step two before,
// whose half this step writes. Conditions that no step can meet are left out: the compiler would keep their copies under a false
// predicate.
func (l *pipeline) writeBack(b *ir.Builder, step *ir.Value) {
	end := l.steps + l.last - 1
	for _, x := range []struct {
		op  ir.Op
		lag int
	}{{ir.OpDMAStart, 1}, {ir.OpDMAWait, 2}} {
		from := l.last + x.lag
		if from > end {
			continue
		}
		holds := b.Compare(ir.GE, step, number(b, from))
		half := b.And(b.Sub(step, number(b, x.lag)), number(b, 1))
		// A semaphore is a parameter, not an array element, so each half has its own code.
		for to := range 2 {
			// Only one step meets the condition, and its half is known.
			if from == end && (end-x.lag)%2 != to {
				continue
			}
			b.When(b.And(holds, b.Compare(ir.EQ, half, number(b, to))), func(b *ir.Builder) {
				for _, d := range l.outputs {
					d.copyBlock(b, x.op, step, x.lag, to)
				}
			})
		}
	}
}

// copyBlock starts or awaits the copy of the block of step-ago, if the window moves. The window's index already has its delay: with
// delay 1, step 3 and ago 1, it is block 3 - 1 - 1.
func (x *delivery) copyBlock(b *ir.Builder, op ir.Op, step *ir.Value, ago, half int) {
	if x.axis >= 0 {
		at := tiles.LookUp(b, x.window.Index[x.axis], step, -ago, nil)
		b.Append(op, []*ir.Value{x.buffer, x.to, x.sem[half], number(b, half), at}, ir.Attrs{Dims: x.window.Block}, nil)
	}
}

// delivering has the copies that start after each event of the last step.
type delivering struct {
	parts map[int][]lastPart
	held  int // the last event after which parts are copied well before the end; -1 if none
}

// lastPart is a part of the last block of a window.
type lastPart struct {
	*delivery
	part int
}

// early is the fraction of the last step before which a copy can still be hidden behind work.
const early = .8

// deliveringBy returns, for each event of the last step, the parts of which it is the last writer.
//
// Events 7, 9 and 12 store to rows 0-63, 64-127 and 32-95 of a block of two parts of 64 rows: event 12 is the last to write both, so
// both are copied after it.
func (l *pipeline) deliveringBy(events []event) delivering {
	out := delivering{map[int][]lastPart{}, -1}
	for _, x := range l.outputs {
		at := make([]int, len(x.parts.sems))
		for k, e := range events {
			accesses(l.body.Instrs[e.instr], func(ref *ir.Value, store bool, bx *box) {
				for part := range at {
					if store && l.writes(ref, x) && x.parts.touches(part, ref, bx) {
						at[part] = k
					}
				}
			})
		}
		for part, k := range at {
			out.parts[k] = append(out.parts[k], lastPart{x, part})
			if x.axis >= 0 && events[k].at < early {
				out.held = max(out.held, k)
			}
		}
	}
	return out
}

// writes reports whether a reference is to the output window x.
func (l *pipeline) writes(ref *ir.Value, x *delivery) bool {
	p, ok := l.param[memory(l.root, ref)]
	return ok && p == x.param
}

// after starts the copies of the parts that an event of the last step was the last to write. The compiler delays a copy to the next
// wait. So the wait for the block of the step before comes after the last parts that have time to be copied during work.
func (l *pipeline) after(b *ir.Builder, d delivering, event int) {
	for _, x := range d.parts[event] {
		l.copyPart(b, ir.OpDMAStart, x.delivery, x.part)
	}
	if event == d.held {
		l.awaitBefore(b)
	}
}

// awaitBefore waits for the block of the step before the last.
func (l *pipeline) awaitBefore(b *ir.Builder) {
	end := l.steps + l.last - 1
	for _, x := range l.outputs {
		if l.steps > 1 {
			x.copyBlock(b, ir.OpDMAWait, number(b, end), 1, (end-1)%2)
		}
	}
}

// results returns the instructions between a dot and a copied output that nothing else depends on.
//
//	dot -> scale -> round -> store to an output     all but the dot
//	dot -> scale -> round -> another dot            none, whatever else reads them
//
// In the last step they come directly after their dots (timeline): spread over the time slot they would delay the copy, the only thing
// left to hide.
func (l *pipeline) results() []bool {
	only := make([]bool, len(l.body.Instrs))
	users := make([][]int, len(only))
	for i, in := range l.body.Instrs {
		uses(in, func(v *ir.Value) {
			if j, ok := l.index[v]; ok {
				users[j] = append(users[j], i)
			}
		})
	}
	for i := len(only) - 1; i >= 0; i-- {
		in := l.body.Instrs[i]
		if in.Op == ir.OpStore {
			only[i] = slices.ContainsFunc(l.outputs, func(x *delivery) bool { return l.writes(in.Args[1], x) })
		} else {
			only[i] = len(users[i]) > 0 && !hasDot(in) && !slices.ContainsFunc(users[i], func(u int) bool { return !only[u] })
		}
	}
	return only
}

// copyPart starts or awaits the copy of a part of the last block.
//
// Copies count in units of the moved shape, here parts. With 4 parts a block, six blocks and a delay of 1, the last step is 6: part 2
// goes from 0*4 + 2 of the buffer, half 0, to 5*4 + 2 of the array.
func (l *pipeline) copyPart(b *ir.Builder, op ir.Op, x *delivery, part int) {
	from, to, n := number(b, part), number(b, part), len(x.parts.sems)
	if x.axis >= 0 {
		end := l.steps + l.last - 1
		from = number(b, end%2*n+part)
		to = x.parts.number(b, x.to.Type, x.window, x.axis, tiles.LookUp(b, x.window.Index[x.axis], number(b, end), 0, nil), part)
	}
	b.Append(op, []*ir.Value{x.buffer, x.to, x.parts.sems[part], from, to}, ir.Attrs{Dims: x.parts.block}, nil)
}

// drain ends the last step: it waits for all copies in flight.
func (l *pipeline) drain(b *ir.Builder, d delivering) {
	if d.held < 0 {
		l.awaitBefore(b)
	}
	for _, x := range l.outputs {
		for part := range x.parts.sems {
			l.copyPart(b, ir.OpDMAWait, x, part)
		}
	}
}

// number returns an i32 constant, the type in which steps are counted.
func number(b *ir.Builder, x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
