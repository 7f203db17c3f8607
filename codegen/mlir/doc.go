// Package mlir parses the MLIR text of emitted programs: Mosaic kernels in the generic form, and the StableHLO around them in its short
// form. It shares no code with the emitters, so it reads a program as a compiler would.
//
// Rules:
//
//  1. A module is a list of functions. A function, a region's body and a branch are one block each; text with several blocks is refused.
//
//  2. Values are numbered from 0 in each function. A use follows its definition, in the same block or an inner one, and has the declared type.
//
//  3. Attributes are Go values: Num, Dense, Opaque, Symbol, Word, Type, string, bool, []int for array<i64: ...>, []Attr and Dict.
//
//  4. Text that is not understood is an error with line and column; nothing panics.
//
//     %4 = "stable_mosaic.arith.mulf"(%2, %3) : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
//     %5 = stablehlo.slice %4 [0:8, 0:64] : (tensor<8x128xf32>) -> tensor<8x64xf32>
package mlir
