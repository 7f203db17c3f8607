// Package model describes the layer around the gated delta rule, and small language models of such layers, for their cost: sizes, model
// flops, and the programs of the parts of a training step, forward and backward.
//
// Rules:
//
//  1. A part is a row of a table: how often a step runs it, its model flops, and its modules. A part produces values in the layout that the next
//     part reads, so a change of layout is charged to the part that causes it. A value x has one name in all parts of a layer, and its gradient is
//     dx. So parts link by name to a piece, the unit of compilation: one module per layer and pass.
//  2. Model flops follow the mathematics, not the program: two per multiply-add of matrix products, causal products by half, and the rule
//     by its chunkwise form at RuleChunk. The backward pass counts twice the forward. Elementwise work counts nothing.
//  3. Activations are bf16; products and sums over tokens, channels or the vocabulary are f32. Values for the backward pass are saved, or recomputed
//     from its inputs in parts marked so.
//
// Omitted: positions, dropout, and communication.
package model
