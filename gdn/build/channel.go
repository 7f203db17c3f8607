package build

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// channelwise reports whether each key channel has a decay. The log decay is then [N, C, K] instead of [N, C], has v's layout, and its sums and
// exponentials are in channel.Decay.
func (e *gated) channelwise() bool { return e.s.Rule.Channels() }

// loadChannels loads the log decays of channels [N, C, K] f32, in the base of their sums. It computes them from raw gates if that is the kernel's
// task.
//
// The base is e, or 2 if the hardware has 2^x (decay=base2): log decays are then multiplied by log2(e), and their sums need no further factor. A bounded
// decay, bound sigmoid(r x), absorbs the factor into its bound, which saves a product; others are scaled.
func (e *gated) loadChannels() *channel.Decay {
	b, base := e.b.Stage("gates"), channel.Nat(e.v)
	d := &channel.Decay{Tools: channel.Tools{Builder: e.b, Variant: e.v, Bound: e.s.Bound, Chunk: e.c, Dot: e.Dot, Store: e.Store, Split: e.Split, Iota: e.Iota, Concat: e.Concat, Masked: e.Masked,
		Moved: func(x *ir.Value, f func(*ir.Value) *ir.Value) *ir.Value { return tile.Mapped(e.Body, x, f) }}}
	rows := e.loadRows(e.in.g)
	if e.v.Algo == gdn.AlgoToken {
		rows = e.together(rows)
	}
	d.Log = b.Convert(rows, ir.F32)
	// A raw gate with a bound already includes the factor of the base.
	bounded := false
	if e.in.aLog != nil {
		aLog, dt := gate.Held(b, e.ofHead(e.in.aLog), e.ofHead(e.in.dt), e.s.Bound)
		d.Log = gate.Decay(b, d.Log, aLog, dt, e.s.Bound*base)
		bounded = e.s.Bound != 0
	}
	if base != 1 && !bounded {
		d.Log = b.Scale(d.Log, base)
	}
	d.Log = e.own(d.Log)
	return d
}

// together brings rows [N, C, K] of a few tokens to [C, N, K], one tile for all entries of a token. Tiles of a single entry would leave registers empty and
// be transposed to columns one by one.
func (e *gated) together(rows *ir.Value) *ir.Value { return e.b.Keep(e.b.Transpose(rows, 1, 0, 2)) }

// ofHead broadcasts A_log or dt_bias [N, K] over tokens, in the layout of the log decay: over C rows, or for tokens to [C, N, K].
// If the kernel copies, they have the spec's shapes, [Hv, K], or [1, Hv] for all channels, which is transposed first.
func (e *gated) ofHead(o *operand) *ir.Value {
	x := e.blocks[o]
	if e.copying() {
		if x.Type.Shape[0] != e.s.HeadsV || e.s.HeadsV == 1 && x.Type.Shape[1] == 1 {
			x = gate.Upright(e.b, x, e.s.K)
		}
		x = e.Over(e.v.Mapping.Batch, x)
	}
	x = e.b.Reshape(x, e.entries(), e.s.K)
	if e.v.Algo == gdn.AlgoToken {
		return e.b.Broadcast(x, []int{e.c, e.entries(), e.s.K}, 1, 2)
	}
	return e.Row(x, e.c)
}

// headChannels describes [Hv, K], or [Hv] for all channels, to the grids as [Hv/heads, N, K], the same for all chunks in flight and batch rows of a step.
// headScales is the equivalent for per-head decays.
func (p *plan) headChannels(x *ir.Value) *operand {
	b, v, s := p.b, p.v, p.s
	if p.copying() {
		if x.Type.Rank() == 1 {
			x = b.Reshape(x, 1, s.HeadsV)
		}
		return whole(x)
	}
	programs := s.HeadsV / v.Mapping.Heads
	if x.Type.Rank() == 1 {
		x = b.Broadcast(x, []int{s.HeadsV, s.K}, 0)
	}
	x = b.Broadcast(b.Reshape(x, programs, v.Mapping.Heads, s.K), []int{programs, v.Mapping.Chunks * v.Mapping.Batch, v.Mapping.Heads, s.K}, 0, 2, 3)
	lead, at := p.headPrograms()
	return &operand{
		value: b.Reshape(x, join(lead, []int{p.entries(), s.K})...),
		axes:  join(at, []axis{axisNone, axisNone}),
		block: join(ones(len(lead)), []int{p.entries(), s.K}),
	}
}
