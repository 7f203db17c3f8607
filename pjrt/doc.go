// Package pjrt runs StableHLO programs on a device through its PJRT plugin: it loads, compiles, executes and times.
//
// One process may open several engines. An engine and its programs may be used by several goroutines at once.
// Close what was opened: an engine keeps its compiled programs until they or it are closed.
//
// # What belongs here
//
//	pjrt      buffers stay on the device between calls where a server wants them to. Begin with engine.go
//	plugins   fetches the pinned plugins with pip, by hash, into the user's cache
//	aot       compiles for a TPU that is not there, in a child process: libtpu can kill its process
//	table     gives go-xla a copy of a plugin's table of functions, and completes programs between the two
//	child     starts this program again as a worker
//	device    opens a plugin in a child: it compiles, runs and times by lines of JSON
//	llo       the cost of a program from the schedule that libtpu dumps. It executes the scalar program of the schedule, so loops and
//	          branches count as they run; a branch that only a run could decide is an error, never a smaller number
//	machine   one lock for measuring and computing
//	gpu       Triton in a child of Python; gpu/sass models the time of machine code, gpu/thunk reads XLA's programs for a GPU
//	trace     profiles of JAX and XLA: sums, steps, differences
//
// It may import ir and ir/target; trace and llo know no rule and no emitter.
//
// llo has two rulers. Issue cycles (the ruler throughput) are bundles, delays and waits for the matrix units. In-order cycles (the ruler wall)
// are the same bundles on clocks that know latencies, queues of units and HBM (ir/target/timing.go).
//
// Calling a plugin needs cgo. A binary built without a C compiler still links; Open then says what is missing.
package pjrt
