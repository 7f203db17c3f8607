// Package model is the layer around the gated delta rule, and small language models made of such layers, as far as their cost goes: sizes, model
// flops, and the programs of the parts of a training step, forward and backward.
//
// Rules:
//
//  1. A part is a row of a table: how often a step runs it, its model flops, and its modules. A module takes and gives what the next part does,
//     in the layout in which the next part takes it, so changes of layout are paid where they are caused.
//  2. Model flops are those of the mathematics, whatever the program does: two a multiply-add of the matrix products, a causal product counted
//     by half, and the rule by its chunkwise form at RuleChunk. The backward pass counts twice the forward. Elementwise work counts nothing.
//  3. Activations are bf16, sums f32. Nothing is computed twice but what a backward module computes from its own inputs.
//
// Left out: positions, dropout, the optimiser, and communication.
package model
