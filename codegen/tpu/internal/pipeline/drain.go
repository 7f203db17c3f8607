package pipeline

import (
	"math"
	"slices"

	"github.com/gdngen/gdngen/ir"
)

// sent are the buffers of which copies to main memory start under a condition, while the last step is written: what is stored there stands right behind
// what makes it.
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

// drainEarly says when copies under a condition are in the last step, where at has the times of all else. One that starts stands right behind what it takes. The
// compiler puts off what nothing waits for, up to the next wait, which makes it start the copy; but a wait lets no work pass either, and so costs the latency of
// a product. So the waits for what the step before has given, which have to stand somewhere, stand once, behind the last visit whose copies have time to leave
// beside work. All other copies end the step.
//
//	visits done at .30, .53, .76 and .94:   start 0   start 1   start 2, await what 0, 1 and 2 have given before   start 3, await the rest
//
// A wait can not tell the copy of the step before from the one that was started since. But the same semaphore is awaited once more at the end.
func (l *pipeline) drainEarly(at []float64) {
	type pair struct {
		wait, part int     // the instruction that awaits, and which of its copies
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

// awaited are the copies that an instruction awaits under one condition, each under one of its own.
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

// awaitOne is such an instruction with one of its waits alone.
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

// onlyCopy is the copy that an instruction starts or awaits under a condition; nil where it does more, or nothing such.
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

// never says whether an instruction of a slot has nothing to do in the steps that are written: what runs at the last chunk alone, where an operand says how
// many there are, and the slot is behind in steps up to that. The compiler would keep it, each wait under a condition that does not hold.
//
//	4 chunks, a slot of delay 1:   steps 1 to 3 have its chunks 0 to 2, and chunk 3 is that of the step behind
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
