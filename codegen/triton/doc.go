// Package triton writes the gated delta rule as Python for NVIDIA GPUs: Triton kernels, and a function that launches them.
//
// It is beside the emitters of IR modules, as a backend of its own, since a Triton kernel is written at another level: on blocks of
// tensors, whose layouts, copies and synchronisation are Triton's. So its programs are made from a spec and a [Variant] by templates over the
// algebra of a chunk, not from the grids that TPU kernels are lowered from.
//
// A decode step is one kernel, decode. A prefill is one or more:
//
//	prepare    T = (I + A)^-1, P = tril(Q K^T . D), G and beta of each chunk and value head, all at once
//	scan       the states of a sequence, chunk by chunk, by programs over tiles of V
//
// With kernels=one, scan makes T and P itself. With part=N a sequence is cut into parts of N chunks that run beside each other (context parallelism):
//
//	summarise  the affine map S -> M S + B of each part
//	combine    the state that each part starts from: a prefix over the maps
//	scan       the outputs of each part
package triton
