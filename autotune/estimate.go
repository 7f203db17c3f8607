package autotune

import (
	"math"
	"sync"

	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// estimator guesses what a variant costs without a compiler: the instructions of its kernels, before steps overlap, by the slot that
// each takes, and the longest chain of results; and the main memory traffic of what is outside of kernels. It is off by a factor,
// but tells which of two variants of one kind takes less, in a hundredth of the time: strategies rank by it what is not tried yet.
type estimator struct {
	spec    gdn.Spec
	targets []*target.Target

	counted once[*counts] // by fitted variant, its order of instructions aside
	kept    once[*strategy.Estimate]
}

func newEstimator(s gdn.Spec, targets []*target.Target) *estimator {
	return &estimator{spec: s, targets: targets}
}

// once keeps a value for each variant. Different ones are made side by side, and each by the first that asks.
type once[T any] struct{ made sync.Map }

func (o *once[T]) get(v gdn.Variant, first func() T) T {
	value, ok := o.made.Load(v)
	if !ok {
		value, _ = o.made.LoadOrStore(v, sync.OnceValue(first))
	}
	return value.(func() T)()
}

// counts is what a program is made of, before its steps overlap.
type counts struct {
	kernels []kernelCount
	xla     float64 // cycles outside of them
}

// kernelCount is the instructions of one kernel.
type kernelCount struct {
	points float64 // of its grid
	f32    count   // with bf16 emulated in the vector unit
	bf16   count   // with a vector unit that has it
}

// estimate is nil where there is none. Of the choices of order and overlap it knows that they lengthen the program.
func (e *estimator) estimate(v gdn.Variant) *strategy.Estimate {
	v = v.Fit(e.spec)
	return e.kept.get(v, func() *strategy.Estimate { return e.measure(v) })
}

func (e *estimator) measure(v gdn.Variant) *strategy.Estimate {
	base := v.Unscheduled().Fit(e.spec)
	c := e.counted.get(base, func() *counts { return e.count(base) })
	if c == nil {
		return nil
	}
	x := &strategy.Estimate{Size: math.Pow(phaseSize, float64(v.Forward.PhasesBefore)) * math.Pow(float64(v.Forward.Steps), stepSize)}
	size := 1.
	for _, t := range e.targets {
		g := strategy.Guess{XLA: c.xla}
		size = 1
		perCycle := slotsPerCycle()
		for _, k := range c.kernels {
			n := k.f32
			if t.BF16VPU {
				n = k.bf16
			}
			fullest, all := 0., 0.
			for s, used := range n.slots {
				fullest, all = max(fullest, used/perCycle[s]), all+used/perCycle[s]
				size += used
			}
			g.Kernel += k.points * (fullestShare*fullest + slotsShare*all + chainShare*n.longest)
		}
		x.Targets = append(x.Targets, g)
	}
	x.Size *= size
	return x
}

// count counts the instructions of a variant; nil where it can not be built.
func (e *estimator) count(v gdn.Variant) (c *counts) {
	defer func() {
		if recover() != nil { // the gates find the same and say so
			c = nil
		}
	}()
	m, err := build.Module(e.spec, v)
	for _, name := range []string{"precision", "cse", "tile"} { // what the others remove is little
		var p pass.Pass
		if err == nil {
			p, err = pass.Find(name)
		}
		if err == nil {
			m, err = p.Run(m)
		}
	}
	if err != nil {
		return nil
	}
	c = &counts{}
	for _, in := range m.Body.Instrs {
		if in.Op == ir.OpKernel {
			c.kernels = append(c.kernels, kernelCount{float64(in.Attrs.Grid.Points()), body(in.Body, false), body(in.Body, true)})
			continue
		}
		c.xla += outside(in)
	}
	return c
}

// outside is the cycles of an instruction outside of kernels. A reshape that leaves the last dimension as it is is a view of the same tiles.
func outside(in *ir.Instr) (cycles float64) {
	for _, r := range in.Results {
		switch a := in.Args; {
		case in.Op == ir.OpConst, in.Op == ir.OpReshape && r.Type.Rank() > 0 && a[0].Type.Rank() > 0 && r.Type.Shape[r.Type.Rank()-1] == a[0].Type.Shape[a[0].Type.Rank()-1]:
		case in.Op == ir.OpTranspose:
			cycles += transposeCycles * registers(r.Type)
		default:
			cycles += copyCycles * registers(r.Type)
		}
	}
	return cycles
}

// A program that overlaps steps has a body of its own for each phase's first and last step, and further chunks of a step repeat a part of
// it: how many times longer compiling takes for a phase ahead, and the power of the chunks of a step.
const (
	phaseSize = 1.8
	stepSize  = .77
)

// slot is a kind of instruction slot.
type slot int

const (
	slotPush slot = iota // weights into a matrix unit
	slotMul
	slotXLU
	slotALU
	slotPop
	slotEUP
	slotLoad
	slotStore
	slotKinds
)

// calibrated is the target whose schedules the shares and latencies below were fitted to. Its slots stand for those of all targets: with slots
// of their own the others would want shares of their own.
const calibrated = "v6e"

// slotsPerCycle are those of the calibrated target, by kind.
var slotsPerCycle = sync.OnceValue(func() [slotKinds]float64 {
	t, err := target.Lookup(calibrated)
	if err != nil {
		panic(err) // it is in the table
	}
	n := t.Slots
	return [slotKinds]float64{
		slotPush: float64(n.Push), slotMul: float64(n.Matmul), slotXLU: float64(n.XLU), slotALU: float64(n.VALU),
		slotPop: float64(n.Pop), slotEUP: float64(n.EUP), slotLoad: float64(n.Load), slotStore: float64(n.Store),
	}
})

// Cycles of a register that is transposed, or written otherwise, outside of a kernel.
const (
	transposeCycles = 8
	copyCycles      = 3.3
)

// How the cycles of a step follow from the cycles that the fullest slot and all slots take, and from the longest chain of results: least
// squares over 72 schedules for v6e (correlation of the logarithms .97).
const (
	fullestShare = .3
	slotsShare   = .4
	chainShare   = .15
)

// What instructions take in schedules for v6e: slots of the unit that moves lanes for a register that is permuted, with its pattern, and
// for one filled from a column; rows of the left operand that a slot of the matrix units takes.
const (
	patternXLU = 5
	columnXLU  = 1.5
	rowsPerMul = 4
)

// Latencies in cycles of what takes long.
const (
	waitDot   = 210
	waitMove  = 120 // transposes, broadcasts along lanes, gathers
	waitExp   = 14
	waitOther = 2
)

type count struct {
	slots   [slotKinds]float64
	longest float64
}

// registers is how many vector registers of 8 x 128 words a tile takes.
func registers(t ir.Type) float64 {
	rows, lanes := 1, 1
	for i, n := range t.Shape {
		if i == t.Rank()-1 {
			lanes = n
		} else {
			rows *= n
		}
	}
	perRegister := float64(target.RegisterRows(4))
	if t.DType == ir.BF16 {
		perRegister = float64(target.RegisterRows(2))
	}
	return math.Ceil(float64(rows)/perRegister) * math.Ceil(float64(lanes)/target.Lanes)
}

// body counts the instructions of a block, those of a loop as often as it turns, for a vector unit that has bf16 or not.
func body(b *ir.Block, bf16 bool) count {
	var c count
	ready := map[*ir.Value]float64{}
	written := map[*ir.Value]float64{} // when the memory behind a reference was
	for _, in := range b.Instrs {
		at := 0.
		for _, a := range in.Args {
			at = max(at, ready[a], written[a])
		}
		wait := 0.
		if in.Body != nil {
			inner, turns := body(in.Body, bf16), float64(max(in.Attrs.Count, 1))
			for s, n := range inner.slots {
				c.slots[s] += turns * n
			}
			wait = turns * inner.longest
		} else {
			wait = instruction(in, &c, bf16)
		}
		for _, r := range in.Results {
			ready[r] = at + wait
		}
		if in.Op == ir.OpStore {
			written[in.Args[1]] = max(written[in.Args[1]], at+wait)
		}
		c.longest = max(c.longest, at+wait)
	}
	return c
}

// instruction adds the slots of one instruction and gives its latency.
func instruction(in *ir.Instr, c *count, bf16 bool) (wait float64) {
	if len(in.Results) == 0 {
		if in.Op == ir.OpStore {
			c.slots[slotStore] += registers(in.Args[0].Type)
		}
		return waitOther
	}
	t := in.Result().Type
	n := registers(t)
	switch ir.Ops[in.Op].Unit {
	case ir.UnitNone:
		return 0
	case ir.UnitLoad:
		c.slots[slotLoad] += n
	case ir.UnitMatrix:
		return dot(in, c)
	case ir.UnitFunction:
		each := 1.
		if t.DType == ir.BF16 {
			each = 2
		}
		c.slots[slotEUP] += each * n
		c.slots[slotPop] += each * n
		c.slots[slotALU] += n
		return waitExp
	case ir.UnitLane:
		each, of := moves(in, n)
		if of == 0 {
			return 0
		}
		c.slots[slotXLU] += each * of
		c.slots[slotPop] += of
		return waitMove
	default:
		each := 1.
		if t.DType == ir.BF16 && !bf16 {
			each = 5
		}
		c.slots[slotALU] += each * n
	}
	return waitOther
}

// moves is what an op of n result registers asks of the unit that moves lanes: slots for each register, of so many.
func moves(in *ir.Instr, n float64) (each, of float64) {
	a := in.Args[0].Type
	switch in.Op {
	case ir.OpTranspose:
		return 37. / 16 * max(n, registers(a)) / n, n
	case ir.OpBroadcast:
		if t := in.Result().Type; a.Rank() > 0 && a.Shape[a.Rank()-1] == 1 && t.Shape[t.Rank()-1] > 1 {
			return columnXLU, n
		}
		return 0, 0 // rows, and single numbers, are spread by loads
	case ir.OpTake, ir.OpGatherRows:
		return patternXLU, n
	}
	return 1, registers(a) // reductions
}

// dot counts the passes of a product: weights of 128 x 128 take 32 pushes of bf16 rows.
func dot(in *ir.Instr, c *count) float64 {
	a, b := in.Args[0].Type, in.Args[1].Type
	inner := 1.
	for _, d := range in.Attrs.Dot.LC {
		inner *= float64(a.Shape[d])
	}
	rows, columns := float64(a.Size())/inner, float64(b.Size())/inner
	blocks := math.Ceil(inner/128) * math.Ceil(columns/128)
	passes := 6.
	if a.DType == ir.BF16 || in.Attrs.Prec == ir.PrecBF16x1 {
		passes = 1
	}
	c.slots[slotPush] += passes * blocks * 32
	c.slots[slotMul] += passes * blocks * math.Ceil(rows/rowsPerMul)
	c.slots[slotPop] += passes * math.Ceil(rows/target.Sublanes) * math.Ceil(columns/target.Lanes)
	return waitDot
}
