// Package gradient takes chunks of tokens backwards, tiles in and tiles out: from dO, the gradients of a chunk's outputs, and dS, the gradient of the state
// after it, it computes the gradients of q, k, v and the gates, and dS of the state before it.
//
// # From the last chunk to the first
//
// The state passes from chunk to chunk, so its gradient passes back. A reverse grid takes the chunks from last to first and carries dS like
// the forward grid carries S:
//
//	forward     S0 -> chunk 0 -> S1 -> chunk 1 -> S2 -> chunk 2 -> final state
//	backward    dS0 <- chunk 0 <- dS1 <- chunk 1 <- dS2 <- chunk 2 <- dS3, the gradient of the final state, or zeros
//
// Chunk 1 needs S1 and dS2. S1 cannot be computed from S2, whose decay may have erased it. So the
// forward pass saves the state before each chunk, or with save=none a forward grid recomputes all of them, without outputs. T and U of a chunk
// follow from its inputs and S; save=inverse and save=all also save these, which saves work in the backward pass (Loads).
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
// The inverse needs no gradient of its own: R = (I + N) U gives dN = -dR U^T, one product. dO and dR are [N, C, V], dS [N, K, V], X, Y and W
// [N, C, C], dQ and dK [N, C, K]; K K^T of N is symmetric, so its gradient Y goes to K from both sides, Y + Y^T.
//
// W_ij is the derivative of the loss by G_i - G_j through the pair i, j: it counts for the log decays of the tokens after j up to i. So dg sums, for all
// i from t on, the terms with +G_i minus the terms with -G_i; y_j has the weight e^(GC - G_j), which includes g_t for all t after j.
//
// # Example
//
// The example of package chunkwise, two tokens of one channel: k = q = 1, v = 1 and 2, decay 1/2, beta 1, scale 1, S = 8, U = [-3 3/2]. Let the loss be the
// second output, dO = [0 1] and dS = 0. That output is always v_2, since beta = 1 replaces the state's whole value for k.
//
//	dU = P^T dO = [1/2 1]     dR = T^T dU = [1/2-1/2 1] = [0 1] = dV     dO' = [0 1/4]   n = [0 -1/4]   dS <- 1/4 - 1/4 = 0
//	X = [   .    . ]    Y = [  .  . ]    dQ = [0  8/4 - 3/2 + 3/2] = [0 2]: the state that q_2 reads is 2
//	    [-3/2  3/2 ]        [3/2  . ]    dK = [-3/2 + 3/2  -2 + 3/2 + 3/2] = [0 1]
//	W = [0 0; 0 3/2], r = y = 0: dg = 0          dbeta = [0 3/2]: by beta_2 the error of 3/2 would be written less or more
//
// # Precision
//
// dS is float32 between chunks, like S. Most products take one bf16 pass and stay within common limits. Four kinds do not for similar keys, and
// have their own precisions: the inverse (precinv), U and dR (precapply), the update and the terms of dU (precupdate), and dO U^T, dR
// U^T and X K (precgrad). docs/training.md has the error of each in one pass. Sums for dg use one W, rounded once: rows and columns mostly
// cancel, and the remainder must not be rounding.
package gradient

import (
	"github.com/gdngen/gdngen/gdn/build/internal/chunkwise"
	"github.com/gdngen/gdngen/ir"
)

// BetaFloor keeps log(beta) and divisions by beta finite. Values multiplied by beta stay in their own columns.
//
// dbeta is rows(U . dR) / beta, and dR has the factor beta: for a token that writes nothing, dividing by the floor gives a number, while 0 / 0
// would not. The log of the floor is an ordinary exponent.
const BetaFloor = 1e-20

// Step takes chunks backwards in the body of a grid step.
type Step struct {
	chunkwise.Rule
	State *ir.Value // [batch x heads, K, V] f32: dS, the gradient of the state after a chunk, later of the state before it
	Loads Loads
}

// Loads are functions that load a chunk's saved values where they are first needed, since the order of instructions is the kernel's order.
// A nil function means that the value is recomputed: T from K K^T, which the gradients need anyway;
// U from T, Values and State.
type Loads struct {
	State   func() *ir.Value                 // S before the chunk
	Inverse func() *ir.Value                 // T^T
	Written func() *ir.Value                 // U, or W if exact (Step.Exact)
	Values  func() *ir.Value                 // V in the tensor's form
	Weighed func(values *ir.Value) *ir.Value // V in float32, times the write gate if the rule has one
}

// Gradients are the gradients of a chunk, [N, C, .] or [N, C], in float32, except Q and K with tokens in lanes, which have the tensors' type.
type Gradients struct {
	Q, K, V     *ir.Value
	Decay, Beta *ir.Value // of the log decay, and of beta; nil if the rule has none
	Reads       *ir.Value // with split gates: of b K
}
