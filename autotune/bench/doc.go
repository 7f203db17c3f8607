// Package bench evaluates variants on workloads in FlashInfer-Bench's manner, on the device of a PJRT plugin, and keeps what was
// measured in a folder that is a trace set of FlashInfer-Bench.
//
// Rules:
//
//  1. Outputs of each trial are judged by flashinfer.Judge against gdn.Reference, in float64. Only what passes is timed.
//  2. Latency is the mean over trials of the mean over iterations, each execution on fresh copies of the arguments and, with
//     Protocol.Cold, after the caches were overwritten. The reference of a speed-up is TokenLoop in the same runtime.
//  3. Work is done in a child process, which is stopped at the time limit (TIMEOUT) and may crash (RUNTIME_ERROR) without harm.
//  4. A trace is on the disk before the next workload begins. A sweep that was stopped, or killed, goes on where it was; a line cut
//     short by a crash is dropped, and its workload done again.
package bench
