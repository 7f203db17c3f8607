// Package results makes the table of the cheapest variants by target and work: docs/data/results.md.
//
// A plan lists works (rows) and candidates. The champion of a row on a target is the candidate with the lowest static cost whose
// errors are within the limits on every class of inputs. The interpreter computes them from the lowered kernel, at fewer tokens.
// The same plan and compiler give the same table. The page also has a front of cycles against errors, and public kernels (Peer).
package results
