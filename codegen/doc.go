// Package codegen makes programs of IR modules. It has what all backends share: the interface, the artifact, the error that names an
// instruction.
//
// # What belongs here
//
//	route        from a spec and a variant to a text: Resolve says what auto stands for, Routes is the table of backends. Begin here.
//	pass         the table of passes and the reasons of their order
//	tpu          grids become kernels (tile), and successive chunks overlap (internal/pipeline)
//	plain        grids become plain ops, for a CPU or GPU
//	mosaic       kernels as textual stable_mosaic inside of StableHLO
//	stablehlo    plain programs
//	pallas       the same kernels as Python for JAX
//	triton, ptx  Python for GPUs by templates; StableHLO with compiled kernels inside
//	mlir         a reader of emitted text; mlir/tensor, mosaic/eval and stablehlo/eval compute it
//
// A backend is a table of rules over ir.Ops, and refuses by name what it has no rule for. It knows no rule of gdn; route, pallas and triton
// know specs. Nothing here runs a program: package pjrt does.
//
// # A program on its way
//
//	build.Module     the tensor level: XLA ops around grids whose bodies are pure
//	precision        products of two and three bf16 parts become single-pass products and sums
//	fold cse dce     constants, equal instructions, unread instructions
//	batch moves      for a CPU or GPU: parallel axes become leading dimensions, the sequential one a loop
//	tile             for a TPU: each batched value becomes tiles of two dimensions, one op over all tiles before the next
//	pipeline         orders a kernel's body, and overlaps successive chunks as its schedule says
//	Emit             the text
//
// gdngen explain --spec bench --html page.html follows each stage through them; gdngen gen --spec tiny --backend ir --after tile prints what
// one of them made.
//
// Grids on a CPU or GPU are simplified before they are printed, and bf16 is in float32 registers around each inexact op, since CPU runtimes
// drop or slow down real bf16. Mosaic refuses what libtpu accepts in silence: windows and loads out of range, empty loops, more vector memory
// than the target has.
package codegen
