package autotune

import (
	"math"
	"sync"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// estimator guesses what a variant costs without a compiler: the instructions of its kernels, before steps overlap, by the slot that
// each takes, and the longest chain of results. It is off by a factor, but tells which of two variants of one kind takes less, in
// a hundredth of the time: the search ranks by it what nobody has tried. A larger program, which takes longer to compile and spills
// more, counts as a little dearer.
type estimator struct {
	spec   gdn.Spec
	target *codegen.Target

	mu   sync.Mutex
	kept map[gdn.Variant]float64 // by fitted variant; 0: it can not be built
}

func newEstimator(s gdn.Spec, t *codegen.Target) *estimator {
	return &estimator{spec: s, target: t, kept: map[gdn.Variant]float64{}}
}

// cycles is the estimate, 0 where there is none. Of the choices of order and overlap it knows that phases ahead hide a part of the
// chain, and that they and steps lengthen the program.
func (e *estimator) cycles(v gdn.Variant) float64 {
	v = v.Fit(e.spec)
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.kept[v]
	if !ok {
		c = e.measure(v)
		e.kept[v] = c
	}
	return c
}

func (e *estimator) measure(v gdn.Variant) (cycles float64) {
	defer func() {
		if recover() != nil { // the gates find the same and say so
			cycles = 0
		}
	}()
	m, err := gdn.Build(e.spec, v)
	if err != nil {
		return 0
	}
	if m, err = passes.Apply(m, "precision", "fold", "cse", "dce", "tile", "cse", "dce"); err != nil {
		return 0
	}
	sum, size := 0., 1.
	for _, in := range m.Body.Instrs {
		if in.Op != ir.OpKernel {
			for _, r := range in.Results { // glue reads and writes main memory
				sum += 2 * float64(r.Type.Bytes()) / e.target.HBM * e.target.Clock
				if in.Op == ir.OpTranspose {
					sum += glueTranspose * registers(r.Type)
				}
			}
			continue
		}
		points := float64(in.Attrs.Grid.Points())
		c := e.body(in.Body)
		bound := 0.
		for s, n := range c.slots {
			bound = max(bound, n/slotsPerCycle[s])
		}
		sum += points * (bound + chainShare/float64(1+v.Ahead)*c.longest)
		for _, n := range c.slots {
			size += n
		}
	}
	size *= float64(v.Steps)
	if v.Ahead > 0 {
		size *= edges
	}
	return sum * math.Pow(size, larger)
}

// larger is the power of a program's size that its cost is multiplied by: 4 % for twice the size. edges is how much longer a program
// is whose first and last steps have bodies of their own.
const (
	larger = .06
	edges  = 2
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

// slotsPerCycle are those of v6e; other targets have the like.
var slotsPerCycle = [slotKinds]float64{slotPush: 2, slotMul: 2, slotXLU: 2, slotALU: 4, slotPop: 2, slotEUP: 1, slotLoad: 3, slotStore: 2}

// glueTranspose is the cycles of a register that is transposed outside of a kernel.
const glueTranspose = 4

// chainShare is how much of the longest chain of results is seen, beside the fullest slot.
const chainShare = .5

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
	perRegister := 8.
	if t.DType == ir.BF16 {
		perRegister = 16
	}
	return math.Ceil(float64(rows)/perRegister) * math.Ceil(float64(lanes)/128)
}

// body counts the instructions of a block, those of a loop as often as it turns.
func (e *estimator) body(b *ir.Block) count {
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
			inner, turns := e.body(in.Body), float64(max(in.Attrs.Count, 1))
			for s, n := range inner.slots {
				c.slots[s] += turns * n
			}
			wait = turns * inner.longest
		} else {
			wait = e.instruction(in, &c)
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
func (e *estimator) instruction(in *ir.Instr, c *count) (wait float64) {
	if len(in.Results) == 0 {
		if in.Op == ir.OpStore {
			c.slots[slotStore] += registers(in.Args[0].Type)
		}
		return waitOther
	}
	t := in.Result().Type
	n := registers(t)
	switch in.Op {
	case ir.OpConst, ir.OpIota, ir.OpReshape, ir.OpBitcast, ir.OpWords, ir.OpSlice, ir.OpConcat, ir.OpRefCast, ir.OpProgramID:
		return 0
	case ir.OpLoad:
		c.slots[slotLoad] += n
	case ir.OpDot:
		return e.dot(in, c)
	case ir.OpExp, ir.OpExp2, ir.OpLog, ir.OpLog2, ir.OpLog1p, ir.OpSqrt, ir.OpRsqrt, ir.OpTanh, ir.OpLogistic, ir.OpDiv:
		each := 1.
		if t.DType == ir.BF16 {
			each = 2
		}
		c.slots[slotEUP] += each * n
		c.slots[slotPop] += each * n
		c.slots[slotALU] += n
		return waitExp
	case ir.OpTranspose:
		c.slots[slotXLU] += 37. / 16 * max(n, registers(in.Args[0].Type))
		c.slots[slotPop] += n
		return waitMove
	case ir.OpBroadcast:
		a := in.Args[0].Type
		if a.Rank() > 0 && a.Shape[a.Rank()-1] == 1 && t.Shape[t.Rank()-1] > 1 {
			c.slots[slotXLU] += n
			c.slots[slotPop] += n
			return waitMove
		}
		return 0
	case ir.OpTake, ir.OpGatherRows:
		c.slots[slotXLU] += n
		c.slots[slotPop] += n
		return waitMove
	case ir.OpReduceSum, ir.OpReduceMax, ir.OpCumsum:
		c.slots[slotXLU] += registers(in.Args[0].Type)
		c.slots[slotPop] += registers(in.Args[0].Type)
		return waitMove
	default:
		each := 1.
		if t.DType == ir.BF16 && !e.target.BF16VPU {
			each = 5
		}
		c.slots[slotALU] += each * n
	}
	return waitOther
}

// dot counts the passes of a product: weights of 128 x 128 take 32 pushes of bf16 rows, 16 rows of the left operand a multiply.
func (e *estimator) dot(in *ir.Instr, c *count) float64 {
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
	c.slots[slotMul] += passes * blocks * math.Ceil(rows/16)
	c.slots[slotPop] += passes * math.Ceil(rows/8) * math.Ceil(columns/128)
	return waitDot
}
