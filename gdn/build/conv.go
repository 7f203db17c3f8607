package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// A layer takes q, k and v through a short causal convolution of each channel and SiLU before the rule (Spec.Conv). With W taps w[0] to w[W-1], the
// last of the token itself, and zeros before the first token:
//
//	x[t] <- silu(sum over j of w[j] x[t - (W-1) + j])
//
// The kernel does it on the rows that it has loaded where a chunk is all that one grid takes (convolving); elsewhere the glue does, for all tokens at once.
// A chunk needs the last W-1 rows of the one before it. Those of another step are carried from grid step to grid step, in whole registers of rows.
//
//	two chunks in flight, rows of a register 8, W 4      chunk 0: carried 8 rows | its C rows     chunk 1: last 8 rows of chunk 0 | its C rows
//	carried to the next step                             last 8 rows of chunk 1

// convolution is what the rows of an operand go through as they are loaded: its taps, whole.
type convolution struct {
	*operand
	taps  int
	stage string
}

// convolving says whether the kernel convolves what it loads: sequences that begin with zeros, each a batch row.
func convolving(p *plan) bool {
	plain := !p.s.ConvState && !p.s.ConvBias && p.args["cu_seqlens"] == nil && p.s.Conv <= target.Sublanes
	return p.s.Conv > 0 && plain && p.v.Fuse == gdn.PlaceKernel && p.v.Algo == gdn.AlgoChunk && p.v.Flow == gdn.FlowFused
}

// Stages of convolutions. The state's phase is the first to need values, and has less vector work than the one before: so it convolves them (bench on
// v6e: 3.09 cycles by wall, 3.17 with all in the first phase, 3.19 spread over it).
const (
	stageKeys   = "convolution"
	stageValues = "taps"
)

// strip is how many rows a kernel convolves at a time: values of all rows of a chunk would not stay in registers.
const strip = 32

// tapsOf describes the taps of q, k or v to the grids: those of the heads of a program, [heads, W, D].
func tapsOf(p *plan, name, stage string, block []int, at []axis) *convolution {
	w := p.args[name]
	t := w.Type.Shape
	heads := t[:1]
	if len(block) > 1 {
		heads = []int{t[0] / p.s.Groups(), p.s.Groups()}
	}
	return &convolution{taps: t[1], stage: stage, operand: &operand{
		value: p.b.Reshape(w, join(heads, t[1:])...),
		axes:  join(at, []axis{axisNone, axisNone}),
		block: join(block, t[1:]),
	}}
}

// onePass says whether products of a variant take one pass of bf16. Then values, which are subtracted from in float32, are not rounded before, and squares of
// rows are of what they were before they were rounded: both would be work that shows nowhere.
func onePass(v gdn.Variant) bool {
	return v.Numerics.PrecState == ir.PrecBF16x1 && v.Numerics.PrecIntra == ir.PrecBF16x1
}

// convolved are rows [N, C, D] of the chunks in flight behind the convolution, in the type of the inputs, or values of one pass in float32.
func (e *tiles) convolved(x *ir.Value, o *convolution) *ir.Value {
	b := e.b.Stage(o.stage)
	t, n, d := x.Type, e.v.Mapping.Chunks, x.Type.Shape[2]
	heads := t.Shape[0] / n
	wide := b.Convert(x, ir.F32)
	last := b.SliceAxis(wide, 1, e.c-target.Sublanes, e.c)
	before := []*ir.Value{e.carried(ir.T(ir.F32, heads, target.Sublanes, d))}
	if n > 1 {
		before = append(before, b.SliceAxis(last, 0, 0, (n-1)*heads))
	}
	e.held = append(e.held, b.SliceAxis(last, 0, (n-1)*heads, n*heads))
	rows := b.Concat(1, b.Concat(0, before...), wide)
	w := b.Convert(b.Reshape(e.blocks[o.operand], heads/e.v.Mapping.Batch, o.taps, d), ir.F32)
	half := b.Scale(w, .5)
	var strips []*ir.Value // in float32
	for from := 0; from < e.c; from += strip {
		to := min(from+strip, e.c)
		strips = append(strips, siluOfTaps(b, o.taps, func(j int) *ir.Value {
			first := target.Sublanes - o.taps + 1 + j
			tap := b.SliceAxis(rows, 1, first+from, first+to)
			own := b.Reshape(b.SliceAxis(half, 1, j, j+1), heads/e.v.Mapping.Batch, d)
			s := tap.Type.Shape
			own = b.Reshape(b.Broadcast(own, []int{n * e.v.Mapping.Batch, s[0] / (n * e.v.Mapping.Batch), s[1], d}, 1, 3), s...)
			return b.Mul(tap, own)
		}))
	}
	y := b.Concat(1, strips...)
	if onePass(e.v) && o.stage == stageValues {
		return y
	}
	narrow := b.Convert(y, t.DType)
	if onePass(e.v) && e.rule().Normalizes() {
		e.Squared[narrow] = gate.Squares(b, y)
	}
	return narrow
}

// siluOfTaps is SiLU of twice the sum of some terms. SiLU of 2h is h + h tanh(h), which takes one operation of the unit of functions, and no quotient.
func siluOfTaps(b *ir.Builder, taps int, term func(j int) *ir.Value) *ir.Value {
	h := term(0)
	for j := 1; j < taps; j++ {
		h = b.Add(h, term(j))
	}
	return b.Add(h, b.Mul(h, b.Unary(ir.OpTanh, h)))
}
