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

// estimator estimates a variant's cost without a compiler. Per kernel it counts instructions by slot and the longest
// chain of results, before steps overlap; outside of kernels it counts HBM traffic. Estimates are off by a factor, but
// rank variants of one kind, a hundred times faster than compiling. Strategies rank untried variants by them.
type estimator struct {
	spec    gdn.Spec
	targets []*target.Target

	counted once[*counts] // by fitted variant without its order of instructions
	kept    once[*strategy.Estimate]
}

func newEstimator(s gdn.Spec, targets []*target.Target) *estimator {
	return &estimator{spec: s, targets: targets}
}

// once caches a value per variant. Values of different variants are made in parallel, each only once.
type once[T any] struct{ made sync.Map }

func (o *once[T]) get(v gdn.Variant, first func() T) T {
	value, ok := o.made.Load(v)
	if !ok {
		value, _ = o.made.LoadOrStore(v, sync.OnceValue(first))
	}
	return value.(func() T)()
}

// counts are the instructions of a program, before its steps overlap.
type counts struct {
	kernels []kernelCount
	xla     float64 // cycles outside of them
}

// kernelCount is the instructions of one kernel.
type kernelCount struct {
	points float64 // number of grid points
	f32    count   // with bf16 emulated in the vector unit
	bf16   count   // with bf16 in the vector unit
}

// estimate returns nil if the variant can not be built. Options of order and overlap only change the estimated program size.
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

// count counts the instructions of a variant; nil if it can not be built.
func (e *estimator) count(v gdn.Variant) (c *counts) {
	defer func() {
		if recover() != nil { // the gates hit and report the same panic
			c = nil
		}
	}()
	m, err := build.Module(e.spec, v)
	for _, name := range []string{"precision", "cse", "tile"} { // other passes remove little
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

// outside returns the cycles of an instruction outside of kernels. A reshape that keeps the last dimension is a view of the same tiles.
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

// A program that overlaps steps has copies of its body for each phase's first and last step, and further chunks of a step repeat a
// part of it. phaseSize is the factor in size per phase ahead, stepSize the power of the number of chunks in a step.
const (
	phaseSize = 1.8
	stepSize  = .77
)

// slot is a kind of instruction slot.
type slot int

const (
	slotPush slot = iota // weights into an MXU
	slotMul
	slotXLU
	slotALU
	slotPop
	slotEUP
	slotLoad
	slotStore
	slotKinds
)

// calibrated is the target whose schedules the shares and latencies below were fitted to. All targets use its slots:
// with other slots the shares would have to be fitted again.
const calibrated = "v6e"

// slotsPerCycle are the calibrated target's slots per cycle, by kind.
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

// Cycles per register of a transpose, or of another copy, outside of a kernel.
const (
	transposeCycles = 8
	copyCycles      = 3.3
)

// Shares of a step's cycles: of the fullest slot's cycles, of all slots' cycles, and of the longest chain of results.
// Least squares over 72 schedules for v6e (correlation of the logarithms .97).
const (
	fullestShare = .3
	slotsShare   = .4
	chainShare   = .15
)

// Costs of instructions in schedules for v6e: slots of the XLU to permute a register, with its pattern, and to fill one
// from a column; rows of the left operand per slot of the MXUs.
const (
	patternXLU = 5
	columnXLU  = 1.5
	rowsPerMul = 4
)

// Latencies in cycles of slow instructions.
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

// registers returns the number of vector registers of 8 x 128 words in a tile.
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

// body counts the instructions of a block, times the trip count in a loop, for a vector unit with or without bf16.
func body(b *ir.Block, bf16 bool) count {
	var c count
	ready := map[*ir.Value]float64{}
	written := map[*ir.Value]float64{} // when memory was last written, by reference
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

// moves returns the slots of the XLU that an op with n result registers takes: slots per register, and the number of registers.
func moves(in *ir.Instr, n float64) (each, of float64) {
	a := in.Args[0].Type
	switch in.Op {
	case ir.OpTranspose:
		return 37. / 16 * max(n, registers(a)) / n, n
	case ir.OpBroadcast:
		if t := in.Result().Type; a.Rank() > 0 && a.Shape[a.Rank()-1] == 1 && t.Shape[t.Rank()-1] > 1 {
			return columnXLU, n
		}
		return 0, 0 // rows and scalars are broadcast by loads
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
