package build

import (
	"slices"
	"strings"

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
// The kernel does it on the rows that it has loaded where a chunk is all that one grid takes (convolving); elsewhere the XLA ops do, for all tokens at once.
// A chunk needs the last W-1 rows of the one before it. Those of another step are carried from grid step to grid step, in whole registers of rows.
//
//	two chunks in flight, rows of a register 8, W 4      chunk 0: carried 8 rows | its C rows     chunk 1: last 8 rows of chunk 0 | its C rows
//	carried to the next step                             last 8 rows of chunk 1

// convolution is the convolution of an operand's rows as they are loaded, with all of its taps.
type convolution struct {
	*operand
	taps  int
	stage string
	bias  *operand // nil: none
	first int      // the first of its channels in a cache
}

// convolving reports whether the kernel convolves what it loads: sequences that begin with zeros, each a batch row.
func convolving(p *plan) bool {
	plain := !p.s.ConvState && !p.s.ConvBias && p.args["cu_seqlens"] == nil && p.s.Conv <= target.Sublanes
	return p.s.Conv > 0 && plain && p.v.Fuse == gdn.PlaceKernel && p.v.Algo == gdn.AlgoChunk && p.v.Flow == gdn.FlowFused
}

// Stages of convolutions. The state's phase is the first to need values, and has less vector work than the one before: so it convolves them (bench on
// v6e: 3.09 in-order cycles, 3.17 with all in the first phase, 3.19 spread over it).
const (
	stageKeys   = "convolution"
	stageValues = "taps"
)

// stepping reports whether the kernel of the token recurrence convolves what it loads behind caches of a pool, which it reads and leaves as it does states.
func stepping(p *plan) bool {
	return p.s.ConvState && p.pooled() && p.v.Fuse == gdn.PlaceKernel && p.s.Every == 0 && p.s.Conv <= target.Sublanes
}

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
	c := &convolution{taps: t[1], stage: stage, operand: &operand{
		value: p.b.Reshape(w, join(heads, t[1:])...),
		axes:  join(at, []axis{axisNone, axisNone}),
		block: join(block, t[1:]),
	}}
	if x := p.args["bias_"+strings.TrimPrefix(name, "conv_")]; x != nil {
		c.bias = &operand{value: p.b.Reshape(x, join(heads, t[2:])...), axes: join(at, []axis{axisNone}), block: join(block, t[2:])}
	}
	return c
}

// onePass reports whether products of a variant take one pass of bf16. Then values, which are subtracted from in float32, are not rounded before, and squares of
// rows are of what they were before they were rounded: both would be work that shows nowhere.
func onePass(v gdn.Variant) bool {
	return v.Numerics.PrecState == ir.PrecBF16x1 && v.Numerics.PrecIntra == ir.PrecBF16x1
}

// convolved are rows [N, C, D] of the chunks in flight behind the convolution, in the type of the inputs, or values of one pass in float32.
func (e *tiles) convolved(x *ir.Value, o *convolution) *ir.Value {
	if len(e.caches) > 0 {
		return e.convolvedBehind(x, o)
	}
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

// siluOfTaps returns SiLU of twice the sum of n terms: those of the taps and of the bias.
func siluOfTaps(b *ir.Builder, n int, term func(j int) *ir.Value) *ir.Value {
	return siluOfTwice(b, sumOfTaps(b, n, term))
}

// sumOfTaps adds n terms in their order.
func sumOfTaps(b *ir.Builder, n int, term func(j int) *ir.Value) *ir.Value {
	sum := term(0)
	for j := 1; j < n; j++ {
		sum = b.Add(sum, term(j))
	}
	return sum
}

// siluOfTwice returns SiLU of 2h, h + h tanh(h): one operation of the unit of functions, and no quotient.
func siluOfTwice(b *ir.Builder, h *ir.Value) *ir.Value {
	return b.Add(h, b.Mul(h, b.Unary(ir.OpTanh, h)))
}

// convolvedBehind are rows [N, C, D] of the sequences of a step behind their caches. What a sequence leaves is the end of the same rows (nextCaches).
//
// Of a decode step C is 1, and the taps of a head are the rows of one register: the cache, and the token behind it. So the sum is one over rows.
func (e *tiles) convolvedBehind(x *ir.Value, o *convolution) *ir.Value {
	b := e.b.Stage(o.stage)
	s := x.Type.Shape
	heads, w := s[0]/e.v.Mapping.Batch, e.s.CacheRows()
	var before []*ir.Value
	for _, cache := range e.caches {
		for from := o.first; from < o.first+heads*s[2]; from += s[2] {
			y := b.SliceAxis(b.Reshape(cache, w, e.s.ConvChannels()), 1, from, from+s[2])
			before = append(before, b.Reshape(b.Convert(y, ir.F32), 1, w, s[2]))
		}
	}
	rows := b.Concat(1, b.Concat(0, before...), b.Convert(x, ir.F32))
	e.lying[o] = rows
	rows = b.SliceAxis(rows, 1, w+1-o.taps, w+s[1])
	of := func(y *ir.Value) *ir.Value { // of heads [heads, ...] for all sequences
		return b.Concat(0, slices.Repeat([]*ir.Value{y}, e.v.Mapping.Batch)...)
	}
	half := of(b.Scale(b.Convert(b.Reshape(e.blocks[o.operand], heads, o.taps, s[2]), ir.F32), .5))
	var sum *ir.Value
	if s[1] == 1 {
		sum = b.Reshape(b.Sum(b.Mul(rows, half), 1), s...)
	} else {
		sum = sumOfTaps(b, o.taps, func(j int) *ir.Value {
			return b.Mul(b.SliceAxis(rows, 1, j, j+s[1]), b.Broadcast(b.Reshape(b.SliceAxis(half, 1, j, j+1), s[0], s[2]), s, 0, 2))
		})
	}
	if o.bias != nil {
		own := of(b.Scale(b.Convert(b.Reshape(e.blocks[o.bias], heads, s[2]), ir.F32), .5))
		sum = b.Add(sum, b.Broadcast(own, s, 0, 2))
	}
	return b.Convert(siluOfTwice(b, sum), x.Type.DType)
}

// nextCaches are the blocks of the caches that the sequences of a step leave, [1, rows, channels], or after each token of a window as many side by side.
func (e *tiles) nextCaches() (left []*ir.Value) {
	b, w := e.b.Stage("convolution"), e.s.CacheRows()
	first := 0
	if !e.s.Window {
		first = e.s.Tokens - 1
	}
	for j := range e.v.Mapping.Batch {
		var after []*ir.Value
		for t := first; t < e.s.Tokens; t++ {
			var channels []*ir.Value
			for _, o := range []*operand{e.in.q, e.in.k, e.in.v} {
				rows := e.lying[o.conv]
				heads := rows.Type.Shape[0] / e.v.Mapping.Batch
				for h := j * heads; h < (j+1)*heads; h++ {
					y := b.SliceAxis(b.SliceAxis(rows, 0, h, h+1), 1, t+1, t+1+w)
					channels = append(channels, b.Reshape(y, w, y.Type.Shape[2]))
				}
			}
			after = append(after, b.Reshape(b.Convert(b.Concat(1, channels...), e.s.DType), 1, w, e.s.ConvChannels()))
		}
		left = append(left, b.Concat(0, after...))
	}
	return left
}
