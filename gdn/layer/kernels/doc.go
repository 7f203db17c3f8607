// Package kernels puts generated programs into GoMLX graphs: Mosaic kernels as custom calls on a TPU, generated StableHLO elsewhere.
//
// GoMLX has no public API for either. Wrap returns a backend that differs from GoMLX's xla in one point: a graph calls a
// function of the right types, and its text is replaced by the generated program when the plugin is asked to compile the graph
// (package pjrt/table, through which device.Open loads plugins). It only uses GoMLX's exported API, and Wrap first runs a small test program.
// If that fails, or a program cannot be generated, package layer builds the same module as graph code.
package kernels
