package build

import (
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/gradient"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// loadGates loads the gates. It computes them from their raw form if that is the kernel's task.
//
//	G         [N, C]      g, or -exp(A_log) softplus(a + dt_bias)       nil without decay, and for per-channel decays (in Channels)
//	Beta      [N, C]      beta, or sigmoid(b), twice that with negeig   nil for additive rules, and with split gates
//	Erase     [N, C, K]   erase, or sigmoid(b), twice that with negeig
//
// In a kernel that copies, tokens are [C, N, lanes] instead of [N, C] (tiles.ofStep). The write gate is applied when values are loaded (loadValues).
//
// Gradients divide by beta, and beta=exponent takes its logarithm, so in training beta has a positive floor. In the forward pass exp(log(0)) is 0, as
// it should be.
func (e *gated) loadGates() chunkwise.Gates {
	b := e.b.Stage("gates")
	var w chunkwise.Gates
	if e.channelwise() {
		w.Channels = e.loadChannels()
	} else if e.in.g != nil {
		w.G = e.loadGate(e.in.g)
	}
	if o := e.in.beta; e.blocks[o] != nil {
		w.Beta = e.loadGate(o)
	}
	if e.in.aLog != nil && !e.channelwise() {
		e.cutScales()
		aLog, dt := gate.Held(b, e.loadGate(e.in.aLog), e.loadGate(e.in.dt), 0)
		w.G = gate.Decay(b, w.G, aLog, dt, 0)
	}
	if o := e.in.erase; e.blocks[o] != nil {
		w.Erase = e.loadSplitGate(o, e.s.NegEigval)
	}
	if e.in.raw && w.Beta != nil {
		w.Beta = gate.Beta(b, w.Beta, e.s.NegEigval)
	}
	if e.copying() {
		w.G, w.Beta = tile.Each(e.ofStep, w.G), tile.Each(e.ofStep, w.Beta)
	}
	w.G, w.Beta = e.own(w.G), e.own(w.Beta)
	if e.s.Direction != gdn.Forward && w.Beta != nil {
		w.Beta = b.Max(w.Beta, b.Like(w.Beta, gradient.BetaFloor))
	}
	return w
}

// cutScales splits the joint array of A_log and dt_bias (headScales) into blocks, the same for all interleaved entries of a step. Further calls do
// nothing.
func (e *gated) cutScales() {
	o, n := e.in.scales, e.v.Mapping.Heads
	if o == nil || e.blocks[e.in.aLog] != nil {
		return
	}
	all := e.b.Stage("gates").Reshape(e.blocks[o], 2*n, e.c)
	for i, half := range []*operand{e.in.aLog, e.in.dt} {
		x := e.b.SliceAxis(all, 0, i*n, (i+1)*n)
		e.blocks[half] = e.b.Concat(0, slices.Repeat([]*ir.Value{x}, e.entries()/n)...)
	}
}
