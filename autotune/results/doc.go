// Package results makes the table of the cheapest variants by target and work, which docs/data/results.md shows.
//
// A plan names works and candidates. The champion of a work on a target is the candidate of least static cycles whose numbers are
// within the limits of every class of inputs, as the interpreter computes them from the lowered kernel at fewer tokens. The same plan
// and compiler give the same table. Beside it stand a front of cycles against errors, and the kernels of others (Peer).
package results
