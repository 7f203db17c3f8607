// Package irgraph turns modules of package ir into GoMLX graph code. Rules:
//
//  1. rules.go is a table over the op table of ir: each op has a rule, or is refused with a reason for the user.
//  2. Grids are batched first (plain.Batch), so a module is plain ops and loops.
//  3. A loop becomes a While if the backend can slice at run time. Otherwise it is unrolled: then its index is known
//     while the graph is built, slices are static, and results are concatenated once.
//  4. Instructions of a loop that do not depend on its values are built once, outside.
//  5. Nothing here has a gradient: callers such as package layer add one.
package irgraph
