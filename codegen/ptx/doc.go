// Package ptx embeds kernels compiled by Triton as PTX in StableHLO custom calls. A CUDA plugin then runs them instead of the program of
// plain operations, with the same parameters and results.
//
// XLA's call __gpu$xla.gpu.ptx takes the text of a kernel, its grid, and the list of parameters that are results; the other parameters
// are the operands, in order. It is internal to XLA, so [Try] asks a plugin whether it supports it. XLA does not check the text when
// it compiles, so [Assemble] runs ptxas first.
package ptx
