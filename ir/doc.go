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
package ir
