// Package chunkwise takes chunks of tokens through the states, tiles in and tiles out: a body loads what it is given, and has what it gives.
package chunkwise

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/inverse"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Rule is the rule of a spec in the body of a grid step.
type Rule struct {
	*tile.Body
	Spec  gdn.Spec
	Group int // value heads of a program that share a key head
}

// Solver is what inverts.
func (e *Rule) Solver() *inverse.Solver { return &inverse.Solver{Body: e.Body} }

// Gates are those of N entries, each [N, C] f32.
type Gates struct {
	tile.Sums
	G, Beta  *ir.Value      // log decay; nil where each channel has one
	Erase    *ir.Value      // [N, C, K], of a rule that erases and writes apart
	Channels *channel.Decay // where each channel has a decay, in place of G and its sums
}

// Each is what f makes of each of them.
func (w Gates) Each(f func(*ir.Value) *ir.Value) *Gates {
	to := Gates{G: f(w.G), Beta: f(w.Beta), Sums: tile.Sums{Sum: f(w.Sum), Left: f(w.Left)}}
	for _, x := range w.Parts {
		to.Parts = append(to.Parts, f(x))
	}
	return &to
}

// PerValue repeats what belongs to key heads for each value head of the program.
func (e *Rule) PerValue(x *ir.Value) *ir.Value { return tile.Repeated(e.B, x, e.Group) }

// PerKey sums over the value heads of each key head.
func (e *Rule) PerKey(x *ir.Value) *ir.Value { return tile.Summed(e.B, x, e.Group) }

// Normalizes says whether products take queries and keys that the kernel is to normalize as they are.
func (e *Rule) Normalizes() bool {
	return e.Spec.L2Norm && e.V.Fuse == gdn.PlaceKernel && e.V.Algo == gdn.AlgoChunk
}

// Sums fills the sums; a rule without decay has none.
func (e *Rule) Sums(w *Gates) {
	switch {
	case w.Channels != nil:
		e.B.Stage("decay")
		w.Channels.Cut()
	case w.G != nil:
		w.Sums = e.SumsOf(w.G)
		w.G = w.Log
	}
}

// Decay is that of the gates between tokens; nil in a rule without decay.
func (e *Rule) Decay(w Gates) *ir.Value {
	e.B.Stage("decay")
	return e.Between(w.G, w.Beta, w.Sums)
}

// Reading is b K of value heads in float32, of k of key or value heads; nil in a rule that reads by K.
func (e *Rule) Reading(w Gates, k *ir.Value) *ir.Value {
	if w.Erase == nil {
		return nil
	}
	b := e.B.Stage("operands")
	if k.Type.Shape[0] < w.Erase.Type.Shape[0] {
		k = e.PerValue(k)
	}
	return b.Mul(b.Convert(k, ir.F32), w.Erase)
}

// scaled is what is made of q, times the scale unless the output takes it.
func (e *Rule) scaled(x *ir.Value) *ir.Value {
	if e.V.Scale == gdn.ScaleOutput {
		return x
	}
	return e.B.Scale(x, e.Spec.EffectiveScale())
}
