// Package llo turns the schedules that libtpu dumps into deterministic static cycles.
//
// libtpu writes the final VLIW bundles of every op that it compiles, for a TPU that need not be there, when it is loaded with [Flags] in
// LIBTPU_INIT_ARGS. A bundle issues in one cycle; how often it does is decided by the scalar slots of the program itself. So the package
// executes the scalar program (registers, predicates, scalar memory, branches with their delay slots) and counts:
//
//	cycles = bundles executed + delays + waits for a matrix unit that an earlier matmul still holds
//
// Rules:
//
//  1. The count is exact or refused. A branch on a value that only a run would tell is the error "schedule not understood", never a
//     smaller number. Values of scalar operands (sequence offsets) can be given in [Options].
//  2. The top-level program calls ops; each op costs its own cycles times its calls. The runtime's own prologue and epilogue, named in
//     angle brackets, are left out. In the top-level program a forward branch on the runtime's state or on data falls through, which
//     executes every part that it might skip: a conditional costs all its branches, and is
//     named ([Report].Conditionals). Where a result may take the memory of a
//     parameter, it does: the caller gives the parameter up.
//  3. Not counted: waits for DMA and main memory, launches, bank conflicts, instruction fetch. It is a lower bound of compute time. Beside it
//     stand the bytes of main memory that all transfers read and write: those of kernels, of the compiler's own ops, and copies between
//     ops. The sum is exact or refused, with the reason in [Report].HBMUnknown.
//     What they leave out is in [Wall].
//     On tpu7x a branch has 1, or 3 to 6, delay slots, which the dump does not print but its regions show (slots.go). All execute; of a taken
//     branch only the first [target.Target].BranchDelay count, so that there the count is up to 5 cycles short for each.
//  4. Cycles of a bundle are shared equally by those of its instructions that carry a source location; a bundle where none does waits
//     for what comes next, and its cycles go there. Of a Mosaic location only file, line and column survive, loc("file":line:column); a
//     name around it or alone does not. So a generator that wants cycles by stage writes the stage as the file ([Report.Stages]).
//     libtpu 0.0.42 loses the locations of matmuls, 0.0.51 keeps them.
//  5. libtpu compiles ops that are the same computation once and dumps one of them. An op without a schedule takes that of its twin, found
//     in the optimised module: same opcode, types with layouts, constants, attributes and computations called, up to names. Its report
//     says so ([OpReport].Twin); without exactly such a twin the op is an error.
//  6. Where two cores share a program (v4, v5p), the count is that of core 0.
//
// A schedule is compressed: where nothing can issue it has no bundles, and the hardware waits. The [Wall] of an op issues the same bundles
// in order on clocks that know how long things take ([target.Timing]): a bundle waits for the registers that it reads, for its units and
// for the results that it pops, of which each matrix unit, each lane unit and the unit of transcendental functions has a queue. Where a queue
// and the program do not agree, there is no wall but a reason. Transfers share one channel of main memory, after a fixed part, and a wait for
// a flag ends when its granules have come. The top-level program is a time line of its own copies and of the ops that it calls; while an op
// runs, copies that were started before it take the bandwidth that it leaves. Nothing here ran on hardware.
package llo
