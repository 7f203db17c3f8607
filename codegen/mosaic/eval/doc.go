// Package eval runs emitted Mosaic programs from their text: the StableHLO around the kernels, and the kernels. It uses neither the
// intermediate representation nor the emitter, so a fault of the emitter shows as wrong numbers or an error, without a TPU.
//
// Rules, stricter than a TPU where its result would depend on timing or on earlier contents of memory:
//
//  1. Scratch and output windows are unknown until written; scratch is unknown again when a parallel axis moves on. A load or copy of wholly unknown
//     memory is an error that names the memory and the operation. Unknown elements of partly known memory read as poison: NaN, or a
//     number out of any range. So do elements of output arrays where no window was written back.
//  2. An input window is fetched when its block index changes; an output window is written back then, and is unknown after. Blocks must be inside
//     their arrays. An input must not fetch data that its alias has overwritten, nor two programs of a parallel axis write one block.
//  3. The target of a copy is unknown until all copies of its semaphore have been waited for. Until then the target must not be read or written,
//     nor the source written. A kernel ends with no copy in flight.
//  4. Accesses are inside their references, assume_multiple holds, and gathers stay inside the register.
//  5. Arithmetic is defined by package tensor. An MXU product takes bf16 operands, or rounds f32 ones to bf16 if no precision is given, and
//     sums in f32; contract_precision<fp32> takes f32 operands unrounded.
//  6. An operation, attribute or type without a rule is refused, with its name and line, before anything runs.
package eval
