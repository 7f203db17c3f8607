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
	erase    *ir.Value      // [N, C, K], of a rule that erases and writes apart
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
	if o := e.in.erase; e.blocks[o] != nil {
		w.erase = e.loadApart(o, e.s.NegEigval)
	}
	if e.in.raw && w.beta != nil {
		w.beta = gate.Beta(b, w.beta, e.s.NegEigval)
	}
	if e.copying() {
		w.g, w.beta = tile.Each(e.ofStep, w.g), tile.Each(e.ofStep, w.beta)
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

// decay is that of the gates between tokens; nil in a rule without decay.
func (e *gated) decay(w gates) *ir.Value {
	e.b.Stage("decay")
	return e.Between(w.g, w.beta, w.Sums)
}
