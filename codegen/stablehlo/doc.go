// Package stablehlo renders tensor-level modules as StableHLO text.
//
// Rules:
//
//  1. Grids are batched first (plain.Batch): parallel axes become leading dimensions, the sequential one a while.
//     The result is a fast program for CPU and GPU, not an emulation of a kernel.
//  2. @main takes the module's parameters and returns its results, in order. The text depends on the module only.
//  3. Arithmetic matches the interpreter: a dot multiplies operands rounded to its precision and sums in f32 or wider; sums of narrow floats are
//     made in f32 and rounded once. The runtime chooses the order of summation.
//  4. By default bf16 values are f32 tensors that hold bf16 numbers, rounded after every inexact op: a CPU has no bf16 arithmetic, and a compiler
//     could drop roundings. Parameters and results are bf16. Native bf16, for accelerators, is an option of Emitter; there the compiler may
//     keep excess precision between elementwise ops.
//  5. A hook of Emitter writes the calls of kernels; without a hook, kernels are refused.
package stablehlo
