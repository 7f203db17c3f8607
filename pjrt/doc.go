// Package pjrt runs StableHLO programs on a device through its PJRT plugin: it loads, compiles, executes and times.
//
// One process may open several engines. An engine and its programs may be used concurrently. Close engines and programs; an engine keeps
// its compiled programs until it or they are closed.
//
// # What belongs here
//
//	pjrt      engines, programs, and buffers that stay on the device between calls. Begin with engine.go
//	plugins   fetches the pinned plugins with pip, by hash, into the user's cache
//	aot       compiles for a TPU that is not present, in a child process, since libtpu can kill its process
//	table     gives go-xla a copy of a plugin's table of functions, and completes programs between them
//	child     starts this program again as a worker
//	device    opens a plugin in a child process, which compiles, runs and times programs; the protocol is lines of JSON
//	llo       the cost of a program from the schedule that libtpu dumps. It executes the schedule's scalar program, so loops and branches
//	          count as they run; a branch that depends on unknown data is an error, never a smaller number
//	machine   one lock for measurements and computations
//	gpu       Triton in a child Python process; gpu/sass models the time of machine code, gpu/thunk reads XLA's programs for a GPU
//	trace     profiles of JAX and XLA: sums, steps, differences
//
// pjrt may import ir and ir/target; trace and llo know no rule and no emitter.
//
// llo has two measures of cost. Issue cycles are bundles, delays and waits for the MXUs. In-order cycles
// are the same bundles on clocks that model latencies, queues of units and HBM (ir/target/timing.go).
//
// Calling a plugin needs cgo. A binary built without a C compiler links too; Open then returns ErrNoCgo.
package pjrt
