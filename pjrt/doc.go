// Package pjrt runs StableHLO programs on a device through its PJRT plugin: it loads, compiles, executes and times.
//
// One process may open several engines. An engine and its programs may be used by several goroutines at once.
// Close what was opened: an engine keeps its compiled programs until they or it are closed.
//
// Calling a plugin needs cgo. A binary built without a C compiler still links; Open then says what is missing.
package pjrt
