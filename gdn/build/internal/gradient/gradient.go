// Package gradient takes chunks of tokens backwards, tiles in and tiles out: from dO, the gradients of a chunk's outputs, and dS, that of the state
// after it, it makes those of q, k, v and the gates, and dS of the state before it.
//
// # From the last chunk to the first
//
// The state passes from chunk to chunk, so its gradient passes back. A reverse grid takes the chunks from the last to the first and carries dS as
// the forward grid carries S:
//
//	forward     S0 -> chunk 0 -> S1 -> chunk 1 -> S2 -> chunk 2 -> final state
//	backward    dS0 <- chunk 0 <- dS1 <- chunk 1 <- dS2 <- chunk 2 <- dS3, the gradient of the final state, or zeros
//
// Chunk 1 needs S1 and dS2. S1 is no longer there when chunk 1 is processed, and can not be computed from S2, whose decay may have left nothing of it. So the
// forward pass keeps the state before each chunk, or with save=none a forward grid makes all of them once more, without outputs. T and U of a chunk
// follow from its inputs and S. What of them is kept as well (save=inverse, save=all) is work that the backward pass need not do; Loads has it.
//
// # The algebra of a chunk
//
// With beta in the columns, E_ij = exp(G_i - G_j) beta_j for i >= j, and S the state before the chunk, the forward pass of a chunk is
//
//	N = strict(K K^T . E)   P = scale tril(Q K^T . E)   T = (I + N)^-1   U = T (V - e^G K S)   V' = beta U
//	O = scale e^G Q S + P U                             S <- e^GC S + Kd^T U,  Kd = beta e^(GC-G) K
//
// and from dO and the gradient dS of the state after the chunk its gradients are
//
//	dU = P^T dO + Kd dS     dR = T^T dU = dV     dO' = scale e^G dO     n = -e^G dR     dS <- e^GC dS + Q^T dO' + K^T n
//	X = scale dP . E, dP = dO U^T                Y = dN . E, dN = -strict(dR U^T)       (summed over the value heads of a key head)
//	dQ = dO' S^T + X K      dK = n S^T + Ud dS^T + X^T Q + (Y + Y^T) K,  Ud = beta e^(GC-G) U
//	dbeta = rows(U . dR) / beta
//	dg_t = sum over i >= t of (rows_i W - columns_i W + r_i) + sum over j < t of y_j + e^GC <S, dS>,
//	W = dP . P + dN . N     r = rows(dO' S^T . Q + n S^T . K)     y = rows(Ud dS^T . K)
//
// The inverse has no gradient of its own: of R = (I + N) U follows dN = -dR U^T, one product. dO and dR are [N, C, V], dS [N, K, V], X, Y and W
// [N, C, C], dQ and dK [N, C, K]; K K^T of N is symmetric, so a gradient Y of it goes to K from both sides, Y + Y^T.
//
// W_ij is what the loss gains by G_i - G_j by way of the pair i, j: it counts for the log decays of the tokens after j up to i. The terms of dg are so
// what G_i is in, less what it is in with a minus, for all i from t on; y_j is weighed by e^(GC - G_j), which has g_t of all t after j.
//
// # Example
//
// That of package chunkwise, two tokens of one channel: k = q = 1, v = 1 and 2, decay 1/2, beta 1, scale 1, S = 8, U = [-3 3/2]. Let the loss be the
// output of the second token, dO = [0 1] and dS = 0. That output is v_2 whatever else happens, since beta = 1 replaces all that the state says of k.
//
//	dU = P^T dO = [1/2 1]     dR = T^T dU = [1/2-1/2 1] = [0 1] = dV     dO' = [0 1/4]   n = [0 -1/4]   dS <- 1/4 - 1/4 = 0
//	X = [   .    . ]    Y = [  .  . ]    dQ = [0  8/4 - 3/2 + 3/2] = [0 2]: the state that q_2 reads is 2
//	    [-3/2  3/2 ]        [3/2  . ]    dK = [-3/2 + 3/2  -2 + 3/2 + 3/2] = [0 1]
//	W = [0 0; 0 3/2], r = y = 0: dg = 0          dbeta = [0 3/2]: by beta_2 the error of 3/2 would be written less or more
//
// # What is held in which precision
//
// dS is float32 between chunks, as S is. Most products take one bf16 pass and stay within the limits of the field; four kinds do not where keys are
// alike, and have precisions of their own: the inverse (precinv), U and dR (precapply), the update and what adds up to dU (precupdate), and dO U^T, dR
// U^T and X K (precgrad). docs/training.md has what each costs in one pass. Sums for dg are of one W, once rounded: rows and columns cancel for the most
// part, and what remains must be no rounding.
package gradient

import (
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/ir"
)

// BetaFloor keeps the logarithm of beta and the division by it finite; everything that beta multiplies stays in its column.
//
// dbeta is rows(U . dR) / beta, and dR has the factor beta: for a token that writes nothing the quotient by the floor is a number, where 0 / 0
// is none. The log of the floor is an ordinary exponent.
const BetaFloor = 1e-20

// Step computes the gradients of chunks in the body of a grid step.
type Step struct {
	chunkwise.Rule
	State *ir.Value // [batch x heads, K, V] f32: dS, the gradient of the state after a chunk, and once that is taken of the state before it
	Loads Loads
}

// Loads are functions that load the forward pass's values of a chunk. Each is called where its value is first needed,
// since instructions keep the order in which they are made. A function is nil if the forward pass did not keep its
// value, which is then recomputed: T from K K^T, which the gradients need anyway; U from T, Values and State.
type Loads struct {
	State   func() *ir.Value                 // S before the chunk
	Inverse func() *ir.Value                 // T^T
	Written func() *ir.Value                 // U, or W where nothing is rounded (Step.Exact)
	Values  func() *ir.Value                 // V as it lies
	Weighed func(values *ir.Value) *ir.Value // V in float32, times the write gate of a rule that has one
}

// Gradients are the gradients of a chunk's inputs, [N, C, .] or [N, C], in float32. Q and K have the tensors' type
// where tokens are in lanes (grads=lanes).
type Gradients struct {
	Q, K, V     *ir.Value
	Decay, Beta *ir.Value // of the log decay, and of beta; nil where the rule has none
	Reads       *ir.Value // of a rule with separate erase and write gates: that of b K
}
