// Package thunk reads what XLA would run on a GPU, from the files that it dumps at a compile: the sequence of thunks, which are launches of
// kernels, copies and loops, and the optimised module that they were made of.
//
// Launches, their grids and the nesting of loops are exact. Bytes are those that the operands and results of a kernel have, each moved
// once: a slice counts as much as it takes, and an update in place what it writes. What a kernel computes is not looked at.
package thunk
