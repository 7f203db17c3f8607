// Package ir is the program that gdngen generates, checks and costs: one op set with several meanings.
//
// Rules:
//
//  1. A module is one function. Values are SSA and immutable, each with an element type and a static shape.
//  2. Every op is a row of one table (ops.go). The verifier, printer, parser, interpreter and backends are tables over
//     the same rows, and each has a totality test.
//  3. There are two levels. At the tensor level everything is pure; the only iteration is loop and grid, whose bodies
//     are pure functions of windows and carried values. At the kernel level a grid has become a kernel: its body works on
//     references (operand windows and scratch) by load and store, and program order is the schedule.
//  4. The text form parses back: Parse(m.String()) equals m. Hash is the SHA-256 of the text. The place where an
//     instruction was written (Pos), and what a formula calls its result (Value.Called), are in neither.
//  5. The interpreter (package interp) defines what every op computes. Passes must not change it.
//
// # What belongs here
//
//	ir        ops, types, text, verifier, builder. Begin with ops.go
//	array     values: tensors and safetensors
//	interp    the meaning of every op
//	passes    passes for every target
//	target    the facts of machines, one row each: sizes, rates, latencies, names, flags. What is not known of one is in its row
//
// It imports nothing of the project but internal/vector.
//
// # Grids
//
// A grid has parallel axes and at most one sequential one. Its body is a function of blocks of operands (windows) and of carried blocks. A
// carried block is loaded when its window's index changes, and stored before it changes. This one rule gives the states of batch rows and
// heads; with an index that is the same for some steps, rows that run back to back in one program; with an index from a table, packed sequences.
//
// # Tasks
//
// Each instruction has a task (task.go): its stage, and where they apply a chunk and a head. Schedules order instructions by their tasks, so
// a task is printed, parsed and hashed, and survives into the compiler's schedule. A position names the line of Go or of text that wrote
// the instruction; errors name it, and nothing else asks for it.
//
//	%20 = dot %18, %19 {lb=[0], rb=[0], lc=[2], rc=[2], prec=bf16x1} : f32[8,64,64] @products
//	%21 = load %5 {starts=[0,1,0], strides=[1,4,1]} : u32[64,128] @load
package ir
