// Package gdn describes the gated delta rule: the problem (Spec), and how a kernel computes it (Variant). Package build makes programs from the two.
// Package truth has the float64 reference, and inputs for tests.
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
//     state_indices[n]. Indices differ, except -1: such a sequence is skipped, it has no state and its outputs are zeros. The same
//     holds for an index outside of the pool. States that no index names keep their values.
//  6. In place, final_state takes the memory of initial_state.
//  7. With read_indices, sequence n starts from the state at read_indices[n], or from zeros if that is -1. It writes its state at
//     state_indices[n]. A sequence reads no slot that another one writes in the same call; several may read one.
//  8. With a window, state_indices[n] names a group of T slots, from T state_indices[n] on. They receive the states after each of its tokens.
//     read_indices[n] names a slot, which may be in the sequence's own group.
//  9. states [B, T/every, ...] are the states after every so many tokens of a batch row: the final states of calls with fewer tokens.
//  10. With conv=W, each channel of q, k and v becomes silu(bias + sum over j of w[j] x[t - (W-1) + j]) before all else, in float32, then rounded
//     to the type of the inputs. Before the first token of a sequence come zeros, or with convstate the last inputs from its cache: W-1, or convrows
//     of them. A cache is [states, rows, channels], the oldest row first, with the channels of q, then k, then v. Caches follow the rules of states:
//     the same pool indices, one for each token of a window, one every so many tokens. A cache copies inputs, so it is exact.
//
// # What belongs here
//
//	gdn         Spec and Variant, small comparable values with a canonical text; axes.go is the table of tunables, champions.go the table
//	            that auto chooses from, rule.go the rules of the family. Begin with spec.go and axes.go
//	build       programs of a spec and a variant; its doc.go has the formulas
//	schedule    the order of a kernel's chunks and phases
//	truth       the rule in float64, token by token; ordinary and adversarial inputs; stored cases
//	exam        accuracy tests: error limits that follow from the arithmetic, and judgement by them
//	layer       the rule as a layer of GoMLX: irgraph makes a graph of a module, kernels calls a generated program from a graph
//	model       layers and small models, for their cost
//	published   reads the config.json of published models
//	parallel    one sequence on several devices, by affine maps of the state (summary.go)
//
// build and truth do not import each other, so that one mistake is not in both. gdn may import ir; layer and model also codegen and pjrt.
package gdn
