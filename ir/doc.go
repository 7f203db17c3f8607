// Package ir is the program representation that gdngen generates, checks and costs: one op set, at a tensor and a kernel level.
//
// Rules:
//
//  1. A module is one function. Values are SSA and immutable, each with an element type and a static shape.
//  2. Every op is a row of one table (ops.go). The verifier, printer, parser, interpreter and backends are tables over
//     the same rows, and each has a totality test.
//  3. There are two levels. At the tensor level everything is pure; the only iteration is loop and grid, whose bodies
//     are pure functions of windows and carried values. At the kernel level a grid has become a kernel: its body works on
//     references (operand windows and scratch) by load and store, and program order is the schedule.
//  4. The text form parses back: Parse(m.String()) equals m. Hash is the SHA-256 of the text. Neither contains an instruction's source
//     position (Pos) or the formula name of its result (Value.Called).
//  5. The interpreter (package interp) defines what every op computes. Passes must not change it.
//
// # What belongs here
//
//	ir        ops, types, text, verifier, builder. Begin with ops.go
//	array     values: tensors and safetensors
//	interp    the meaning of every op
//	passes    passes for every target
//	target    facts of machines, one row each: sizes, rates, latencies, names, flags. A row lists its unknown facts
//
// It imports no package of this module but internal/vector.
//
// # Grids
//
// A grid has parallel axes and at most one sequential one. Its body is a function of blocks of operands (windows) and of carried blocks. A
// carried block is loaded when its window's index changes, and stored before it changes. This rule covers three cases: states of batch rows and
// heads; an index that stays the same over several rows, for rows that run back to back; and an index from a table, for packed sequences.
//
// # Tasks
//
// Each instruction has a task (task.go): its stage, and possibly a chunk and a head. Schedules order instructions by task, so
// a task is part of text and hash, and survives into the compiler's schedule. A position is the line of Go or text that wrote
// the instruction; it only appears in error messages.
//
//	%20 = dot %18, %19 {lb=[0], rb=[0], lc=[2], rc=[2], prec=bf16x1} : f32[8,64,64] @products
//	%21 = load %5 {starts=[0,1,0], strides=[1,4,1]} : u32[64,128] @load
package ir
