// Package gdn is the gated delta rule: what is computed (Spec), and how a kernel computes it (Variant). Package build makes programs of the two,
// package truth has the float64 truth, and inputs to test with.
//
// One value head, state S in R^{K x V}, tokens in order:
//
//	S' = exp(g_t) S               g_t is the log decay
//	u  = beta_t (v_t - S'^T k_t)  the delta uses the decayed state
//	S  = S' + k_t u^T
//	o_t = scale S^T q_t           the output uses the updated state; scale multiplies q only
//
// Rules:
//
//  1. Value head h reads query and key head h / (Hv/Hk): repeat-interleave, never tiling.
//  2. Fused gates are g = -exp(A_log) softplus(a + dt_bias) and beta = sigmoid(b), or 2 sigmoid(b) with negative
//     eigenvalues allowed.
//  3. With L2 norm, q and k become x rsqrt(sum x^2 + 1e-6) per token and head before anything else; a zero row stays zero.
//  4. With packed sequences, sequence n owns tokens cu_seqlens[n] .. cu_seqlens[n+1]-1 and has its own state.
//  5. With a pool, initial_state and final_state are [Pool, Hv, ...], and sequence n starts from and leaves its state at index
//     state_indices[n]. Indices differ, except -1: such a sequence is skipped, it has no state and its outputs are zeros. So
//     is one with an index that no state has. What no sequence names stays as it is.
//  6. In place, final_state takes the memory of initial_state.
//  7. With read_indices, sequence n starts from the state at read_indices[n], or from zeros where that is -1, whatever the slot that it
//     leaves its state in holds. A sequence reads no slot that another one writes in the same call; several may read one.
//  8. Of a window, state_indices[n] names a group of T slots, from T state_indices[n] on, that get the states after each of its tokens.
//     read_indices[n] names a slot. What a sequence reads may be in its own group.
//  9. states [B, T/every, ...] are the states after every so many tokens of a batch row, as they would end a shorter call.
//  10. With conv=W, each channel of q, k and v becomes silu(bias + sum over j of w[j] x[t - (W-1) + j]) before all else, in float32 and then to the type of the
//     inputs. Before the first token of a sequence there are zeros, or with convstate the last inputs that its cache holds, W-1 or as many as convrows says,
//     the oldest first: [states, rows, channels], the channels of q, then those of k, then those of v. Caches are found and left as states are: by the same
//     names of a pool, after each token of a window, and after every so many tokens. A cache is a copy of inputs: it is exact.
//
// # What belongs here
//
//	gdn         Spec and Variant, small comparable values with a canonical text; axes.go is the table of choices, champions.go the table of
//	            what auto stands for, rule.go the rules of the family. Begin with spec.go and axes.go
//	build       programs of the two; its doc.go has the formulas
//	schedule    which chunk of a kernel does what when
//	truth       the rule in float64, token by token; ordinary and adversarial inputs; stored cases
//	exam        limits of errors that follow from the arithmetic, and the judgement by them
//	layer       the rule as a layer of GoMLX: irgraph makes a graph of a module, kernels calls a generated program from a graph
//	model       layers and small models as far as their cost goes
//	published   reads the config.json of published models
//	parallel    one sequence on several devices, by affine maps of the state (summary.go)
//
// build and truth do not know each other, so a mistake is not made twice. It may import ir; layer and model also codegen and pjrt.
package gdn
