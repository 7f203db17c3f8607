// Package bench evaluates variants on workloads in FlashInfer-Bench's manner, on the device of a PJRT plugin. The
// results form a trace set of FlashInfer-Bench in one folder.
//
// Rules:
//
//  1. Outputs of each trial are judged by flashinfer.Judge against gdn.Reference, in float64. Only passing solutions are timed.
//  2. Latency is the mean over trials of the mean over iterations, each execution on fresh copies of the arguments and, with
//     Protocol.Cold, after the caches were overwritten. Speed-ups compare with TokenLoop in the same runtime.
//  3. A child process does the work. It is stopped at the time limit (TIMEOUT) and may crash (RUNTIME_ERROR) without harm.
//  4. A trace is on the disk before the next workload begins. A sweep that was stopped, or killed, resumes; a line cut
//     short by a crash is dropped, and its workload done again.
package bench
