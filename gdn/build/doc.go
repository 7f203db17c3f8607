// Package build makes programs of a spec and a variant: modules of the IR with glue around grids, one grid step for a few chunks of a few heads.
//
// One subject a file: chunk.go has the chunkwise rule, token.go the token recurrence, aligned.go and stream.go packed sequences, backward.go the
// gradients, channel.go a decay a channel. They stand on layers that know no algorithm (stages.go): loads and outputs here, and below
// internal/ what a body is written with (tile), the inverse of a chunk (inverse), raw gates and norms (gate), decays of channels (channel), and
// the schedule of packed sequences (visits). Around the grids is glue (glue.go).
package build
