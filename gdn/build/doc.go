// Package build makes programs of a spec and a variant: modules of the IR with XLA ops around grids,
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
// In the code grown is e^G and left is e^(G_C - G), the tail decay, both [N, C]. Row i of the system is v'_i = beta_i (v_i - e^(G_i)
// S^T k_i - sum over j < i of D_ij (k_i . k_j) v'_j): k_i reads back the values that earlier tokens wrote, with their
// decay since, and they are subtracted. A decay is always the exponential of a difference, never a quotient
// of exponentials, since e^G alone underflows for strong decays.
//
// Variants are the same equations in another order. beta=right multiplies the columns of A and P by
// beta, so that V' = beta U with U = T (V - e^G K S); fold multiplies the rows of K and Q by e^G; form=uw
// computes U = T beta V and W = T beta e^G K before the state is known, V' = U - W S; tail_decay=v multiplies
// V' by e^(G_C - G). A rule without decay has D = 1 where i >= j, and an additive rule T = I and V' = V.
//
// Only the three products with S, and V' between them, depend on the previous chunk. Chunks.Pairs and Operands of
// internal/chunkwise compute everything else, Through these products. codegen/tpu overlaps the two kinds of work (phases).
//
// internal/chunkwise has the derivation, shapes, and two tokens as an example; internal/gradient the way back.
//
// # Functions
//
//	Module          the program of a spec: forward, gradients (direction=backward), or both in one module (direction=train)
//	Training        the two passes of a training step as modules of their own, for a caller that computes the loss between them
//	KeptBytes       the bytes of HBM for values saved between these two passes
//	Summary         the affine map of the state by a range of tokens, for one sequence on several devices
//	StateGradient   the gradient of the state before a range if only its outputs count, for the same
//	BaseOf, Build   a program without schedules, shared by all variants that differ only in their schedules
//
// All of them check the variant for the spec (gdn.Variant.Check) and fit it, for example to fewer heads if the spec
// has fewer. Equal spec and variant give equal modules, with equal hashes.
//
// # A program
//
// build.Module returns XLA ops, a grid, and XLA ops. For 20 tokens, a key head with 2 value heads, K = V = 8, in chunks of 8 and with one
// value head a program, it is
//
//	q, k    [1, 20, 1, 8]   pad, transpose            [1, 1, 24, 8]            (b, h, c)       [1, 1, 8, 8]
//	v       [1, 20, 2, 8]   pad, transpose, reshape   [1, 1, 2, 24, 8]         (b, h, g, c)    [1, 1, 1, 8, 8]
//	g, beta [1, 20, 2]      pad, transpose            [1, 3, 1, 2, 1, 8]       (b, c, h, g)    [1, 1, 1, 1, 1, 8]
//	state   [1, 2, 8, 8]    reshape                   [1, 1, 2, 8, 8]          (b, h, g)       [1, 1, 1, 8, 8], carried
//
//	grid "fused", b:1 h:1 g:2 c:3, the steps of c in order
//	o       [1, 20, 2, 8]   transpose, slice          [1, 1, 2, 24, 8]         (b, h, g, c)    [1, 1, 1, 8, 8]
//
// The columns are: an operand in the spec's shape, the XLA ops on it, the array, the axes that move its window, and the window. The body is
// a function of the windows: it makes tiles of them (stages.go), calls the rule, and describes the results as windows of other
// arrays. Values in it are [N, rows, lanes]; here N is 1, and with chunks=2 and heads=2 it would be 4.
//
// With gathered packed sequences the window of the state is (t0[c], h, g), where table t0 has the sequence of
// each chunk. Where this index changes, a state is stored and another one loaded; the body does not depend on it.
//
// # What orders instructions
//
// A body is built in the order of the algorithm. Schedules place each instruction by its task (ir.Task, its stage) and by its position
// in the body: values requested late are loaded late, and of equal instructions the first one stays. So the
// order of calls in this package is part of the program. Changing it changes programs, which tests/programs
// detects.
//
// # Files
//
// One subject a file: chunk.go, token.go and reverse.go have the loads and results of a grid step, backward.go the two
// passes of a training step, kept.go the values saved between them, aligned.go and stream.go packed sequences, channel.go
// and split_gates.go per-channel gates. Loads and outputs common to all steps are in stages.go. Packages below internal/ use tiles only,
// no operands or windows: the rule, forward (chunkwise), backward (gradient) and by tokens (recurrence), on helpers for
// bodies (tile), the inverse of a chunk (inverse), raw gates and norms (gate), per-channel decays (channel), and the
// schedules of packed sequences (segments for aligned blocks, packs for chunks). XLA ops around the grids are in xla.go.
package build
