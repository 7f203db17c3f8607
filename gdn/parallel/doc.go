// Package parallel splits a sequence over devices (context parallelism): each has a part of the tokens, and what passes between them does not
// grow with the tokens.
//
// A part takes the state before it to the state after it by an affine map, S_after = M S_before + O, its summary (build.Summary). So the states
// that parts begin with are a scan over n summaries, and so are the gradients of states, over the transposed maps:
//
//	forward                                                backward
//	1. M, O     = Summary(k, v, gates)     each part       1. D   = StateGradient(q, k, gates, do)     each part
//	2. S        = scan of M, O             exchange        2. dS  = scan of M^T, D, from the last      exchange
//	3. o, ...   = Forward(part, S)         each part       3. grads = Backward(part, S, do, dS)        each part
//
// Step 2 has log2(n) rounds: in round i a part composes its map with that of the part 2^i before it (Compose), which it gets by one message of K (K + V)
// numbers a head; Carry then gives the state. An all-gather of the maps moves n times as much. M, O and D are float32: a product of many M in less
// loses the state.
//
// No gradient flows through M or O: the state is the same function of the inputs as in the whole, and step 3 has its gradient from both sides. A rule of
// gdn needs no other code, since its summary is its own kernel on other states.
//
// The short convolution before the rule reads a few tokens of the part before: its halo (BuildConvolution).
//
// Programs are modules of the IR, for any backend. Split runs them part after part where Run says, which is the recipe for drivers of many devices, and
// the test of it. What follows was checked as 2, 4 and 8 parts on a CPU, against the whole in float32 and the reference in float64.
package parallel
