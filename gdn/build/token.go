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
// where it stays in the order of the spec.
//
// A step has up to 16 tokens of a sequence, C here, loaded as the rows of a chunk are, so that one window serves a short prompt and a decode step of one
// token alike. N is batch rows x heads. internal/recurrence has what a token does to a state.
func (e *tokenwise) token() []blockOut {
	if e.v.Unit == gdn.UnitMatrix && e.v.KQ == gdn.JointSeparate {
		return e.tokenMatrix()
	}
	return e.tokenNative()
}

// tokenMatrix has the products of the recurrence on the matrix unit: K S as [1, K] by [K, V], the update as [K, 1] by [1, V], and Q S as K S, of states
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

// tokenNative works on states in the order of the spec: what servers have, a token or a few for each of many sequences. On the matrix unit K S and Q S are one product, before the update. On
// the vector unit K S is made of products and sums, and Q S too unless its precision is below f32 and k is last or the kernel norms q; what runs along
// the rows of the state is a column.
//
// A token is [Nk, K] of q and k, [N, V] of v, a row for each entry, sliced from [N, C, D] at i. What is made of all tokens at once, norms and gates,
// is made before the first: only the state and what reads it go from token to token. The states after each are noted, for a spec that wants them.
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

// recurrence takes tokens through the states of the step. tokenMatrix asks it for what a token writes, and does the rest itself.
func (e *tokenwise) recurrence() *recurrence.Step {
	return &recurrence.Step{Body: e.Body, Spec: e.s, Group: e.gb, State: e.state}
}

// tokenKey is loadKey, where each channel has a decay made in one tile for all entries of a token if that is wanted: [N, C, K] becomes [C, N, K] for the
// norm, and comes back. A tile of one row for each entry would be normalized row by row.
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

// spreads is the number of lane i of [N, C], or of entry i of [C, N, lanes], over the tiles of a state.
//
// The first is how gates lie as windows, a token in a lane. The second is what ofStep gives a kernel that copies: each number is in all lanes already, so
// that over a state of as many lanes it is spread over the rows alone.
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

// spreadDecay is spreads of the decay, or that of token i of [C, N, K] over a state [N, K, V], or [N, V, K] if turned: a column of channels over the
// lanes, or a row over the rows.
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

// tokenDecay is exp(g), [N, C], or [C, N, K] of channels, or [C, N, lanes] all alike; nil where the rule has no decay. It is one exponential of all tokens, in base e:
// there are no sums that a power of 2 would serve.
func (e *tokenwise) tokenDecay(w chunkwise.Gates) *ir.Value {
	if w.Channels != nil {
		return e.b.Exp(w.Channels.Log)
	}
	if w.G == nil {
		return nil
	}
	return e.b.Exp(w.G)
}

// native says whether the state stays in the order and type of the spec: it is read and written by the kernel as it is. The body has it in float32 all the
// same, from its load to its store.
func (p *plan) native() bool { return p.v.Native() }

// stateDType is the element type of the states between grids and glue.
func (p *plan) stateDType() ir.DType {
	if p.native() {
		return p.s.StateDType
	}
	return ir.F32
}

// once says whether one step of the grid takes a sequence from its initial to its final state, which then are an input and an
// output of the grid: nothing is carried, and no step waits for another.
func (p *plan) once() bool { return p.native() && p.nc == p.v.Mapping.Chunks && p.s.Seqs == 0 }

// pooled says whether the grid looks up the states of its sequences in a pool, and leaves the others alone. Where states are carried, they are gathered
// before and put back after (stateOperand, stateOut), copies of all that a call names.
func (p *plan) pooled() bool { return p.once() && p.s.Pool > 0 }

// striding says whether sequences of a step lie as many places from one another as there are steps (gridding.spaced). Those of a mixed batch lie side by side, so that the first ones are
// in the first steps, which are all that run; its lists of states are in the order of the places.
func (p *plan) striding() bool { return p.pooled() && p.runs == nil }

// copying says whether the kernel copies what its steps take and give itself, some steps before and after: a step's states arrive and leave
// beside the work of others.
//
// A window by table does the same in principle, but of a pool each of a step's sequences is a window of its own, and a name that no state has must neither
// be read nor written. With main=yes a kernel of a pool's form does it for states in order too: a program has all heads then, so that steps follow one
// another along one axis.
func (p *plan) copying() bool {
	return p.pooled() || p.once() && p.s.Init && p.v.Forward.Main && p.v.Mapping.Heads == p.s.HeadsV
}

// stepsAhead is how many steps before its own a step's states are fetched: while one step computes, those of the next two are on their way, and those of the
// last are leaving.
const stepsAhead = 2

// pool names the states of the sequences, for what gathers them as for what looks them up. With checkpoints a name is of a group of as many.
func (p *plan) pool() pool.Of {
	return pool.Of{Written: p.args["state_indices"], Read: p.args["read_indices"], Group: p.s.Checkpoints(), States: p.s.Pool, Clean: p.clean}
}
