package accuracy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/tests/arith"
)

// packedErrors are those of what computes two sequences in the tokens of a column, over its seeds.
func packedErrors(t *testing.T, c Column, run func(s gdn.Spec, in map[string]*array.Array) map[string]*array.Array) Error {
	s := c.Spec()
	s.Seqs = 2
	e, err := c.measure(s, func(s gdn.Spec, in map[string]*array.Array) (map[string]*array.Array, error) { return run(s, in), nil })
	require.NoError(t, err)
	return e
}

// bySequence is the arithmetic of a public kernel on each packed sequence by itself.
func bySequence(t *testing.T, kernel string) func(s gdn.Spec, in map[string]*array.Array) map[string]*array.Array {
	i := slices.IndexFunc(arith.Peers, func(p arith.Peer) bool { return p.Name == kernel })
	require.GreaterOrEqual(t, i, 0, kernel)
	return func(s gdn.Spec, in map[string]*array.Array) map[string]*array.Array {
		cu := in["cu_seqlens"].Int64s()
		joined := map[string][]float64{}
		for n := range s.Seqs {
			begin, end := int(cu[n]), int(cu[n+1])
			one := s
			one.Seqs, one.Tokens = 0, end-begin
			part := map[string]*array.Array{}
			for _, p := range one.Inputs() {
				row := len(in[p.Name].Float64s()) / s.Tokens
				part[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, in[p.Name].Float64s()[begin*row:end*row])
			}
			for name, x := range arith.Outputs(one, part, arith.Peers[i].Run) {
				joined[name] = append(joined[name], x.Float64s()...)
			}
		}
		got := map[string]*array.Array{}
		for _, p := range s.Outputs() {
			got[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, joined[p.Name])
		}
		return got
	}
}

// The kernels of packed sequences have the errors that docs/accuracy.md compares with public kernels: on a class of inputs that rotates by commit, or on
// all.
func TestPackedSequences(t *testing.T) {
	for _, claim := range []struct {
		variant, peer string
		o, state      float64
	}{
		{"tpu-packed", "tokamax", 1.25, 1.3},
		{"tpu-packed,decay_bf16=rows,refine=yes", FLA, 1.2, .85},
	} {
		v, err := gdn.ParseVariant(claim.variant)
		require.NoError(t, err)
		for _, c := range rotate.Sample(29, Short(), 1) {
			ours := packedErrors(t, c, func(s gdn.Spec, in map[string]*array.Array) map[string]*array.Array {
				m, err := route.NewForm(s, v).Kernels()
				require.NoError(t, err)
				got, err := interp.Run(m, in, interp.Options{})
				require.NoError(t, err)
				return got
			})
			peer := packedErrors(t, c, bySequence(t, claim.peer))
			at := fmt.Sprintf("%s on %s: %s, %s has %s", claim.variant, c.Name, ours, claim.peer, peer)
			t.Logf("%s: %.3f and %.3f times", at, ours.O/peer.O, ours.State/peer.State)
			require.LessOrEqual(t, ours.O, claim.o*peer.O, at)
			require.LessOrEqual(t, ours.State, claim.state*peer.State, at)
		}
	}
}
