// Package stablehlo renders tensor-level modules as StableHLO text.
//
// Rules:
//
//  1. Grids are batched first (plain.Batch): parallel axes become leading dimensions, the sequential one a while.
//     The result is a fast program for CPU and GPU, not an emulation of a kernel.
//  2. @main takes the module's parameters and gives its results, in order. The text is a function of the module alone.
//  3. Arithmetic is that of the interpreter: a dot multiplies operands rounded as its precision says and sums in f32
//     or wider; sums of narrow floats are made in f32 and rounded once. Orders of summation are the runtime's own.
//  4. By default bf16 values travel as f32 tensors that hold bf16 numbers, rounded after every inexact op: a CPU has
//     no bf16 arithmetic, and a compiler may otherwise drop roundings. Parameters and results remain bf16.
//     Native bf16, for accelerators, is an option of Emitter; there the compiler may keep excess precision between
//     elementwise ops.
//  5. Kernels are calls made by a hook of Emitter; without one they are refused.
package stablehlo
