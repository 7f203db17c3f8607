// Package parallel splits a sequence over devices (context parallelism). Each device has a part of the tokens, and the messages between devices do not
// grow with the tokens.
//
// A part maps the state before it to the state after it: S_after = M S_before + O. M and O are its summary (build.Summary). So a scan over n summaries
// gives the initial states of the parts; a scan over the transposed maps gives the gradients of states:
//
//	forward                                                backward
//	1. M, O     = Summary(k, v, gates)     each part       1. D   = StateGradient(q, k, gates, do)     each part
//	2. S        = scan of M, O             exchange        2. dS  = scan of M^T, D, from the last      exchange
//	3. o, ...   = Forward(part, S)         each part       3. grads = Backward(part, S, do, dS)        each part
//
// Step 2 has log2(n) rounds. In round i a part composes its map with the map of the part 2^i before it (Compose), from one message of K (K + V)
// numbers a head; then Carry gives the state. An all-gather of the maps moves n times as much. M, O and D are float32, since a product of many M in
// lower precision loses the state.
//
// No gradient flows through M or O: each part's initial state is the same function of the inputs as in the whole, and step 3 gives its gradient from both
// sides. Every rule of gdn works, since its summary comes from its own kernel with other states.
//
// The short convolution before the rule reads a few tokens of the previous part, the halo (BuildConvolution).
//
// Programs are IR modules for any backend. Split runs them part by part with Run; drivers for many devices can follow it, and it is the test. 2, 4 and 8
// parts on a CPU agree with the whole in float32 and with the float64 reference.
package parallel
