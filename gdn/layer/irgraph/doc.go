// Package irgraph turns modules of package ir into GoMLX graph code. Rules:
//
//  1. It is a table over the op table of ir (rules.go): each op has a rule, or is refused with a reason a user can read.
//  2. Grids are batched first (plain.Batch), so a module is plain ops and loops.
//  3. A loop becomes a While where the backend can slice at run time, and is unrolled elsewhere: then its index is known
//     while the graph is built, slices are static, and results are put together by one concatenation.
//  4. Instructions of a loop that do not depend on its values are built once, outside.
//  5. Nothing here has a gradient: callers give the whole its own (package layer does).
package irgraph
