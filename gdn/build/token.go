package build

import (
	"cmp"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/gdn/build/internal/gate"
	"github.com/gdngen/gdngen/gdn/build/internal/pool"
	"github.com/gdngen/gdngen/gdn/build/internal/recurrence"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// token takes the tokens of a grid step through the recurrence one by one. The state of N entries is [N, K, V], or [N, V, K]
// if it stays in the order of the spec; N is batch rows x heads.
//
// A step has up to 16 tokens of a sequence, C here, loaded like the rows of a chunk. So one kind of window serves a short prompt and a decode step of one
// token. internal/recurrence has the work of one token.
func (e *tokenwise) token() []blockOut {
	if e.v.Unit == gdn.UnitMatrix && e.v.KQ == gdn.JointSeparate {
		return e.tokenMatrix()
	}
	return e.tokenNative()
}

// tokenMatrix computes the recurrence's products on the MXU: K S as [1, K] by [K, V], the update as [K, 1] by [1, V], and Q S as K S, for states
// [K, V] in float32.
func (e *tokenwise) tokenMatrix() []blockOut {
	q, k := e.perValue(e.loadKey(e.in.q)), e.perValue(e.loadKey(e.in.k))
	v := e.loadValues()
	w := e.loadGates()
	reads := e.rule().Reading(w, k)
	b := e.b.Stage("state")
	q = b.Convert(q, ir.F32)
	q = b.Scale(q, e.s.EffectiveScale())
	decay := e.tokenDecay(w)
	step := e.recurrence()
	var outs []*ir.Value
	for i := range e.c {
		at := func(x *ir.Value) *ir.Value { return b.SliceAxis(x, 1, i, i+1) }
		s := e.state
		if decay != nil {
			s = b.Mul(s, e.spreadDecay(decay, i, false)(e.s.K, e.s.V))
		}
		u := step.Written(at(v), func() *ir.Value { return e.Dot(at(cmp.Or(reads, k)), s, false, false, e.v.Numerics.PrecState) },
			func() *ir.Value { return e.spreads(w.Beta, i)(1, e.s.V) })
		s = b.Add(s, e.Dot(at(k), u, true, false, e.v.Numerics.PrecState))
		outs = append(outs, e.Dot(at(q), s, false, false, e.v.Numerics.PrecState))
		e.state, e.after = s, append(e.after, s)
	}
	b.Stage("output")
	return []blockOut{e.output([]*ir.Value{e.kept(b.Concat(1, outs...))})}
}

// tokenNative uses states in the order of the spec, as in a server: one or a few tokens for each of many sequences. On the MXU K S and Q S are one product,
// before the update. On the vector unit K S is products and sums. So is Q S, unless its precision is below f32 and k is last or the kernel normalizes q.
// Vectors along the rows of the state become columns.
//
// A token is [Nk, K] of q and k, [N, V] of v, one row per entry, sliced from [N, C, D] at i. Norms and gates are computed for all tokens before the first,
// so only the state and its readers depend on earlier tokens. The states after each token are recorded for specs with such outputs.
func (e *tokenwise) tokenNative() []blockOut {
	b := e.b.Stage("load")
	flat := func(x *ir.Value) *ir.Value { return b.Convert(x, ir.F32) }
	q, k := flat(e.tokenKey(e.in.q, e.s.L2Norm)), flat(e.tokenKey(e.in.k, true))
	v := e.loadValues()
	w := e.loadGates()
	reads := e.rule().Reading(w, k)
	decay := e.tokenDecay(w)
	step := e.recurrence()
	q = step.Query(q)
	b.Stage("state")
	var outs []*ir.Value
	for i := range e.c {
		at := func(x *ir.Value) *ir.Value {
			return b.Reshape(b.SliceAxis(x, 1, i, i+1), x.Type.Shape[0], x.Type.Shape[2])
		}
		outs = append(outs, step.Token(at(q), at(k), tile.Each(at, reads), at(v), e.spreadDecay(decay, i, e.s.State == gdn.StateVK), e.spreads(w.Beta, i)))
		e.state = step.State
		e.after = append(e.after, e.state)
	}
	b.Stage("output")
	return []blockOut{e.output([]*ir.Value{e.kept(b.Concat(1, outs...))})}
}

// recurrence takes tokens through the states of the step. tokenMatrix only uses its written values, and computes the rest itself.
func (e *tokenwise) recurrence() *recurrence.Step {
	return &recurrence.Step{Body: e.Body, Spec: e.s, Group: e.gb, State: e.state}
}

// tokenKey is loadKey. With per-channel decays and together, it normalizes all entries of a token in one tile: [N, C, K] becomes [C, N, K] and
// back. A tile of one row per entry would be normalized row by row.
func (e *tokenwise) tokenKey(o *operand, together bool) *ir.Value {
	if !together || !e.channelwise() {
		return e.loadKey(o)
	}
	x := e.together(e.loadTokens(o))
	if e.s.L2Norm && e.v.Fuse == gdn.PlaceKernel {
		x = gate.NormRows(e.b, x)
	}
	return e.b.Transpose(e.b.Convert(x, ir.F32), 1, 0, 2)
}

// spreads broadcasts lane i of [N, C], or token i of [C, N, lanes], over the tiles of a state.
//
// The first form is a gate's window, one token per lane. The second comes from ofStep in a kernel that copies: each number fills all lanes already, so
// it is broadcast over rows only.
func (e *tokenwise) spreads(x *ir.Value, i int) recurrence.Spread {
	if x == nil {
		return func(rows, lanes int) *ir.Value { return nil }
	}
	if x.Type.Rank() == 2 {
		return func(rows, lanes int) *ir.Value { return e.Scalar(x, i, rows, lanes) }
	}
	own := e.b.Reshape(e.b.SliceAxis(x, 0, i, i+1), x.Type.Shape[1], x.Type.Shape[2])
	return func(rows, lanes int) *ir.Value {
		if lanes == own.Type.Shape[1] {
			return e.Row(own, rows)
		}
		return e.Scalar(own, 0, rows, lanes)
	}
}

// spreadDecay is spreads for the decay. Per-channel decays of token i, [C, N, K], are broadcast over a state [N, K, V] as a column over lanes, or over
// [N, V, K] (transposed) as a row over rows.
func (e *tokenwise) spreadDecay(x *ir.Value, i int, turned bool) recurrence.Spread {
	if !e.channelwise() {
		return e.spreads(x, i)
	}
	own := e.b.Reshape(e.b.SliceAxis(x, 0, i, i+1), x.Type.Shape[1], e.s.K)
	return func(rows, lanes int) *ir.Value {
		if turned {
			return e.Row(own, rows)
		}
		return tile.TurnedColumn(e.B, own, lanes)
	}
}

// tokenDecay returns exp(g), [N, C], or [C, N, K] per channel, or [C, N, lanes] with equal lanes; nil without decay. It is one exponential over all tokens,
// in base e, since there are no sums that base 2 would simplify.
func (e *tokenwise) tokenDecay(w chunkwise.Gates) *ir.Value {
	if w.Channels != nil {
		return e.b.Exp(w.Channels.Log)
	}
	if w.G == nil {
		return nil
	}
	return e.b.Exp(w.G)
}

// native reports whether the kernel reads and writes the state in the spec's own order and type. The body still computes
// in float32.
func (p *plan) native() bool { return p.v.Native() }

// stateDType returns the element type of the states between grids and XLA ops.
func (p *plan) stateDType() ir.DType {
	if p.native() {
		return p.s.StateDType
	}
	return ir.F32
}

// once reports whether one grid step takes a sequence from its initial to its final state. Then these are an input and an output
// of the grid, nothing is carried, and steps are independent.
func (p *plan) once() bool { return p.native() && p.nc == p.v.Mapping.Chunks && p.s.Seqs == 0 }

// pooled reports whether the grid looks up the states of its sequences in a pool, without touching others. Carried states are instead gathered
// before and scattered after the grid (stateOperand, stateOut), which copies all named states.
func (p *plan) pooled() bool { return p.once() && p.s.Pool > 0 }

// striding reports whether sequences of a step lie as many places from one another as there are steps (gridding.spaced). Those of a mixed batch lie side by side, so that the first ones are
// in the first steps, which are all that run; its lists of states are in the order of the places.
func (p *plan) striding() bool { return p.pooled() && p.runs == nil && p.named == nil }

// copying reports whether the kernel itself copies the inputs and outputs of its steps, some steps ahead and behind: copies of a step's states
// overlap the work of others.
//
// Windows by table could do the same. But with a pool each sequence of a step is its own window, and states outside of the pool must not
// be read or written. With hbm=yes a kernel in a pool's form does it for states in order too. A program has all heads then, so that steps follow one
// another along one axis.
func (p *plan) copying() bool {
	return p.pooled() || p.once() && p.s.Init && p.v.Forward.HBM && p.v.Mapping.Heads == p.s.HeadsV
}

// stepsAhead is the number of steps by which states are prefetched: while one step computes, the states of the next two are loading, and those of the
// last are being written back.
const stepsAhead = 2

// pool returns the state indices of the sequences, for gathering and for look-ups. With checkpoints an index names a group of states.
func (p *plan) pool() pool.Of {
	return pool.Of{Written: p.args["state_indices"], Read: p.args["read_indices"], Group: p.s.Checkpoints(), States: p.s.Pool, Clean: p.clean}
}
