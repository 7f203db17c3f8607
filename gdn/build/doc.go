// Package build makes programs of a spec and a variant: modules of the IR with glue around grids,
// one grid step for a few chunks of a few heads.
//
// # The chunkwise rule
//
// The gated delta rule takes one token after another through a state S [K, V],
//
//	S <- a_t S    v' = beta_t (v_t - S^T k_t)    S <- S + k_t v'^T    o_t = scale S^T q_t
//
// with a log decay g_t, a_t = exp(g_t). In a chunk of C tokens, S the state before it, K, Q, V the
// rows of its tokens and G_i = g_1 + ... + g_i, all C values v' follow from one triangular system:
//
//	D_ij = exp(G_i - G_j) for i >= j, else 0         decay     (tile.Between)
//	A = strict(beta D . K K^T)                       negA = -A (Rule.Weights)
//	P = tril(scale D . Q K^T)                        p
//	T = (I + A)^-1                                   t         (internal/inverse)
//	V' = T beta (V - e^G K S)                        written   (Chunks.written)
//	O = scale e^G Q S + P V'                         outputOf
//	S <- e^(G_C) S + (e^(G_C - G) K)^T V'            update, with restK = e^(G_C - G) K
//
// grown is e^G and left e^(G_C - G), both [N, C]. Row i of the system is v'_i = beta_i (v_i - e^(G_i)
// S^T k_i - sum over j < i of D_ij (k_i . k_j) v'_j): what the tokens before i wrote, decayed since,
// is read back by k_i, and taken away. Decay is always the exponential of a difference, never a quotient
// of exponentials: e^G alone underflows where a decay is strong.
//
// Variants are the same equations in another order. beta=right gives the columns of A and P their
// beta, so that V' = beta U with U = T (V - e^G K S); fold puts e^G into the rows of K and Q; form=uw
// makes U = T beta V and W = T beta e^G K before the state is there, V' = U - W S; tail_decay=v puts
// e^(G_C - G) into V'. A rule without decay has D = 1 where i >= j, and an additive rule T = I and V' = V.
//
// Only the three products with S, and V' between them, wait for the chunk before. Chunks.Pairs and Operands of
// internal/chunkwise make the rest; Through does what waits. That cut is what lower/tpu lays over one another (phases).
//
// # Where what is
//
// One subject a file: chunk.go, token.go and reverse.go have what a step of a grid loads and gives, backward.go the two
// passes of a training step and kept.go what one keeps for the other, aligned.go and stream.go packed sequences, channel.go
// and apart.go gates of channels. Loads and outputs of any step are in stages.go. Below internal/ is what needs tiles alone,
// and no operand or window: the rule, forward (chunkwise), backward (gradient) and by tokens (recurrence), on what a body is
// written with (tile), the inverse of a chunk (inverse), raw gates and norms (gate), decays of channels (channel), and the
// schedules of packed sequences (visits for aligned blocks, packs for chunks). Around the grids is glue (glue.go).
package build
