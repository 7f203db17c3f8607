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
// internal/chunkwise make the rest; Through does what waits. That cut is what codegen/tpu lays over one another (phases).
//
// internal/chunkwise has the derivation, shapes, and two tokens as an example; internal/gradient the way back.
//
// # What is made
//
//	Module          the program of a spec: forward, gradients (direction=backward), or both in one module (direction=train)
//	Training        the two passes of a training step as modules of their own, for a caller that computes the loss between them
//	KeptBytes       what is in main memory between those
//	Summary         the affine map that a range of tokens is to a state: one sequence on several devices
//	StateGradient   the gradient of the state before a range whose outputs alone count, for the same
//	BaseOf, Build   a program without schedules, which all variants share that differ in those alone
//
// All check that the variant suits the spec (gdn.Variant.Check), and fit it: fewer heads in a program than it names, say, where the spec
// has fewer. What they give is a function of spec and variant: the same two give the same module, to the hash.
//
// # A program
//
// build.Module gives XLA ops, a grid, and XLA ops. Of 20 tokens, a key head with 2 value heads, K = V = 8, in chunks of 8 and with one
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
// by columns an operand as the spec has it, what the XLA ops do to it, the array, what moves its window, and the window. The body is
// a function of the windows: it makes tiles of them (stages.go), asks the rule, and describes what comes out as windows of other
// arrays. Values in it are [N, rows, lanes]; here N is 1, and with chunks=2 and heads=2 it would be 4.
//
// With packed sequences that are gathered, the window of the state is looked up: (t0[c], h, g), t0 being a table of the sequence of
// each chunk. Where that changes, a state is stored and another one loaded; no instruction of a body knows of it.
//
// # What orders instructions
//
// A body is built in the order of the algorithm. Each instruction has a task (ir.Task), a stage, and by it and by where it stands
// schedules place it: what is asked of a rule late is loaded late, and what is made twice is kept where it stood first. So the
// order in which functions of this package call one another is a part of what they make, and a change of it is a change of
// programs, which tests/programs sees.
//
// # Where what is
//
// One subject a file: chunk.go, token.go and reverse.go have what a step of a grid loads and gives, backward.go the two
// passes of a training step and kept.go what one keeps for the other, aligned.go and stream.go packed sequences, channel.go
// and split_gates.go gates of channels. Loads and outputs of any step are in stages.go. Below internal/ is what needs tiles alone,
// and no operand or window: the rule, forward (chunkwise), backward (gradient) and by tokens (recurrence), on what a body is
// written with (tile), the inverse of a chunk (inverse), raw gates and norms (gate), decays of channels (channel), and the
// schedules of packed sequences (segments for aligned blocks, packs for chunks). XLA ops around the grids are in xla.go.
package build
