// Package tpu lowers grids to kernels of a TPU, in two passes.
//
// Tile makes a kernel of a grid. A grid's body is written on batched values, [N, rows, lanes] with
// N heads; a vector unit has registers of 8 sublanes by 128 lanes, and a matrix unit multiplies one
// tile by another. So every value becomes a list of 2-D tiles, one for each point of its leading
// dimensions, and one op becomes one op a tile, all tiles of an op before the next op. That order
// is called lockstep: the products of eight heads follow one another, and hide each other's
// latency.
//
// Pipeline (internal/pipeline) then orders a kernel's instructions as its schedule says, and
// overlaps successive steps. A kernel without a schedule keeps the order of Tile.
//
// # Factors
//
// Programs of attention mostly move elements: heads to the front, gates from rows to columns,
// blocks of a chunk side by side. On a TPU such moves are the dearest instructions there are, since
// rows and lanes of registers change only by transposes, rotations and memory. Most are never made
// here. A value that is moved is a view: each logical dimension is a list of factors, and each
// factor a stride through tiles, rows or lanes of the place in which the elements are (tiled).
//
//	window of 4 tokens x 2 heads    [8, 128]      row 8x1 | lane 128x1
//	reshape                         [4, 2, 128]   row 4x2 | row 2x1 | lane 128x1
//	transpose                       [2, 4, 128]   row 2x1 | row 4x2 | lane 128x1
//
// "row 4x2" is four steps, two rows apart: the tokens of one head. A consumer that needs tiles then
// asks for them (tiler.tiles), and gets for each head one load of every second row: the transpose
// costs nothing. Example_factors draws these views.
//
// What a consumer asks for, and what it costs:
//
//	heads in another order, or some of them   nothing: another list of tiles
//	rows by a stride, from memory             a load, of bf16 by words of two rows
//	rows by a stride, from registers          stores to scratch, then as from memory
//	heads side by side, in blocks of 128      another first lane of a load
//	rows and lanes swapped                    a transpose a tile
//	lanes from several places at once         refused: no move of tiles makes it
//
// One file has one subject:
//
//	tile.go        the pass, and the state of one grid's lowering
//	tile_grid.go   windows, carries and results: what a grid has around its body
//	tile_value.go  views: factors, reshape, transpose, slice
//	tile_ops.go    ops that are the same on every tile
//	tile_shape.go  ops that change shapes
//	tile_move.go   from a view to plain tiles
//	tile_store.go  scratch by columns of registers, and stores of views
//	tile_fetch.go, tile_copy.go  blocks that the kernel itself copies from and to main memory
package tpu
