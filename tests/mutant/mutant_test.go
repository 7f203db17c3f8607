package mutant_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/build"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/tests/mutant"
)

func module(t *testing.T, spec, variant string) (gdn.Spec, *ir.Module) {
	s, err := gdn.Parse(spec)
	require.NoError(t, err)
	v, err := gdn.ParseVariant(variant)
	require.NoError(t, err)
	m, err := build.Module(s, v)
	require.NoError(t, err)
	return s, m
}

func compute(t *testing.T, s gdn.Spec, m *ir.Module) map[string]*array.Array {
	c, err := truth.LookupClass("resets")
	require.NoError(t, err)
	in, err := c.Generate(s, 1)
	require.NoError(t, err)
	got, err := interp.Run(m, in, interp.Options{})
	require.NoError(t, err)
	return got
}

// Every fault changes what is computed, of programs of several shapes, and most of what comes out is still near: the edit is the fault it
// says, not rubble. The module it was made of stays as it was.
func TestAll(t *testing.T) {
	for spec, variants := range map[string][]string{
		"b=2,t=300,hk=1,hv=2,k=32,v=32,dtype=bf16,negeig": {"bf16", "default", "chunks2,prec=bf16x1", "split-uw", "token"},
		"t=300,hk=2,k=128,dtype=bf16,seqs=3,init":         {"tpu-packed"},
	} {
		for _, variant := range variants {
			s, right := module(t, spec, variant)
			text, want := right.String(), compute(t, s, right)
			for _, x := range mutant.All {
				if !x.Applies(s) {
					continue
				}
				wrong, _, err := x.Apply(right, s, rand.New(rand.NewPCG(3, 4)))
				if variant == "tpu-packed" && x.Name == "stale" {
					require.ErrorContains(t, err, "the module has no grid that carries a state")
					continue
				}
				require.NoError(t, err, "%s, %s", variant, x.Name)
				require.Equal(t, text, right.String())
				off := 0.0
				for name, a := range compute(t, s, wrong) {
					off = max(off, array.Compare(a, want[name]).Ratio)
				}
				require.Greater(t, off, 1e-4, "%s, %s", variant, x.Name)
				require.Less(t, off, 10., "%s, %s", variant, x.Name)
			}
		}
	}
}

// Mutants are lowered as what they are made of.
func TestLowered(t *testing.T) {
	s, right := module(t, "t=300,hk=1,hv=2,k=128,dtype=bf16,negeig", "tpu")
	for _, x := range mutant.All {
		if x.Applies(s) {
			wrong, _, err := x.Apply(right, s, rand.New(rand.NewPCG(3, 4)))
			require.NoError(t, err, x.Name)
			_, err = route.Kernels(wrong)
			require.NoError(t, err, x.Name)
		}
	}
}

// Strengths are drawn from what the fault's text says, other ones from other seeds.
func TestStrengths(t *testing.T) {
	s, right := module(t, "t=300,hk=1,hv=2,k=16", "default")
	seen := map[string]bool{}
	for i := range uint64(20) {
		for _, x := range mutant.All[:1] {
			_, drawn, err := x.Apply(right, s, rand.New(rand.NewPCG(i, 1)))
			require.NoError(t, err)
			leak, err := strconv.ParseFloat(drawn, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, leak, .001)
			require.LessOrEqual(t, leak, .01)
			seen[drawn] = true
		}
	}
	require.Greater(t, len(seen), 15)
}
