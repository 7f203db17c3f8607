// Package model is the layer around the gated delta rule, and small language models made of such layers, as far as their cost goes: sizes, model
// flops, and the programs of the parts of a training step, forward and backward.
//
// Rules:
//
//  1. A part is a row of a table: how often a step runs it, its model flops, and its modules. A module takes and gives what the next part does,
//     in the layout in which the next part takes it, so changes of layout are paid where they are caused. A value has one name in all parts of a
//     layer, x, and its gradient is dx: so parts link by themselves to a piece, which is what a step is compiled in, a layer as one module each way.
//  2. Model flops are those of the mathematics, whatever the program does: two a multiply-add of the matrix products, a causal product counted
//     by half, and the rule by its chunkwise form at RuleChunk. The backward pass counts twice the forward. Elementwise work counts nothing.
//  3. Activations are bf16, products and sums over tokens, channels or the vocabulary f32. What the backward pass reads is kept, or made anew by it
//     from its inputs where a part says so.
//
// Left out: positions, dropout, the optimiser, and communication.
package model
