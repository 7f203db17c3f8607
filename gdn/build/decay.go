package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// gates are the gates of N entries, each [N, C] f32.
type gates struct {
	tile.Sums
	g, beta  *ir.Value      // log decay; nil where each channel has one
	channels *channel.Decay // where each channel has a decay, in place of g and its sums
}

// each is what f makes of each of them.
func (w gates) each(f func(*ir.Value) *ir.Value) *gates {
	to := gates{g: f(w.g), beta: f(w.beta), Sums: tile.Sums{Sum: f(w.Sum), Left: f(w.Left)}}
	for _, x := range w.Parts {
		to.Parts = append(to.Parts, f(x))
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
		w.g = gate.Decay(b, w.g, e.loadGate(e.in.aLog), e.loadGate(e.in.dt), 0)
	}
	if e.in.raw && w.beta != nil {
		w.beta = gate.Beta(b, w.beta, e.s.NegEigval)
	}
	if e.s.Direction != gdn.Forward && w.beta != nil {
		w.beta = b.Max(w.beta, b.Like(w.beta, betaFloor))
	}
	return w
}

// sums fills the sums; a rule without decay has none.
func (e *gated) sums(w *gates) {
	switch {
	case w.channels != nil:
		e.b.Stage("decay")
		w.channels.Cut()
	case w.g != nil:
		w.Sums = e.SumsOf(w.g)
		w.g = w.Log
	}
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
			d = b.Add(d, e.Row(e.Log(w.beta), c))
		}
	} else {
		d = e.differences(b, w, func(upto, after *ir.Value) *ir.Value {
			own := e.Column(upto, c)
			if e.v.RowBroadcast == gdn.BroadcastTranspose {
				own = b.Transpose(e.Row(upto, c), 0, 2, 1)
			}
			return b.Sub(own, e.Row(after, c))
		})
	}
	if e.v.Inverse.Mask == gdn.MaskWords {
		return e.Exp(d)
	}
	seen := e.Over(n, b.Compare(ir.GE, ri, ci))
	if e.Visits != nil {
		seen = b.And(seen, e.OfVisits(n, func(visit int) *ir.Value { return e.Visits.Together(visit, ri, ci) }))
	}
	return e.Exp(b.Select(seen, d, b.Like(d, masked)))
}

// differences sums, over the parts of the log decay, what between makes of its sums up to one token and up to another. The latter take
// the logarithm of beta where that is an exponent.
func (e *gated) differences(b *ir.Builder, w gates, between func(upto, after *ir.Value) *ir.Value) (d *ir.Value) {
	for i, g := range w.Parts {
		after := g
		if i == 0 && e.v.Beta == gdn.BetaExponent {
			after = b.Sub(g, e.Log(w.beta))
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
