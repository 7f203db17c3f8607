// Package thunk reads what XLA would run on a GPU from the files that it dumps during a compile: the sequence of thunks, which are
// kernel launches, copies and loops, and the optimised module that they were made from.
//
// Launches, grids and the nesting of loops are exact. Bytes are the sizes of a kernel's operands and results, each moved once. A slice
// counts only the part it takes, and an in-place update only what it writes. The computation in a kernel is not looked at.
package thunk
