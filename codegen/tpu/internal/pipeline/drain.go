package pipeline

import (
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// sent returns the buffers that the last step copies to HBM under a condition: stores to them come directly after the values are made.
func (l *pipeline) sent() map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	if !l.ahead.ending() {
		return out
	}
	for _, in := range l.body.Instrs {
		if x := onlyCopy(in); x != nil && x.Op == ir.OpDMAStart && x.Args[1].Type.Space == ir.HBM {
			out[memory(l.root, x.Args[0])] = true
		}
	}
	return out
}

// drainEarly sets the times of copies under a condition in the last step; at has the times of all other instructions. A start comes
// directly after its operands. The compiler delays a copy until the next wait; but no work moves across a wait, so each costs the
// latency of a dot. So the waits for the step before come together, once, after the last varlen block whose copies have time to run
// during work. All other copies end the step.
//
//	blocks done at .30, .53, .76 and .94:   start 0   start 1   start 2, await the step before's 0, 1 and 2   start 3, await the rest
//
// A wait can not tell the copy of the step before from the one started since, but the end awaits the same semaphore again.
func (l *pipeline) drainEarly(at []float64) {
	type pair struct {
		wait, part int     // the instruction with the wait, and the number of the wait in it
		start      float64 // when the next copy of the same window starts
	}
	waits := map[*ir.Value]pair{} // by semaphore
	var pairs []pair
	held := 0.0
	for i, in := range l.body.Instrs {
		if at[i] < 0 || !copies(in) {
			continue
		}
		for part, x := range awaited(in) {
			waits[x.Args[2]] = pair{i, part, 1}
			l.waitTimes[i] = append(l.waitTimes[i], 1)
		}
		x := onlyCopy(in)
		if x == nil || x.Op != ir.OpDMAStart {
			continue
		}
		p, ok := waits[x.Args[2]]
		if !ok {
			continue
		}
		p.start = 0
		for _, d := range l.deps[i] {
			if !copies(l.body.Instrs[d]) {
				p.start = max(p.start, at[d])
			}
		}
		p.start = min(p.start, 1)
		at[i] = p.start
		if p.start < early {
			held = max(held, p.start)
		}
		pairs = append(pairs, p)
	}
	for _, x := range pairs {
		if x.start <= held {
			l.waitTimes[x.wait][x.part] = math.Nextafter(held, 2)
		}
	}
}

// awaited returns the copies that an instruction awaits, each wait under its own condition in the body.
func awaited(in *ir.Instr) (list []*ir.Instr) {
	if in.Body == nil {
		return nil
	}
	for _, x := range in.Body.Instrs {
		switch y := onlyCopy(x); {
		case y != nil && y.Op == ir.OpDMAWait:
			list = append(list, y)
		case copies(x):
			return nil
		}
	}
	return list
}

// awaitOne returns a copy of such an instruction with only one of its waits.
func awaitOne(in *ir.Instr, which int) *ir.Instr {
	one, body := *in, *in.Body
	n := -1
	body.Instrs = slices.DeleteFunc(slices.Clone(body.Instrs), func(x *ir.Instr) bool {
		if x.Body == nil {
			return false
		}
		n++
		return n != which
	})
	one.Body = &body
	return &one
}

// onlyCopy returns the copy that an instruction starts or awaits under a condition; nil if it does anything else.
func onlyCopy(in *ir.Instr) *ir.Instr {
	if in.Body == nil || len(in.Body.Instrs) == 0 {
		return nil
	}
	x := in.Body.Instrs[len(in.Body.Instrs)-1]
	for _, y := range in.Body.Instrs {
		if y != x && (y.Op == ir.OpDMAStart || y.Op == ir.OpDMAWait || y.Body != nil) {
			return nil
		}
	}
	if x.Op != ir.OpDMAStart && x.Op != ir.OpDMAWait {
		return nil
	}
	return x
}

// never reports whether an instruction has nothing to do in the written steps of a slot: it runs only at the last chunk under Grid.Live,
// and the slot is behind in steps before the end. The compiler would keep it, each wait under a condition that is false.
//
//	4 chunks, a slot of delay 1:   steps 1 to 3 have its chunks 0 to 2; chunk 3 is in the step after the last chunk
func (l *pipeline) never(s slot, in *ir.Instr) bool {
	if !l.ahead.going() || s.delay == 0 || l.opt.Steps > 1 || in.Op != ir.OpWhen {
		return false
	}
	def := func(x *ir.Value, op ir.Op) *ir.Instr {
		if x.Def == nil || x.Def.Op != op {
			return &ir.Instr{Args: []*ir.Value{{}, {}}}
		}
		return x.Def
	}
	holds := def(in.Args[0], ir.OpCompare)
	point, last := holds.Args[0].Def, def(holds.Args[1], ir.OpSub)
	live, one := def(last.Args[0], ir.OpLoad), last.Args[1].Def
	return holds.Attrs.Cmp == ir.EQ && point != nil && point.Op == ir.OpProgramID && point.Attrs.Axis == l.seq &&
		live.Args[0] == l.body.Params[l.g.Live-1] && one != nil && one.Op == ir.OpConst && one.Attrs.Value == 1
}
