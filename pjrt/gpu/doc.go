// Package gpu checks and compiles Python files of Triton kernels without a GPU. A child Python process computes them by Triton's
// interpreter, or compiles them by Triton and ptxas to a GPU's machine code.
//
// The interpreter is Triton's own, with tl.dot corrected: it rounds operands as tensor cores do. It does not model layouts, races or
// shared memory, so a program counts as valid only if it compiles too. Package pjrt/gpu/sass models the cost of machine code.
package gpu
