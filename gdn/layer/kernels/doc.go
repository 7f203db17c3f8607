// Package kernels puts generated programs into GoMLX graphs: Mosaic kernels by custom call for a TPU, our StableHLO elsewhere.
//
// GoMLX has no public place for either. Wrap gives a backend that is GoMLX's xla in everything but this: a graph calls a
// function of the right types, and the text of that function is replaced by the generated program as the plugin is asked to compile the graph
// (package pjrt/table, through which device.Open loads plugins). Nothing is read of GoMLX but what it exports, and Wrap runs a small program
// before anything depends on it. Where that fails, or a program can not be generated, package layer builds the same module as graph code.
package kernels
