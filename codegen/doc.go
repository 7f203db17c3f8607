// Package codegen turns IR modules into programs. It holds the parts that all backends share: the interface, the artifact, and the error
// that names an instruction.
//
// # What belongs here
//
//	route        from a spec and a variant to a text: Resolve resolves "auto", Routes is the table of backends. Begin here.
//	pass         the table of passes and the reasons of their order
//	tpu          grids become kernels (tile), and successive chunks overlap (internal/pipeline)
//	plain        grids become plain ops, for a CPU or GPU
//	mosaic       kernels as textual stable_mosaic inside of StableHLO
//	stablehlo    plain programs
//	pallas       the same kernels as Python for JAX
//	triton, ptx  Python for GPUs by templates; StableHLO with compiled kernels inside
//	mlir         a reader of emitted text; mlir/tensor, mosaic/eval and stablehlo/eval compute it
//
// A backend is a table of rules over ir.Ops, and refuses every op without a rule, by name. Backends do not depend on gdn; only route,
// pallas and triton know specs. Nothing here runs a program: package pjrt does.
//
// # A program on its way
//
//	build.Module     the tensor level: XLA ops around grids whose bodies are pure
//	precision        products of two and three bf16 parts become sums of single-pass products
//	fold cse dce     constants, equal instructions, unread instructions
//	batch moves      for a CPU or GPU: parallel axes become leading dimensions, the sequential one a loop
//	tile             for a TPU: each batched value becomes tiles of two dimensions, one op over all tiles before the next
//	pipeline         orders a kernel's body, and overlaps successive chunks as its schedule says
//	Emit             the text
//
// To see each stage, run gdngen explain --spec bench --html page.html. To print the module after one pass, run gdngen gen --spec tiny
// --backend ir --after tile.
//
// On a CPU or GPU, grids are simplified before printing, and bf16 values are held in float32 around each inexact op: CPU runtimes drop
// bf16 rounding or are slow at it. Mosaic refuses programs that libtpu accepts silently: windows and loads out of range, empty loops,
// more VMEM than the target has.
package codegen
