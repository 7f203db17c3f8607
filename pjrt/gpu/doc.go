// Package gpu checks and compiles Python files of Triton kernels with no GPU attached: a child process of Python computes them by Triton's
// interpreter, or compiles them by Triton and ptxas to the machine code of a GPU that is not there.
//
// The interpreter is Triton's own, with tl.dot repaired: its operands are rounded as matrix units round them. It knows nothing of layouts, races
// or shared memory, so that a program stands only where it compiles too. What machine code costs is package pjrt/gpu/sass's business.
package gpu
