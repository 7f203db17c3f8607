// Package sass models the time of a GPU's machine code (SASS) without a GPU: a model of one scheduler of a streaming multiprocessor runs
// the listing of nvdisasm, with the control codes of ptxas. Times are modelled; docs/gpu.md compares them with an H100.
//
// Instructions, stall counts, scoreboards and waits, registers and shared memory are exact, and so is the number of resident programs.
// Latencies and issue intervals come from a table (target.GPUTiming). Caches, bank conflicts, main-memory queues and divergence are not
// modelled.
//
// Example: a loop of two instructions, a shared-memory load that sets scoreboard 0 and an FFMA that waits for it, takes one warp 30 + 4
// cycles per iteration: the load's latency, and 4 to issue it. Eight warps on the scheduler hide most of that.
package sass
