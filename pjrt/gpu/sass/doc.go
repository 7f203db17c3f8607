// Package sass models the time of a GPU's machine code (SASS) with no GPU: the listing of nvdisasm, with the control codes that ptxas wrote, is
// run by a small model of one scheduler of a streaming multiprocessor. Its times are modelled; docs/gpu.md says how far an H100 was from them.
//
// Exact are instructions, stall counts, scoreboards and waits, registers and shared memory, hence how many programs are resident. A table
// (target.GPUTiming) are latencies and issue intervals. Missing are caches, bank conflicts, queues of main memory and divergence.
//
// For example a loop of two instructions, a load of shared memory that sets scoreboard 0 and an FFMA that waits for it, takes a warp 30 + 4
// cycles a turn (the latency of the load, and 4 of its issue); eight warps on the scheduler hide most of that.
package sass
