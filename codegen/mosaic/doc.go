// Package mosaic emits kernels for TPUs: each kernel op of a module becomes a stablehlo.custom_call @tpu_custom_call whose body is
// textual MLIR in the versioned stable_mosaic form.
//
// Rules:
//
//  1. Input is a module whose grids have been lowered to kernels: bodies on references, values of rank 2 or less.
//  2. Every op has a row in the rule table (rules.go): how it is emitted, or the reason why it is refused.
//  3. Program order is kept, since it is the schedule. Only constants are hoisted, to the top of the kernel.
//  4. Programs that the TPU compiler accepts silently and gets wrong are refused: accesses and windows out of bounds, empty loops,
//     misaligned blocks, more VMEM than the target has.
//  5. Every op carries its instruction's task (stage, chunk, head) as its location, which survives to the schedule.
package mosaic

// Version is the stable_mosaic version of the emitted text.
const Version = 15
