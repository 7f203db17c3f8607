// Package ptx puts kernels that Triton compiled into StableHLO, as PTX in custom calls, so that a CUDA plugin runs them in place of the
// program of plain operations, with the same parameters and results.
//
// XLA's call __gpu$xla.gpu.ptx takes the text of a kernel, its grid, and which of its parameters are results; what the other parameters get are
// the operands, in order. It is internal to XLA: [Probe] asks a plugin whether it takes one. XLA does not look into the text at a compile, so
// [Assemble] asks ptxas first.
package ptx
