// Package eval runs StableHLO programs from their text, as far as our emitters use StableHLO.
//
// Rules:
//
//  1. Arithmetic is defined by package tensor: bf16 tensors hold bf16 numbers, rounded once after each operation; sums run in index order;
//     dot_general sums in f32, or in f64 for f64 operands, with unrounded operands.
//  2. A gather and a dynamic slice clamp their start indices, as StableHLO specifies.
//  3. Calls of kernels go to a hook.
//  4. An operation, attribute or form without a rule is refused, with its name and line, before anything runs.
package eval
