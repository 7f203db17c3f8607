package pipeline

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/tpu/internal/tiles"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// copier emits the instructions of one slot: a copy of the body, in which values of other phases come from rings, and windows are at the
// slot's chunk.
//
// One task, with Steps 1 and a slot of delay 2 (K is a window, a was made in phase 0):
//
//	built                     copied for the slot
//	k = load K[0]             load from the window of K that is two steps behind
//	u = dot a, k              a is loaded from its ring first, from the position of two steps ago
//	c = program_id            step - 2
type copier struct {
	*pipeline
	slot  slot
	run   run
	b     *ir.Builder
	step  *ir.Value // id of the step
	env   map[*ir.Value]*ir.Value
	task  ir.Task
	lag   int         // the semaphores are of the chunk lag chunks before the slot's (ahead)
	loads []*ir.Value // values read from rings, or lazy, for the current task
}

// place emits an instruction and stores its results into their rings. Values loaded for a task are dropped when the task changes: the
// next task loads them again, since the registers are then used otherwise.
func (k *copier) place(in *ir.Instr) error {
	if in.Task != k.task {
		for _, v := range k.loads {
			delete(k.env, v)
		}
		k.task, k.loads = in.Task, nil
	}
	if err := k.emit(k.b, in); err != nil {
		return err
	}
	for _, v := range in.Results {
		r := k.rings[v]
		if r == nil {
			continue
		}
		x := k.env[v]
		if r.words {
			x = k.b.Words(x)
		}
		k.b.Store(x, r.ref, k.within(r), nil)
	}
	return k.b.Err()
}

// within returns the starts of the slot's chunk in a ring. The chunk was new delay steps ago, and is where that step put it.
//
//	ring of 4 steps, step 5 (turn 1), delay 2:   position 3, where step 3 put it
//
// turns is a multiple of r.mod, so adding it keeps the difference non-negative and does not change the remainder.
func (k *copier) within(r *ring) []int {
	turn := (k.run.turn + k.run.turns - k.slot.delay%r.mod) % r.mod
	return []int{turn*k.opt.Steps + k.slot.chunk, 0, 0}
}

// value returns the new value for an old one in this slot: one already emitted, the parameter that the slot sees, a free or lazy
// instruction emitted again, or a load from its ring.
func (k *copier) value(old *ir.Value) (*ir.Value, error) {
	if v := k.env[old]; v != nil {
		return v, nil
	}
	if p, ok := k.param[old]; ok {
		if k.ahead.sends(p) {
			return k.ahead.sentBy(p, k.run.turn-k.slot.delay-k.lag), nil
		}
		v := k.params[seen{p, k.slot.delay}]
		if v == nil {
			return nil, fmt.Errorf("parameter %d is not seen with a delay of %d steps", p, k.slot.delay)
		}
		return v, nil
	}
	i, ok := k.index[old]
	if !ok {
		return nil, fmt.Errorf("a %s value comes from outside the kernel", old.Type)
	}
	// Emitted again. A lazy value is dropped with its task, so that it is not kept in registers until the next use.
	if k.free[i] || k.lazy[i] && k.phase[i] == k.slot.phase {
		if err := k.emit(k.b, k.body.Instrs[i]); err != nil {
			return nil, err
		}
		if k.lazy[i] {
			k.loads = append(k.loads, old)
		}
		return k.env[old], nil
	}
	r := k.rings[old]
	if r == nil {
		return nil, fmt.Errorf("a %s value is used before its phase", old.Type)
	}
	// From another phase: it was stored to the ring earlier in this step, or in a step before.
	v := k.b.Load(r.ref, r.ref.Type.Shape[1:], k.within(r), nil).Called(ir.NameOf(old))
	if r.words {
		v = k.b.Halves(v)
	}
	k.env[old] = v
	k.loads = append(k.loads, old)
	return v, nil
}

// outer emits, before an instruction, the values of other phases that its body reads.
func (k *copier) outer(in *ir.Instr) (err error) {
	uses(in, func(v *ir.Value) {
		if _, outer := k.index[v]; outer && err == nil {
			_, err = k.value(v)
		}
	})
	return err
}

// emit copies an instruction, with windows moved to the slot's chunk.
func (k *copier) emit(b *ir.Builder, in *ir.Instr) error {
	b.Of(in)
	k.await(b, in)
	args := make([]*ir.Value, len(in.Args))
	for i, a := range in.Args {
		var err error
		if args[i], err = k.value(a); err != nil {
			return fmt.Errorf("%s at %s: %w", in.Op, in.Where(), err)
		}
	}
	attrs := passes.CloneAttrs(in.Attrs)
	var types []ir.Type
	for _, r := range in.Results {
		types = append(types, r.Type)
	}
	b.Of(in)
	switch in.Op {
	// The number of the chunk. Example: step 5 of two chunks each, delay 1, chunk 1 of its step: (5 - 1) * 2 + 1 = 9.
	case ir.OpProgramID:
		if in.Attrs.Axis != k.seq {
			break
		}
		i32 := func(x int) *ir.Value { return b.Const(ir.T(ir.I32), float64(x)) }
		c := b.Mul(b.Sub(k.step, i32(k.slot.delay)), i32(k.opt.Steps))
		k.env[in.Result()] = b.Add(c, i32(k.slot.chunk))
		return b.Err()
	case ir.OpLoad:
		k.shift(&attrs, in.Args[0])
	case ir.OpStore:
		k.shift(&attrs, in.Args[1])
	// A cast of a window of several chunks has more rows. [64, 128] bf16 cast to words is [32, 128]; two chunks, [128, 128], give [64,
	// 128].
	case ir.OpRefCast:
		old, now := in.Args[0].Type.Shape, args[0].Type.Shape
		if !slices.Equal(old, now) {
			t := passes.CloneType(types[0])
			if t.Rank() != len(old) {
				return fmt.Errorf("refcast at %q joins dimensions of a window of several chunks", in.Task)
			}
			for d := range old {
				t.Shape[d] = t.Shape[d] * now[d] / old[d]
			}
			types[0] = t
		}
	}
	// Loops and conditions are copied with their bodies, at one position.
	var body *ir.Block
	if in.Body != nil {
		body = &ir.Block{}
		inner := b.On(body)
		for _, p := range in.Body.Params {
			k.env[p] = inner.Param("", p.Type)
		}
		if err := k.outer(in); err != nil {
			return err
		}
		for _, x := range in.Body.Instrs {
			if err := k.emit(inner, x); err != nil {
				return err
			}
		}
		for _, y := range in.Body.Yield {
			v, err := k.value(y)
			if err != nil {
				return err
			}
			body.Yield = append(body.Yield, v)
		}
	}
	rs := b.Append(in.Op, args, attrs, body, tiles.Explicit(in.Op, types)...)
	if b.Err() != nil {
		return b.Err()
	}
	for i, r := range in.Results {
		k.env[r] = rs[i]
	}
	return nil
}

// shift moves the start of a load or store to the slot's chunk of the window behind ref. The chunks of a step follow one another in a
// window, in reverse if the grid walks down. In a buffer that the kernel copies itself, the step's half is added instead.
//
//	two chunks of 64 rows a step, block [128, 128]:   chunk 0 from row 0, chunk 1 from row 64
//	walking down:                                     chunk 0 from row 64, chunk 1 from row 0
//	a buffer of two halves, one chunk a step:         even steps from row 0, odd ones from row 64
//
// Starts count rows of ref: through a cast to words of two rows, chunk 1 starts at 32.
func (k *copier) shift(a *ir.Attrs, ref *ir.Value) {
	r := memory(k.root, ref)
	p, ok := k.param[r]
	if !ok {
		return
	}
	var w ir.Window
	switch i := p - k.g.Tables; {
	case i >= 0 && i < len(k.g.In):
		w = k.g.In[i]
	case i >= len(k.g.In) && i < len(k.g.In)+len(k.g.Out):
		w = k.g.Out[i-len(k.g.In)]
	default:
		return
	}
	if slices.ContainsFunc(k.fetched, func(f *fetch) bool { return f.seen == seen{p, k.slot.delay} }) ||
		slices.ContainsFunc(k.outputs, func(x *delivery) bool { return x.param == p && x.axis >= 0 }) {
		turn := k.run.turn
		if k.places != nil && p-k.g.Tables < len(k.g.In) {
			turn -= k.slot.delay // in a JAX file, the half follows the step in which the block was new (copyBlocks)
		}
		a.Starts[0] += (turn & 1) * ref.Type.Shape[0]
		return
	}
	for d, x := range w.Index {
		if x.Axis == k.seq && x.Table < 0 && x.Every < 2 {
			chunk := k.slot.chunk
			if x.Down {
				chunk = k.opt.Steps - 1 - chunk
			}
			a.Starts[d] += chunk * ref.Type.Shape[d]
		}
	}
}
