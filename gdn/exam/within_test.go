package exam

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// A program of more tokens gives for a Case the results of a program of the Case's size, except for rounding, and an error of it shows.
func TestWithin(t *testing.T) {
	for text, variants := range map[string][]string{
		"b=2,t=70,hk=1,hv=2,k=16,v=8,dtype=bf16,init":                    {"default", "naive", "token"},
		"t=70,hk=1,hv=2,k=16,gates=fused,l2norm,negeig,state=vk,init":    {"default", "tpu"},
		"t=70,hk=1,hv=2,k=16,v=16,seqs=6,init,empty=zero,dtype=bf16":     {"default"},
		"t=70,hk=1,hv=2,k=16,v=16,seqs=5,init,pool=8,state=vk,dtype=f32": {"default"},
	} {
		for _, variant := range variants {
			x := drawCase(t, text)
			v, err := gdn.ParseVariant(variant)
			require.NoError(t, err)
			s := x.Spec
			s.Tokens = 300
			m, err := build.Module(s, v)
			require.NoError(t, err, variant)
			run := func(in map[string]*array.Array) (map[string]*array.Array, error) {
				require.NoError(t, truth.CheckInputs(s, in))
				return interp.Run(m, in, interp.Options{})
			}
			got, err := x.Within(s, run)
			require.NoError(t, err)
			marks, err := x.Judge(v.Precision().String(), got)
			require.NoError(t, err)
			for _, k := range marks {
				require.True(t, k.Pass(), "%s on %s: %s", variant, text, k)
			}
			off, err := x.Within(s, func(in map[string]*array.Array) (map[string]*array.Array, error) {
				got, err := run(in)
				o := got["o"].Float64s()
				got["o"] = array.FromFloat64s(got["o"].Type, got["o"].Shape, append(o[s.V:], o[:s.V]...)) // each value head has its neighbour's
				return got, err
			})
			require.NoError(t, err)
			marks, err = x.Judge(v.Precision().String(), off)
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(marks, func(m Mark) bool { return !m.Pass() }), "%s on %s: o that is moved", variant, text)
		}
	}
}

// Tokens are put in and cut out in each row.
func TestInsert(t *testing.T) {
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8} // 2 rows, 2 tokens, width 2
	l := insert(v, 2, 2, 1, 1, 9)
	require.Equal(t, []float64{1, 2, 9, 9, 3, 4, 5, 6, 9, 9, 7, 8}, l)
	require.Equal(t, v, cut(l, 2, 3, 1, 1))
}
