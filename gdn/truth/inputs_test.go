package truth

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
)

// Every class gives valid inputs for every kind of spec, the same ones again for the same seed, and a finite reference.
func TestGenerate(t *testing.T) {
	for _, text := range []string{"b=2,t=40,hk=2,hv=4,k=8,v=12,init", "t=40,hk=1,k=8,dtype=bf16,gates=fused,gatedtype=bf16,negeig,l2norm,seqs=4,init,state=vk,empty=zero,packed",
		"t=1,hk=1,k=1,dtype=f16,gates=fused", "t=40,hk=1,k=8,negeig"} {
		s := gdntest.MustParse(t, text)
		for _, c := range Classes {
			if c.OfChannels() {
				continue
			}
			inputs, err := c.Generate(s, 7)
			if c.Beyond && !s.NegEigval {
				require.ErrorContains(t, err, "negeig")
				continue
			}
			require.NoError(t, err)
			require.NoError(t, CheckInputs(s, inputs))
			again, err := c.Generate(s, 7)
			require.NoError(t, err)
			require.Equal(t, inputs, again)
			other, err := c.Generate(s, 8)
			require.NoError(t, err)
			require.NotEqual(t, inputs["v"], other["v"])
			reference(t, s, inputs)
		}
	}
	_, err := Classes[0].Generate(gdn.Spec{}, 0)
	require.Error(t, err)
}

// An option changes only the tensors it concerns.
func TestGenerateStreams(t *testing.T) {
	a := generate(t, "random", gdntest.MustParse(t, "t=20,hk=2,k=4"), 1)
	b := generate(t, "random", gdntest.MustParse(t, "t=20,hk=2,k=4,gates=fused,init,seqs=2"), 1)
	for _, name := range []string{"q", "k", "v"} {
		require.Equal(t, a[name], b[name])
	}
}

// The classes have the properties that their names promise.
func TestClassProperties(t *testing.T) {
	s := gdntest.MustParse(t, "t=400,hk=1,k=64,negeig")
	cosine := func(class string) (mean float64) {
		k := generate(t, class, s, 3)["k"].Float64s()
		n := 0
		for i := 0; i < 400; i += 7 {
			for j := 0; j < i; j += 11 {
				for e := range 64 {
					mean += k[i*64+e] * k[j*64+e]
				}
				n++
			}
		}
		return mean / float64(n)
	}
	for class, want := range map[string]float64{"random": 0, "cos.75": .75, "u01nodecay": .75, "cos.9": .9, "cos.99": .99, "identical": 1, "beta2": 1, "reset.cos.9": .9} {
		require.InDelta(t, want, cosine(class), .02, class)
	}
	limits := map[string][4]float64{ // least and greatest log decay, least and greatest beta
		"random": {-2, 0, 0, 2}, "slow": {-.01, 0, 0, 2}, "cos.75": {-.7, -.3, 1, 1.5}, "u01nodecay": {0, 0, 1, 1.5}, "cos.9": {0, 0, 1, 1},
		"identical": {0, 0, 1, 1}, "resets": {-1e4, 0, 0, 2}, "reset.cos.9": {-1e4, 0, 1, 1}, "beta2": {-.02, 0, 1, 2}, "beta0": {-.001, 0, 0, 0},
	}
	for class, want := range limits {
		in := generate(t, class, s, 3)
		g, beta := in["g"].Float64s(), in["beta"].Float64s()
		require.GreaterOrEqual(t, slices.Min(g), float64(float32(want[0])), class)
		require.LessOrEqual(t, slices.Max(g), want[1], class)
		require.GreaterOrEqual(t, slices.Min(beta), want[2], class)
		require.LessOrEqual(t, slices.Max(beta), want[3], class)
	}
	count := map[float64]int{}
	for _, g := range generate(t, "resets", s, 3)["g"].Float64s() {
		count[g]++
	}
	require.Greater(t, count[-20], 0)
	require.Greater(t, count[-1e4], 0)
	require.InDelta(t, 12, count[-20]+count[-1e4], 8)
}

// Fused gates give the decay and beta that the class asks for.
func TestFusedGatesInvert(t *testing.T) {
	given, fused := gdntest.MustParse(t, "t=200,hk=2,k=4,negeig"), gdntest.MustParse(t, "t=200,hk=2,k=4,negeig,gates=fused")
	for _, c := range Classes {
		if c.OfChannels() {
			continue
		}
		want, in := generate(t, c.Name, given, 5), generate(t, c.Name, fused, 5)
		g, beta := FusedGates(fused, in["A_log"].Float64s(), in["a"].Float64s(), in["dt_bias"].Float64s(), in["b"].Float64s())
		wantG, wantBeta := want["g"].Float64s(), want["beta"].Float64s()
		for i := range g {
			require.InDelta(t, wantG[i], g[i], 1e-5*(1+math.Abs(wantG[i])), c.Name)
			require.InDelta(t, wantBeta[i], beta[i], 1e-6, c.Name)
			require.Equal(t, wantBeta[i] == 0, beta[i] == 0, c.Name)
			require.Equal(t, wantG[i] == 0, g[i] == 0, c.Name)
		}
	}
}

// Where beta is zero a head that begins without a state ends without one, whatever form the gates have: no state of 1e-18 is judged.
func TestFusedGatesClose(t *testing.T) {
	s := gdntest.MustParse(t, "t=40,hk=1,hv=2,k=4,init,gates=fused,gatedtype=bf16")
	class, err := LookupClass("beta0")
	require.NoError(t, err)
	in, err := GenerateMix(s, []Class{class, class}, 1)
	require.NoError(t, err)
	state := reference(t, s, in)["final_state"].Float64s()
	require.NotZero(t, state[0])
	require.Equal(t, make([]float64, 16), state[16:])
}

func TestGenerateBounds(t *testing.T) {
	for seqs := 1; seqs < 9; seqs++ {
		cu := generate(t, "random", gdntest.MustParse(t, fmt.Sprintf("t=50,hk=1,k=2,seqs=%d", seqs)), 1)["cu_seqlens"].Int64s()
		require.NoError(t, checkBounds(cu, gdn.Spec{Tokens: 50}, nil))
		require.Len(t, cu, seqs+1)
		require.Equal(t, seqs > 2, seqs > 2 && cu[1] == cu[2])
	}
}
