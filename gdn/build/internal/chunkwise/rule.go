// Package chunkwise takes chunks of tokens through the states by matrix products, tiles in and tiles out.
//
// This is the chunkwise form of the delta rule (Yang et al., arXiv 2406.06484) with a decay per head (Gated DeltaNet, arXiv 2412.06464), a decay per key
// channel (Kimi Linear, arXiv 2510.26692), or none, and of additive rules, which have no inverse. gdn/build loads the inputs of a grid step
// and describes its outputs. Values here have N entries, [N, rows, lanes], N = chunks in flight x batch rows x value heads. A step is
//
//	Sums       the sums of the log decay along the chunk              no state
//	Pairs      T and P, for pairs of tokens                           no state
//	Operands   K and Q for products with the state                    no state
//	Through    one chunk after another through the state              depends on the previous chunk
//
// # Why a chunk is a triangular system
//
// With S the state before the chunk, G_i = g_1 + ... + g_i and v'_j the value written by token j, token i reads the decayed state
//
//	e^(G_i) S + sum over j < i of e^(G_i - G_j) k_j v'_j^T
//
// and the rule writes v'_i = beta_i (v_i - the value that this state returns for k_i), an affine function of the earlier v'_j. All rows together:
//
//	(I + A) V' = beta (V - e^G K S),    A_ij = beta_i D_ij (k_i . k_j) for i > j, else 0,    D_ij = e^(G_i - G_j)
//
// A does not depend on the state. So T = (I + A)^-1 is computed ahead, and one product with T replaces the walk over the tokens. Shapes and names:
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
// One channel, two tokens with k = q = 1, v = 1 and 2, decay 1/2, beta 1, scale 1, and S = 8. Token by token: the state decays to 4, -3 is
// written, it is 1; it decays to 1/2, 3/2 is written, it is 2. As a chunk:
//
//	e^G = [1/2 1/4]   D = P = [  1   .]   A = [  .   .]   T = [   1   .]
//	                          [1/2   1]       [1/2   .]       [-1/2   1]
//	V - e^G K S = [1-4 2-2] = [-3 0]      V' = T [-3 0] = [-3 3/2]
//	O = [4 2] + P V' = [4-3 2-3/2+3/2] = [1 2]      S <- 8/4 + [1/2 1] V' = 2 - 3/2 + 3/2 = 2
//
// # Placement of beta
//
// With M_ij = D_ij (k_i . k_j), i > j, the system is (I + beta M) V' = beta R, R = V - e^G K S. Equivalently V' = beta U with (I + M beta) U = R: beta
// is in the columns of M instead of its rows. Then V' is not needed, since its readers, P and the K of the update, include beta of its token.
//
//	beta=left      A = beta M   V' = T beta R   products of C x C numbers for A only, and of [C, V] for R
//	beta=right     A = M beta   U  = T R        D times beta of the column, once for A and P
//	beta=exponent  A = M beta   U  = T R        ln beta of the column in the exponent of D: no product
//
// # Precision
//
// Gates, their sums and exponentials are float32, since an error of G affects all weights of a token. decay_bf16 rounds weights where they are applied.
// The state is float32 between chunks, since otherwise
// every chunk would round it again; products round or split a copy. T, P, U and the scaled K and Q are stored for their products
// (Body.Store): rounded to bf16 by store=bf16, in two bf16 parts by split_at=def. Products accumulate in float32.
package chunkwise

import (
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build/internal/channel"
	"github.com/gdngen/gdngen/gdn/build/internal/inverse"
	"github.com/gdngen/gdngen/gdn/build/internal/tile"
	"github.com/gdngen/gdngen/ir"
)

// Rule is the rule of a spec in the body of a grid step; forward and backward pass share it.
type Rule struct {
	*tile.Body
	Spec  gdn.Spec
	Group int // value heads of a program per key head
}

// Solver returns the solver of the inverse.
func (e *Rule) Solver() *inverse.Solver { return &inverse.Solver{Body: e.Body} }

// Gates have N entries, each [N, C] f32. A nil gate means ones, or a log decay of zero, and no product is emitted for it. Of G and Beta, DeltaNet has
// only Beta, simple gated linear attention only G, linear attention neither.
type Gates struct {
	tile.Sums
	G, Beta  *ir.Value      // log decay; nil with per-channel decays
	Erase    *ir.Value      // [N, C, K], with split gates
	Channels *channel.Decay // per-channel decays, instead of G and its sums
}

// Each applies f to all gates. A stream makes the gates of all chunks before its loop, and selects a step's gates with it.
func (w Gates) Each(f func(*ir.Value) *ir.Value) *Gates {
	to := Gates{G: f(w.G), Beta: f(w.Beta), Sums: tile.Sums{Sum: f(w.Sum), Tail: f(w.Tail)}}
	for _, x := range w.Parts {
		to.Parts = append(to.Parts, f(x))
	}
	return &to
}

// PerValue repeats key-head values for each value head of the program.
//
// With 2 key heads of 4 value heads, Group is 2 and [K0 K1] becomes [K0 K0 K1 K1]: value head h reads key head h / 2.
func (e *Rule) PerValue(x *ir.Value) *ir.Value { return tile.Repeated(e.B, x, e.Group) }

// PerKey sums over the value heads of each key head: the gradient of PerValue.
func (e *Rule) PerKey(x *ir.Value) *ir.Value { return tile.Summed(e.B, x, e.Group) }

// Normalizes reports whether products use unscaled queries and keys although the kernel normalizes them; norms applies their lengths.
//
// A bf16 key scaled to length 1 would be rounded to bf16 again for its products. Chunks instead apply lengths outside of the
// products. The token recurrence scales the rows that it loads.
func (e *Rule) Normalizes() bool {
	return e.Spec.L2Norm && e.V.Fuse == gdn.PlaceKernel && e.V.Algo == gdn.AlgoChunk
}

// Sums sets the sums; without decay it does nothing. G becomes the summed log decay: clamped, and in the base of the sums.
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

// Decay returns D [N, C, C], the decay between tokens, with beta of the column for beta=exponent; nil for a rule without decay.
func (e *Rule) Decay(w Gates) *ir.Value {
	e.B.Stage("decay")
	return e.Between(w.G, w.Beta, w.Sums)
}

// Reading returns b K of value heads in float32, for k of key or value heads; nil for rules that read by K.
//
// Split-gate rules read the state by another key than they write: S <- S + k (w v - S^T (b k))^T. So b K is in the rows of A and in K S, and K
// in the columns of A and P and in the update.
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

// scaled returns x, computed from q, times the scale, unless scale=output: then both terms of O lack it, and one product with
// the outputs [N, C, V] applies it.
func (e *Rule) scaled(x *ir.Value) *ir.Value {
	if e.V.Scale == gdn.ScaleOutput {
		return x
	}
	return e.B.Scale(x, e.Spec.EffectiveScale()).Called(ir.NameOf(x) + "_scaled")
}
