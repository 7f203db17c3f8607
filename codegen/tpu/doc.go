// Package tpu lowers grids to kernels of a TPU, in two passes.
//
// Tile makes a kernel of a grid. A grid's body is written on batched values, [N, rows, lanes] with N heads. A vector unit has registers
// of 8 sublanes by 128 lanes, and an MXU multiplies one tile by another. So every value becomes a list of 2-D tiles, one per point of
// its leading dimensions. One op becomes one op per tile, and all tiles of an op come before the next op. The heads are thus
// interleaved: the products of eight heads follow one another and hide each other's latency.
//
// Pipeline (internal/pipeline) then orders a kernel's instructions by its schedule, and overlaps successive steps. A kernel without a
// schedule keeps the order of Tile.
//
// # Factors
//
// Programs of attention mostly move elements: heads to the front, gates from rows to columns, blocks of a chunk next to each other. On a
// TPU these moves cost most, since only transposes, rotations and memory move elements between rows and lanes. Most moves are never
// emitted. A moved value is a view (type tiled): each logical dimension is a list of factors, and each factor is a stride through tiles,
// rows or lanes of the source.
//
//	window of 4 tokens x 2 heads    [8, 128]      row 8x1 | lane 128x1
//	reshape                         [4, 2, 128]   row 4x2 | row 2x1 | lane 128x1
//	transpose                       [2, 4, 128]   row 2x1 | row 4x2 | lane 128x1
//
// "row 4x2" is four steps, two rows apart: the tokens of one head. A consumer that needs tiles calls tiler.tiles. It gets one load of
// every second row per head, so the transpose costs nothing. Example_factors draws these views.
//
// Forms that a consumer can ask for, and their cost:
//
//	heads in another order, or some of them   nothing: another list of tiles
//	rows by a stride, from memory             a load, of bf16 by words of two rows
//	rows by a stride, from registers          stores to scratch, then as from memory
//	heads in adjacent blocks of 128 lanes     another first lane of a load
//	rows and lanes swapped                    a transpose per tile
//	lanes from several places at once         an error: no move of tiles makes it
//
// Files:
//
//	tile.go        the pass, and the state of one grid's lowering
//	tile_grid.go   windows, carries and results: the parts of a grid around its body
//	tile_value.go  views: factors, reshape, transpose, slice
//	tile_ops.go    ops that treat every tile alike
//	tile_shape.go  ops that change shapes
//	tile_move.go   gathering views into plain tiles
//	tile_store.go  scratch by columns of registers, and stores of views
//	tile_fetch.go, tile_copy.go  blocks that the kernel itself copies from and to HBM
package tpu
