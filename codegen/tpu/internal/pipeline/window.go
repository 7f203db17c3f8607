package pipeline

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// windowing makes the windows and parameters of a pipelined kernel. A phase sees a window with the delays of its slots, so a moving
// window exists once per delay. V is read only in the state's phase: one window, two steps behind. K is read in phase 0 and in the
// state's phase: two windows.
//
//	K at delay 0   index c             slot 0: block 0   1: block 1   2: block 2   3: block 3
//	K at delay 2   max(c - 2, 0)       slot 0: block 0   1: block 0   2: block 0   3: block 1
//
// The second window fetches the block again. A ring instead would load and store all its rows with instructions of the kernel, while DMA
// is a separate unit.
type windowing struct {
	*pipeline
	b       *ir.Builder
	used    map[seen]bool           // parameters that instructions access, with their delays
	args    []*ir.Value             // operands of the old kernel
	kargs   []*ir.Value             // operands of the new kernel
	inputOf map[int]int             // the first new input of an old input
	whole   map[*ir.Value]*ir.Value // parameters of operands whose blocks the kernel copies
}

// windows makes the windows of the new grid and the parameters of its block, and returns the operands.
func (l *pipeline) windows(b *ir.Builder, args []*ir.Value) ([]*ir.Value, error) {
	g := l.g
	w := &windowing{pipeline: l, b: b, used: l.accessed(), args: args, kargs: slices.Clone(args[:g.Tables]), inputOf: map[int]int{},
		whole: map[*ir.Value]*ir.Value{}}
	l.params = map[seen]*ir.Value{}
	l.ng.In, l.ng.Out, l.ng.Alias = nil, nil, nil
	for i := range g.Tables {
		w.share(i, b.Param("", l.body.Params[i].Type))
	}
	for i := range g.In {
		if err := w.input(i); err != nil {
			return nil, err
		}
	}
	l.ng.Outs = nil
	for i := range g.Out {
		if w.within(i) {
			continue
		}
		if err := w.output(i); err != nil {
			return nil, err
		}
		w.kept, l.ng.Outs = append(w.kept, i), append(l.ng.Outs, g.Outs[i])
	}
	for _, a := range g.Alias {
		j, ok := w.inputOf[a[1]]
		if !ok {
			return nil, fmt.Errorf("input %d, alias of output %d, is not read", a[1], a[0])
		}
		l.ng.Alias = append(l.ng.Alias, [2]int{a[0], j})
	}
	if l.places == nil && (g.Live > 0 || len(l.fetched)+len(l.outputs) > 0) {
		l.ahead = newAhead(l)
	}
	l.ng.Scratch = nil
	for i, t := range g.Scratch {
		if old := g.Tables + len(g.In) + len(g.Out) + i; !l.ahead.sends(old) {
			w.share(old, l.scratch(b, passes.CloneType(t)))
		}
	}
	if l.ahead != nil {
		l.ahead.makeSemaphores(b)
	}
	for i := range g.Out {
		if w.within(i) {
			w.share(g.Tables+len(g.In)+i, l.scratch(b, l.body.Params[g.Tables+len(g.In)+i].Type))
		}
	}
	return w.kargs, nil
}

// within reports whether an output can be scratch: a carry's final value that nothing reads. Examples: packed sequences, each of which
// writes its state where it ends, and layers in training. The copy to HBM at the end, which no work would hide, is then left out.
func (w *windowing) within(i int) bool {
	r := w.kernel.Results[i]
	return !w.read[r] && !w.moves(w.g.Out[i]) && i >= w.arrays()
}

// arrays returns the number of outputs before the carries, counting all outputs with an alias.
func (w *windowing) arrays() int {
	n := 0
	for _, a := range w.g.Alias {
		n = max(n, a[0]+1)
	}
	return n
}

// accessed returns the parameters that instructions access, each with the delays of the instructions' slots.
//
// K is loaded in phases 0 and 1, with lags 0 and 1 and one chunk a step: delays 0 and 1. With two chunks a step and lag 1, phase 1 alone
// has two delays: 1 in its first slot and 0 in its second.
func (l *pipeline) accessed() map[seen]bool {
	used := map[seen]bool{}
	for i, in := range l.body.Instrs {
		accesses(in, func(ref *ir.Value, _ bool, _ *box) {
			p := l.param[memory(l.root, ref)]
			if l.first[i] {
				used[seen{p, l.rows.behind}] = true
				return
			}
			for _, s := range l.slots {
				if s.phase == l.phase[i] {
					used[seen{p, s.delay}] = true
				}
			}
		})
	}
	return used
}

// share binds one new parameter for all delays: tables, scratch and outputs have no delay.
func (w *windowing) share(old int, p *ir.Value) {
	for _, s := range w.slots {
		w.params[seen{old, s.delay}] = p
	}
}

// input makes the windows of input i: one per delay at which it is used, or one for all if it does not move.
func (w *windowing) input(i int) error {
	old := w.g.Tables + i
	window, x := w.g.In[i], w.args[old]
	var shared *ir.Value
	for d := range w.last + 1 {
		at := seen{old, d}
		switch {
		case !w.used[at]:
			continue
		case shared != nil && !w.moves(window):
			w.params[at] = shared
			continue
		}
		// Delays ascend, so the first window of an input that does not move serves all later ones.
		nw, err := w.delayed(window, d)
		if err != nil {
			return err
		}
		if w.late && w.ofStart(old) {
			w.oneLate(&nw, x.Type)
		}
		// A window that the kernel copies is a buffer. The operand itself is a parameter once, whole.
		if axis, ok := w.fetches(window, w.kernel.Args[old]); ok {
			if w.whole[x] == nil {
				w.whole[x] = w.add(i, x, ir.Window{}, ir.Ref(ir.HBM, x.Type.DType, x.Type.Shape...))
			}
			block, err := tiles.BlockOf(w.g, nw, x.Type)
			if err != nil {
				return err
			}
			w.fetched = append(w.fetched, &fetch{window: nw, axis: axis, block: block, seen: at, from: w.whole[x]})
			continue
		}
		t := w.body.Params[old].Type
		if !window.Whole(x.Type) {
			t = ir.Ref(ir.VMEM, x.Type.DType, nw.Block...)
		}
		shared = w.add(i, x, nw, t)
		w.params[at] = shared
	}
	return nil
}

// ofStart reports whether only instructions that set carries read a parameter.
func (l *pipeline) ofStart(param int) bool {
	ok := true
	for i, in := range l.body.Instrs {
		accesses(in, func(ref *ir.Value, _ bool, _ *box) { ok = ok && (l.first[i] || l.param[memory(l.root, ref)] != param) })
	}
	return ok
}

// oneLate marks a window of all heads as not read in the first step: dimension 1 gets the index clamp(c - 1, 0, 0), which is still 0. A
// reader of the grid may then fetch less for the first step.
func (w *windowing) oneLate(nw *ir.Window, t ir.Type) {
	if t.Rank() < 3 || nw.Block[1] == 1 || nw.Block[1] != t.Shape[1] {
		return
	}
	nw.Index[1] = ir.IndexAxis(w.seq)
	nw.Index[1].Shift, nw.Index[1].Max = -1, 0
}

// add adds an input for the i-th old input, and returns its parameter.
func (w *windowing) add(i int, x *ir.Value, nw ir.Window, t ir.Type) *ir.Value {
	w.inputOf[i] = len(w.ng.In)
	w.ng.In, w.kargs = append(w.ng.In, nw), append(w.kargs, x)
	return w.b.Param("", t)
}

// output makes the window of output i. A moving output can have only one delay: its block is written when the window moves on, and must
// then be complete.
//
//	two chunks a step, lag 1:   step 3 stores chunk 5, of step 2, and chunk 6, of step 3
//
// The block of step 2 would be written with one half missing. So phase.go moves stores to a phase whose lag is a whole number of steps;
// where it can not, output errs.
func (w *windowing) output(i int) error {
	old := w.g.Tables + len(w.g.In) + i
	window := w.g.Out[i]
	delay := -1
	for d := range w.last + 1 {
		if !w.used[seen{old, d}] {
			continue
		}
		if delay >= 0 && w.moves(window) {
			return fmt.Errorf("output %d is stored in steps of different delay; make the lag of its phase a multiple of the chunks of a step", i)
		}
		delay = d
	}
	nw, err := w.delayed(window, max(delay, 0))
	if err != nil {
		return err
	}
	aliased := slices.ContainsFunc(w.g.Alias, func(a [2]int) bool { return a[0] == i })
	if axis, ok := w.writesBack(window, w.kernel.Results[i], delay); ok && !aliased {
		w.ng.Out = append(w.ng.Out, ir.Window{})
		to := w.b.Param("", ir.Ref(ir.HBM, w.g.Outs[i].DType, w.g.Outs[i].Shape...))
		w.outputs = append(w.outputs, &delivery{window: nw, axis: axis, param: old, to: to})
		return nil
	}
	w.ng.Out = append(w.ng.Out, nw)
	t := w.body.Params[old].Type
	if !window.Whole(w.g.Outs[i]) {
		t = ir.Ref(ir.VMEM, w.g.Outs[i].DType, nw.Block...)
	}
	w.share(old, w.b.Param("", t))
	return nil
}

// delayed returns a window of all chunks of a step, delay steps late. The index is clamped to valid steps: in the first steps a late
// window shows the first block. Its phase has no chunk yet and does not read it, and the compiler need not fetch it again.
func (l *pipeline) delayed(w ir.Window, delay int) (ir.Window, error) {
	out := ir.Window{Block: slices.Clone(w.Block), Index: slices.Clone(w.Index)}
	if l.opt.Steps == 1 && len(l.opt.Lags) == 1 { // nothing overlaps; only the order changes
		return out, nil
	}
	for d := range out.Index {
		x := &out.Index[d]
		if x.Axis != l.seq {
			continue
		}
		// Entries of a table need not be neighbours, so one window can not show several chunks of a step.
		if x.Shift != 0 || x.Max >= 0 && !l.down(*x) || x.Table >= 0 && l.opt.Steps > 1 {
			return out, fmt.Errorf("a window whose index is shifted, or looked up for each of %d chunks, can not be pipelined", l.opt.Steps)
		}
		// The axis counts steps instead of points: index c becomes clamp(c - delay, 0, steps - 1), in blocks of Steps chunks.
		x.Shift, x.Max = -delay, l.steps-1
		switch {
		case x.Every > 1: // one block per row, whatever the chunks per step
			*x = x.Held(x.Every / l.opt.Steps)
		case x.Table < 0:
			out.Block[d] *= l.opt.Steps
		}
	}
	return out, nil
}
