// Package eval runs StableHLO programs, as far as ours go, from their text alone.
//
// Rules:
//
//  1. Arithmetic is that of package tensor: bf16 tensors hold bf16 numbers, rounded once after each operation; sums run in the order of
//     the index; dot_general sums in f32, or in f64 of f64 operands, and takes its operands as they are.
//  2. A gather and a dynamic slice clamp their start indices, as the specification says.
//  3. Calls of kernels go to a hook.
//  4. An operation, an attribute or a form that has no rule is refused with its name and line before anything runs.
package eval
