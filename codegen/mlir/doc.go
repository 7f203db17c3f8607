// Package mlir reads the MLIR text of emitted programs into a tree: Mosaic kernels in the generic form, and the StableHLO around them in its
// own short form. It shares nothing with the emitters, so that what it reads is what a compiler would.
//
// Rules:
//
//  1. A module is a list of functions; a function, a region's body and a branch are one block each. Text with several blocks is refused.
//
//  2. Values are numbered from 0 in each function. A use must follow its definition, in its own block or one around it, and have the type
//     that was declared there.
//
//  3. Attributes are Go values: Num, Dense, Opaque, Symbol, Word, Type, string, bool, []int for array<i64: ...>, []Attr and Dict.
//
//  4. What is not understood is an error that names line and column; nothing panics.
//
//     %4 = "stable_mosaic.arith.mulf"(%2, %3) : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
//     %5 = stablehlo.slice %4 [0:8, 0:64] : (tensor<8x128xf32>) -> tensor<8x64xf32>
package mlir
