// Package chunkwise takes chunks of tokens through the states by matrix products, tiles in and tiles out.
//
// It is the chunkwise form of the delta rule (Yang et al., arXiv 2406.06484), with a decay a head (Gated DeltaNet, arXiv 2412.06464), a decay a
// channel of the key (Kimi Linear, arXiv 2510.26692), or none, and of additive rules, which have no inverse. gdn/build loads what a step of a grid
// reads, and describes what it gives; here are values of N entries, [N, rows, lanes], N being chunks in flight x batch rows x value heads. A step is
//
//	Sums       the sums of the log decay along the chunk              no state
//	Pairs      T and P: what every pair of tokens has in common       no state
//	Operands   K and Q as they meet a state                           no state
//	Through    one chunk after another through the state              waits for the chunk before
//
// # Why a chunk is a triangular system
//
// With S the state before the chunk, G_i = g_1 + ... + g_i and v'_j what token j writes, the state that token i finds, once it is decayed, is
//
//	e^(G_i) S + sum over j < i of e^(G_i - G_j) k_j v'_j^T
//
// and the rule writes v'_i = beta_i (v_i - what that state says of k_i). So v'_i is an affine function of the v'_j before it. All rows together:
//
//	(I + A) V' = beta (V - e^G K S),    A_ij = beta_i D_ij (k_i . k_j) for i > j, else 0,    D_ij = e^(G_i - G_j)
//
// A knows no state. So it is inverted ahead, T = (I + A)^-1, and one product with T replaces the walk over the tokens. In shapes and names:
//
//	Sum, Left  [N, C]        G, and the sum after each token             tile.SumsOf
//	D          [N, C, C]     0 for j > i                                 tile.Between
//	-A, P      [N, C, C]     P_ij = scale D_ij (q_i . k_j), i >= j       Rule.Weights
//	T          [N, C, C]     (I + A)^-1                                  inverse.Solver
//	V'         [N, C, V]     T beta (V - e^G K S)                        Chunks.written
//	O          [N, C, V]     scale e^G Q S + P V'                        Chunks.outputOf
//	S          [N, K, V]     e^(G_C) S + (e^(G_C - G) K)^T V'            Chunks.update, step
//
// # Example
//
// One channel, two tokens with k = q = 1, v = 1 and 2, decay 1/2, beta 1, scale 1, and S = 8. Token by token the state is halved to 4, -3 is
// written and leaves 1; it is halved to 1/2, 3/2 is written and leaves 2. As a chunk:
//
//	e^G = [1/2 1/4]   D = P = [  1   .]   A = [  .   .]   T = [   1   .]
//	                          [1/2   1]       [1/2   .]       [-1/2   1]
//	V - e^G K S = [1-4 2-2] = [-3 0]      V' = T [-3 0] = [-3 3/2]
//	O = [4 2] + P V' = [4-3 2-3/2+3/2] = [1 2]      S <- 8/4 + [1/2 1] V' = 2 - 3/2 + 3/2 = 2
//
// # Where beta stands
//
// With M_ij = D_ij (k_i . k_j), i > j, the system is (I + beta M) V' = beta R, R = V - e^G K S. It is also V' = beta U with (I + M beta) U = R: beta
// in the columns of M in place of its rows. Then V' need not be made: what reads it, P and the K of the update, has beta of its token.
//
//	beta=left      A = beta M   V' = T beta R   products of C x C numbers for A alone, and of [C, V] for R
//	beta=right     A = M beta   U  = T R        D times beta of the column, once for A and P
//	beta=exponent  A = M beta   U  = T R        ln beta of the column in the exponent of D: no product
//
// # What is held in which precision
//
// Gates, their sums and exponentials are float32, since an error of G is one of all weights of a token; decay_bf16 rounds weights where they meet what they
// weigh. The state is float32 between chunks, since what is
// rounded there is rounded again by every chunk, and products round or cut a copy of it. T, P, U and the weighed K and Q are stored for their products
// (Body.Store): rounded to bf16 by store=bf16, in two bf16 parts by split_at=def. Products add up in float32.
package chunkwise

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/inverse"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Rule has the parts of a rule, in the body of a grid step, that forward and backward pass share.
type Rule struct {
	*tile.Body
	Spec  gdn.Spec
	Group int // value heads of a program that share a key head
}

// Solver returns a solver for T = (I + A)^-1 that appends to the body.
func (e *Rule) Solver() *inverse.Solver { return &inverse.Solver{Body: e.Body} }

// Gates are the gates of N entries, each [N, C] f32. A gate that the rule lacks is nil: a beta of 1, or a log decay of
// 0, for which no multiplication is emitted. DeltaNet has only Beta, simple gated linear attention only G, linear
// attention neither.
type Gates struct {
	tile.Sums
	G, Beta  *ir.Value      // log decay; nil where each channel has one
	Erase    *ir.Value      // [N, C, K], of a rule with separate erase and write gates
	Channels *channel.Decay // where each channel has a decay, in place of G and its sums
}

// Each returns the gates with f applied to G, Beta and the sums; Erase and Channels are not copied. A stream of chunks
// computes the gates of all chunks before its loop, and selects those of a step with Each.
func (w Gates) Each(f func(*ir.Value) *ir.Value) *Gates {
	to := Gates{G: f(w.G), Beta: f(w.Beta), Sums: tile.Sums{Sum: f(w.Sum), Tail: f(w.Tail)}}
	for _, x := range w.Parts {
		to.Parts = append(to.Parts, f(x))
	}
	return &to
}

// PerValue repeats x [N of key heads, ...] for each value head of the program.
//
// With 2 key heads of 4 value heads, Group is 2 and [K0 K1] becomes [K0 K0 K1 K1]: value head h reads key head h / 2.
func (e *Rule) PerValue(x *ir.Value) *ir.Value { return tile.Repeated(e.B, x, e.Group) }

// PerKey sums over the value heads of each key head: the gradient of PerValue.
func (e *Rule) PerKey(x *ir.Value) *ir.Value { return tile.Summed(e.B, x, e.Group) }

// Normalizes reports whether the kernel normalizes queries and keys after their products: the products take them
// unnormalized, and norms computes the lengths.
//
// Scaling a bf16 key to length 1 before a product would round it to bf16 once more. So chunks multiply the products by
// the inverse lengths instead. The token recurrence scales the rows that it loads.
func (e *Rule) Normalizes() bool {
	return e.Spec.L2Norm && e.V.Fuse == gdn.PlaceKernel && e.V.Algo == gdn.AlgoChunk
}

// Sums fills the sums; a rule without decay has none. G becomes the log decay as it was summed: clamped, and in the base of the sums.
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

// Decay returns D [N, C, C], the decay between tokens, including beta of the column with beta=exponent; nil in a rule
// without decay.
func (e *Rule) Decay(w Gates) *ir.Value {
	e.B.Stage("decay")
	return e.Between(w.G, w.Beta, w.Sums)
}

// Reading returns b K [N of value heads, C, K] in float32, for k of key or value heads; nil in a rule that reads the
// state by K.
//
// In a rule with separate erase and write gates, S <- S + k (w v - S^T (b k))^T, the key that reads is not the key that
// is written. So b K is in the rows of A and in K S, and K is in the columns of A and P and in the update.
func (e *Rule) Reading(w Gates, k *ir.Value) *ir.Value {
	if w.Erase == nil {
		return nil
	}
	b := e.B.Stage("operands")
	if k.Type.Shape[0] < w.Erase.Type.Shape[0] {
		k = e.PerValue(k)
	}
	return b.Mul(b.Convert(k, ir.F32), w.Erase).Called("bk")
}

// scaled is what is made of q, times the scale unless the output takes it (scale=output): then both terms of O lack it alike, and one product with
// the outputs [N, C, V] has it.
func (e *Rule) scaled(x *ir.Value) *ir.Value {
	if e.V.Scale == gdn.ScaleOutput {
		return x
	}
	return e.B.Scale(x, e.Spec.EffectiveScale()).Called(ir.NameOf(x) + "_scaled")
}
