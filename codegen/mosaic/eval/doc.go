// Package eval runs emitted Mosaic programs from their text alone: the StableHLO around the kernels and the kernels in it. It knows neither
// the intermediate representation nor the emitter, so a fault of the emitter shows as wrong numbers or as an error, without a TPU.
//
// Rules, stricter than a TPU where its result would depend on time or on what memory held before:
//
//  1. Scratch and output windows are unknown until they are written, and scratch again where a parallel axis moves on. A load or a copy of
//     which nothing is known is an error that names the memory and the operation. What is unknown in one that is known in part reads as
//     poison: NaN, or a number out of any range. So do elements of output arrays where no window was written back, outside the kernel.
//  2. An input window is fetched when its block index changes; an output window is written back when it does, and is unknown after. Blocks
//     lie inside their arrays. An input may not fetch what its alias has overwritten, nor two programs of a parallel axis write one block.
//  3. The target of a copy is unknown until the copies of its semaphore have all been waited for; until then neither it may be read or
//     written, nor the source written. A kernel ends with no copy in flight.
//  4. Accesses lie inside their references, claims of assume_multiple hold, and gathers stay inside the register.
//  5. Arithmetic is that of package tensor. A product of the matrix unit takes bf16 operands, or rounds f32 ones to bf16 where no precision
//     is asked for, and sums in f32; contract_precision<fp32> takes f32 operands as they are.
//  6. An operation, an attribute or a type that has no rule is refused with its name and line before anything runs.
package eval
