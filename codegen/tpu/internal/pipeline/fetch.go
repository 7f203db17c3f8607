package pipeline

import (
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
)

// fetch is an input window of a pipelined kernel that is read from a buffer of two halves. While a step reads one half, the kernel
// copies the block of the next step into the other, so a window costs no control except its copy.
type fetch struct {
	window       ir.Window
	axis         int // the dimension along which its blocks are counted
	block        tiles.Numbering
	seen         seen
	from, buffer *ir.Value
	sem          [2]*ir.Value // of the halves; in a JAX file one for both
	parts        parts        // of the first block, if the first step awaits it in parts
}

// fetches reports whether the kernel is to copy the blocks of an input itself, and along which dimension. With Grid.Live these are
// blocks that a table or the program numbers, else blocks that follow the steps of the only program. Inputs that another kernel makes
// keep their windows (passed). x is the operand of the kernel before the pass.
func (l *pipeline) fetches(w ir.Window, x *ir.Value) (axis int, ok bool) {
	if last := l.opt.Lags[len(l.opt.Lags)-1]; !l.opt.Fetch || last == 0 || l.opt.Steps > 1 || l.passed[x] {
		return 0, false
	}
	looked := l.g.Live > 0
	axis = slices.IndexFunc(w.Index, func(x ir.Index) bool { return x.Axis == l.seq && x.Every < 2 && (x.Table >= 0) == looked })
	for d, i := range w.Index {
		if programs := looked && i.Axis >= 0 && i.Axis != l.seq && i.Table < 0; d != axis && !programs && !l.whole(w, x.Type, d) {
			return 0, false
		}
	}
	return axis, axis >= 0
}

// whole reports whether a window shows all of dimension d at each point.
func (l *pipeline) whole(w ir.Window, t ir.Type, d int) bool {
	x := w.Index[d]
	return x.Table < 0 && (x.Axis < 0 && x.Const == 0 || x.Axis >= 0 && l.g.Dims[x.Axis].Size == 1) && w.Block[d] == t.Shape[d]
}

// makeBuffers adds the buffers of the windows that the kernel copies in.
func (l *pipeline) makeBuffers(b *ir.Builder) {
	// One semaphore for all copies awaited together: the blocks of a step, per half; in a JAX file the blocks of a delay.
	shared := map[int]*ir.Value{}
	semaphore := func(of int) *ir.Value {
		x := shared[of]
		sem := l.semaphore(b, &x)
		shared[of] = x
		return sem
	}
	for _, f := range l.fetched {
		shape := slices.Clone(f.window.Block)
		shape[0] *= 2
		f.buffer = l.scratch(b, ir.Ref(ir.VMEM, f.from.Type.DType, shape...))
		if l.ahead != nil {
			f.sem = [2]*ir.Value{semaphore(0), semaphore(1)}
		} else {
			f.sem[0] = semaphore(f.seen.delay)
		}
		l.params[f.seen] = f.buffer
		switch {
		case f.seen.delay > 0:
		case l.g.Live == 0:
			f.parts = l.cutInParts(b, f.window.Block, f.from.Type.DType, nil)
		case l.places == nil: // a JAX file has one function for the copies of all steps
			f.parts = parts{block: f.window.Block, sems: make([]*ir.Value, 1)}
		}
	}
	if l.g.Live > 0 {
		l.awaited = l.firstBlocks(b)
	} else {
		l.awaited = l.firstParts()
	}
}

// firstPart is a part of the first block of a window.
type firstPart struct {
	*fetch
	part int
}

// firstParts returns the parts of all first blocks in the order of their copies: blocks of one part, which are small, then one part of
// each other block in turn.
//
//	K and V of two parts, gates of one:   gates, K 0, V 0, K 1, V 1
func (l *pipeline) firstParts() (list []firstPart) {
	for part, more := 0, true; more; part++ {
		more = false
		for _, f := range l.fetched {
			if part < len(f.parts.sems) {
				list, more = append(list, firstPart{f, part}), true
			}
		}
	}
	several := func(p firstPart) int { return min(len(p.parts.sems), 2) }
	slices.SortStableFunc(list, func(x, y firstPart) int { return several(x) - several(y) })
	return list
}

func (p firstPart) sem() *ir.Value { return p.parts.sems[p.part] }

// firstBlocks returns the first blocks with Grid.Live, whole, in the order in which their operands are first read. The blocks of the
// operand that is read last are awaited separately (lastAwaited), all others at once.
//
//	gates, q and k of four varlen blocks, one semaphore;   v of the four, another
func (l *pipeline) firstBlocks(b *ir.Builder) (list []firstPart) {
	for _, f := range l.fetched {
		if len(f.parts.sems) > 0 {
			list = append(list, firstPart{f, 0})
		}
	}
	read := l.firstReads()
	slices.SortStableFunc(list, func(x, y firstPart) int { return read[x.from] - read[y.from] })
	last := lastOperand(list)
	var early, late *ir.Value
	for i, p := range list {
		shared := &early
		if i >= last {
			shared = &late
		}
		p.parts.sems[0] = l.semaphore(b, shared)
	}
	return list
}

// lastOperand returns the index in list of the first block of the last operand.
func lastOperand(list []firstPart) int {
	return slices.IndexFunc(list, func(p firstPart) bool { return p.from == list[len(list)-1].from })
}

// lastAwaited is the fraction of the first step after which it awaits the last operand under Grid.Live. A wait drains the MXU; directly
// before the first read of the operand it costs 540 cycles of v6e. Up to .12 it precedes the work that would hide it, and costs as much;
// from .2 to .5 it costs 150.
const lastAwaited = .25

// firstReads returns the first instruction that reads a block of each operand.
func (l *pipeline) firstReads() map[*ir.Value]int {
	first := map[*ir.Value]int{}
	for i, in := range l.body.Instrs {
		accesses(in, func(ref *ir.Value, _ bool, _ *box) {
			for _, f := range l.fetched {
				if at, ok := l.param[memory(l.root, ref)]; ok && f.seen.param == at {
					if _, known := first[f.from]; !known {
						first[f.from] = i
					}
				}
			}
		})
	}
	return first
}

// copyParts starts or awaits the copies of parts of first blocks.
func (l *pipeline) copyParts(b *ir.Builder, op ir.Op, list []firstPart) {
	var at func(*fetch) *ir.Value
	for _, p := range list {
		var from *ir.Value
		if l.g.Live > 0 {
			if at == nil {
				at = l.numbers(b, number(b, 0), 0)
			}
			from = at(p.fetch)
		} else {
			block := tiles.LookUp(b, p.window.Index[p.axis], number(b, 0), 0, nil)
			from = p.parts.number(b, p.from.Type, p.window, p.axis, block, p.part)
		}
		b.Append(op, []*ir.Value{p.from, p.buffer, p.sem(), from, number(b, p.part)}, ir.Attrs{Dims: p.parts.block}, nil)
	}
}

// await waits, in the first step, for the parts that an instruction is the first to read, and for the parts before them: copies end in
// the order in which they start, and each wait keeps the compiler from moving work across it.
//
// One wait per part stalls more: on v6e T 1024 rose from 2.40 to 2.46 cycles, since the wait for beta was between products and decay.
// With all earlier parts awaited too it is 2.37.
func (k *copier) await(b *ir.Builder, in *ir.Instr) {
	if k.run.hi > 0 || k.slot.delay > 0 {
		return
	}
	need := 0
	accesses(in, func(ref *ir.Value, _ bool, bx *box) {
		at, ok := k.param[memory(k.root, ref)]
		for i, p := range k.awaited {
			if ok && p.seen.param == at && p.parts.touches(p.part, ref, bx) {
				need = i + 1
			}
		}
	})
	for need > 0 && need < len(k.awaited) && k.awaited[need].sem() == k.awaited[need-1].sem() {
		need++ // a wait can not tell which of several copies has ended
	}
	k.awaitParts(b, need)
}

// awaitParts waits for the next n parts.
func (l *pipeline) awaitParts(b *ir.Builder, n int) {
	l.copyParts(b, ir.OpDMAWait, l.awaited[:n])
	l.awaited = l.awaited[n:]
}

// fetch begins a step of a JAX file, before its body: the compiler would move copies that start in a straight line to its end, where
// they are awaited. Other kernels start copies at the end of a step (ahead). fetch waits for the blocks of the step and starts the
// copies of the next step. A window of delay d has blocks in steps d to live + d - 1; if d is 0, no step precedes its first copy. The
// first step waits in its body, for each part where it is first read; the compiler's windows would wait for all first blocks.
//
//	step 0 of delays 0 and 1:  start 0 of delay 0, in parts; start 0 of delay 1; start 1 of delay 0
//	step 1:                    wait for 0 of delay 1; wait for 1 of delay 0 and start 1 of delay 1; start 2 of delay 0
func (l *pipeline) fetch(b *ir.Builder, step, live *ir.Value) {
	most, inParts := 0, len(l.awaited) > 0
	for _, f := range l.fetched {
		most = max(most, f.seen.delay)
	}
	// Steps under one condition, with windows of delays 0 and 1:
	//
	//	d = 1    steps 1 to live       await delay 1
	//	d = 0    steps 0 to live - 1   await delay 0   start delay 1 of the next step
	//	d = -1   steps 0 to live - 2                   start delay 0 of the next step
	//
	// d descends, so that per delay the wait for one block precedes the start of the next: both use one semaphore, and a wait can not
	// tell them apart. Waits for delay d are at the same steps as starts for delay d + 1.
	for d := most; d >= -1; d-- {
		if d == 0 {
			first := b.And(b.Compare(ir.EQ, step, number(b, 0)), b.Compare(ir.GT, live, number(b, 0)))
			b.When(first, func(b *ir.Builder) {
				if inParts {
					l.copyParts(b, ir.OpDMAStart, l.awaited)
				} else {
					l.copyBlocks(b, ir.OpDMAStart, step, 0, 0)
				}
			})
		}
		holds := b.Compare(ir.LT, step, b.Add(live, number(b, d)))
		if d > 0 {
			holds = b.And(holds, b.Compare(ir.GE, step, number(b, d)))
		}
		start := func(b *ir.Builder) { l.copyBlocks(b, ir.OpDMAStart, step, 1, d+1) }
		apart := d == 0 && inParts // the first step waits in its body
		if apart && l.steps > 1 {
			b.When(b.And(holds, b.Compare(ir.GT, step, number(b, 0))), func(b *ir.Builder) { l.copyBlocks(b, ir.OpDMAWait, step, 0, d) })
		}
		b.When(holds, func(b *ir.Builder) {
			if !apart {
				l.copyBlocks(b, ir.OpDMAWait, step, 0, d)
			}
			if l.places == nil {
				start(b)
			}
		})
		if l.places != nil { // in a JAX file a function for the copies of a delay either starts or awaits
			b.When(holds, start)
		}
	}
}

// copyBlocks starts or awaits the copies of step+more, for the windows of one delay. Steps of one parity use one half: while step 4
// reads half 0, the block of step 5 is copied to half 1.
func (l *pipeline) copyBlocks(b *ir.Builder, op ir.Op, step *ir.Value, more, delay int) {
	list := l.ofDelay(delay)
	if len(list) == 0 {
		return
	}
	at, of := l.numbers(b, step, more), step
	if l.places == nil || delay == 0 {
		of = b.Add(step, number(b, more))
	} else {
		// In a JAX file the half follows the step in which the block was new, as in rings, so that start and wait differ only in that
		// step.
		if more != delay {
			of = b.Add(step, number(b, more-delay))
		}
		at = l.numbers(b, of, delay)
	}
	half := b.And(of, number(b, 1))
	for _, f := range list {
		b.Append(op, []*ir.Value{f.from, f.buffer, f.sem[0], at(f), half}, ir.Attrs{Dims: f.window.Block}, nil)
	}
}

// ofDelay returns the windows of one delay.
func (l *pipeline) ofDelay(delay int) []*fetch {
	return slices.DeleteFunc(slices.Clone(l.fetched), func(f *fetch) bool { return f.seen.delay != delay })
}

// copyBlock starts or awaits the copy of block number at into a half.
func (f *fetch) copyBlock(b *ir.Builder, op ir.Op, at *ir.Value, half int) {
	b.Append(op, []*ir.Value{f.from, f.buffer, f.sem[half], at, number(b, half)}, ir.Attrs{Dims: f.window.Block}, nil)
}

// numbers returns a function that emits a window's block number at step+more. Windows with the same numbering share the look-up.
func (l *pipeline) numbers(b *ir.Builder, step *ir.Value, more int) func(*fetch) *ir.Value {
	var tables []*ir.Value
	for i := range l.g.Tables {
		tables = append(tables, l.params[seen{i, 0}])
	}
	found := map[tiles.Numbering]*ir.Value{}
	return func(f *fetch) *ir.Value {
		if found[f.block] == nil {
			found[f.block] = f.block.At(b, step, more, tables)
		}
		return found[f.block]
	}
}
