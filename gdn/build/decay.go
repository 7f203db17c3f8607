package build

import (
	"math"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/ir"
)

// gates are the gates of N entries, each [N, C] f32.
type gates struct {
	g, beta  *ir.Value      // log decay, clamped where the variant says so; nil where each channel has one
	parts    []*ir.Value    // inclusive prefix sums of the parts that g is split into
	sum      *ir.Value      // inclusive prefix sums of g
	left     *ir.Value      // sum of g after each token
	channels *channel.Decay // where each channel has a decay, in place of g and its sums
}

// each is what f makes of each of them.
func (w gates) each(f func(*ir.Value) *ir.Value) *gates {
	to := gates{g: f(w.g), beta: f(w.beta), sum: f(w.sum), left: f(w.left)}
	for _, x := range w.parts {
		to.parts = append(to.parts, f(x))
	}
	return &to
}

// loadGates loads the gates, computing them from their raw form where that is the kernel's task.
func (e *gated) loadGates() gates {
	b := e.b.Stage("gates")
	var w gates
	if e.channelwise() {
		w.channels = e.loadChannels()
	} else if e.in.g != nil {
		w.g = e.loadGate(e.in.g)
	}
	if o := e.in.beta; e.blocks[o] != nil {
		w.beta = e.loadGate(o)
	}
	if e.in.aLog != nil && !e.channelwise() {
		w.g = decayGate(b, w.g, e.loadGate(e.in.aLog), e.loadGate(e.in.dt), 0)
	}
	if e.in.raw && w.beta != nil {
		w.beta = betaGate(b, w.beta, e.s.NegEigval)
	}
	if e.s.Direction != gdn.Forward && w.beta != nil {
		w.beta = b.Max(w.beta, b.Like(w.beta, betaFloor))
	}
	return w
}

// coarse is the step of the coarse part of a split decay: its sums over a chunk are exact in float32, and those of the
// rest are below 1.
const coarse = 1.0 / 256

// sums fills the sums by products with triangles of ones; a suffix is summed by itself, so nothing cancels. A rule without decay has none.
func (e *gated) sums(w *gates) {
	b, c := e.b, e.c
	if w.channels != nil {
		e.b.Stage("decay")
		w.channels.Cut()
		return
	}
	if w.g == nil {
		return
	}
	if e.v.Decay != gdn.DecaySegment {
		w.g = b.Max(w.g, b.Like(w.g, channel.ResetFloor))
	}
	if e.v.Decay == gdn.DecayBase2 {
		e.base2Sums(w)
		return
	}
	times := func(g *ir.Value, cmp ir.Cmp) *ir.Value {
		t := ir.T(ir.F32, c, c)
		ones := b.Select(b.Compare(cmp, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
		return b.MatMul(g, ones, false, false, ir.PrecF32)
	}
	parts := []*ir.Value{w.g}
	if e.v.Decay == gdn.DecaySplit {
		steps := b.Convert(b.Convert(b.Scale(w.g, 1/coarse), ir.I32), ir.F32)
		most := b.Scale(steps, coarse)
		parts = []*ir.Value{most, b.Sub(w.g, most)}
	}
	for _, g := range parts {
		g = times(g, ir.LE)
		w.parts = append(w.parts, g)
		if w.sum == nil {
			w.sum = g
		} else {
			w.sum = b.Add(w.sum, g)
		}
	}
	w.left = times(w.g, ir.GT)
}

// base2Sums are the sums of g log2(e), as bf16 parts of g by a triangle of ones: two, or the three that are all of a float32
// where the label is above bf16x1.
func (e *gated) base2Sums(w *gates) {
	b, c := e.b, e.c
	w.g = b.Scale(w.g, math.Log2E)
	t := ir.T(ir.BF16, c, c)
	ones := b.Select(b.Compare(ir.LE, e.Iota(c, c, 0), e.Iota(c, c, 1)), b.Const(t, 1), b.Const(t, 0))
	for _, part := range e.Split(w.g, e.sumParts()) {
		part = b.MatMul(part, ones, false, false, ir.PrecBF16x1)
		if w.sum == nil {
			w.sum = part
		} else {
			w.sum = b.Add(w.sum, part)
		}
	}
	w.parts = []*ir.Value{w.sum}
	w.left = b.Sub(b.Broadcast(b.SliceAxis(w.sum, 1, c-1, c), w.sum.Type.Shape, 0, 1), w.sum)
}

// sumParts is the number of bf16 parts of a log decay that sums take.
func (e *gated) sumParts() int {
	if e.v.Precision() == ir.PrecBF16x1 {
		return 2
	}
	return 3
}

// exp is the exponential in the base of the sums, nil where there are none; log its inverse.
func (e *gated) exp(x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	if e.v.Decay == gdn.DecayBase2 {
		return e.b.Unary(ir.OpExp2, x)
	}
	return e.b.Exp(x)
}

func (e *gated) log(x *ir.Value) *ir.Value {
	if e.v.Decay == gdn.DecayBase2 {
		return e.b.Unary(ir.OpLog2, x)
	}
	return e.b.Unary(ir.OpLog, x)
}

// decay is exp of the sum of g after token j up to token i, at [N, i, j], times beta of j where that is in the exponent (the
// logarithm of 0 is -Inf, whose exponential is 0); for
// j after i it is 0, or anything where masks are on words. It is nil in a rule without decay.
func (e *gated) decay(w gates) *ir.Value {
	b, c := e.b.Stage("decay"), e.c
	if w.g == nil {
		return nil
	}
	n := w.g.Type.Shape[0]
	ri, ci := e.Iota(c, c, 0), e.Iota(c, c, 1)
	var d *ir.Value
	if e.v.Decay == gdn.DecaySegment {
		t := ir.T(ir.F32, c, c)
		upto := b.Select(b.Compare(ir.GE, ri, ci), b.Const(t, 1), b.Const(t, 0))
		after := e.Over(n, b.Compare(ir.GT, ri, ci))
		g := e.Column(w.g, c)
		d = b.MatMul(e.Over(n, upto), b.Select(after, g, b.Like(g, 0)), false, false, ir.PrecF32)
		if e.v.Beta == gdn.BetaExponent {
			d = b.Add(d, e.Row(e.log(w.beta), c))
		}
	} else {
		d = e.differences(b, w, func(upto, after *ir.Value) *ir.Value {
			own := e.Column(upto, c)
			if e.v.Spread == gdn.SpreadTurned {
				own = b.Transpose(e.Row(upto, c), 0, 2, 1)
			}
			return b.Sub(own, e.Row(after, c))
		})
	}
	if e.v.Mask == gdn.MaskWords {
		return e.exp(d)
	}
	seen := e.Over(n, b.Compare(ir.GE, ri, ci))
	if e.Visits != nil {
		seen = b.And(seen, e.OfVisits(n, func(visit int) *ir.Value { return e.Visits.Together(visit, ri, ci) }))
	}
	return e.exp(b.Select(seen, d, b.Like(d, masked)))
}

// differences sums, over the parts of the log decay, what between makes of its sums up to one token and up to another. The latter take
// the logarithm of beta where that is an exponent.
func (e *gated) differences(b *ir.Builder, w gates, between func(upto, after *ir.Value) *ir.Value) (d *ir.Value) {
	for i, g := range w.parts {
		after := g
		if i == 0 && e.v.Beta == gdn.BetaExponent {
			after = b.Sub(g, e.log(w.beta))
		}
		part := between(g, after)
		if d == nil {
			d = part
		} else {
			d = b.Add(d, part)
		}
	}
	return d
}

// masked is a log decay that is zero after exp.
const masked = -1e30
