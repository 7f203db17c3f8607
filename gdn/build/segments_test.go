package build

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Packed sequences by visits agree with the reference, outputs and gradients, for all rules.
func TestSegmentsAgree(t *testing.T) {
	rules := []string{"gdn", "deltanet", "simple-gla", "kda", "gla", "gdn2"}
	seen := map[string]int{}
	for i := range 120 {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		s, v := gdntest.RandomSpec(r), gdntest.RandomVariant(r)
		rule, err := gdn.Parse("tiny,rule=" + rules[i%len(rules)])
		require.NoError(t, err)
		s.Rule, s.Bound, s.Pool, s.Direction = rule.Rule, 0, 0, gdn.Direction(i/len(rules)%3)
		s.Batch, s.Seqs, s.Tokens = 1, 2+r.IntN(5), 20+r.IntN(150)
		if s.Direction == gdn.Forward && s.Init {
			s.Pool, s.Empty = s.Seqs+2, gdn.EmptyKeep
		}
		s.Window, s.Every, s.NegEigval = false, 0, s.NegEigval && s.Rule.Writes()
		if len(s.GateParams()) == 0 {
			s.Gates, s.GateDType = gdn.GatesGiven, ir.F32
		}
		v.Algo, v.Flow, v.Form, v.Mapping.Pack = gdn.AlgoChunk, gdn.FlowFused, gdn.FormVPrime, gdn.PackSegments
		v.Training.Saved, v.Training.Save = ir.F32, gdn.Save(r.IntN(int(gdn.SaveAll)+1))
		v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store = ir.PrecF32, ir.PrecF32, ir.PrecF32, ir.F32
		v.Numerics.PrecApply, v.Training.PrecGrad, v.Training.PrecUpdate = gdn.OwnInherit, gdn.OwnInherit, gdn.OwnInherit
		v.Decay, v.Numerics.DecayBF16 = gdn.DecaySplit, 0
		v = v.Canon()
		if s.Validate() != nil || v.Check(s) != nil || v.Unsafe(s) != "" || v.Fit(s).Mapping.Pack != gdn.PackSegments {
			continue
		}
		seen[rules[i%len(rules)]+" "+s.Direction.String()]++
		if s.Pool > 0 {
			seen["pool"]++
		}
		if v.Fit(s).Mapping.Chunks > 1 {
			seen["lockstep"]++
		}
		inputs := drawInputs(t, "random", s, uint64(i))
		want := exact(t, s, inputs)
		out := run(t, build(t, s, v), inputs)
		v.Mapping.Pack = gdn.PackGather
		gathered := run(t, build(t, s, v), inputs)
		for _, o := range s.Outputs() {
			// Chunks are cut elsewhere, so sums over all tokens, which cancel, round otherwise.
			most := max(2e-5, 3*array.Compare(gathered[o.Name], want[o.Name]).Ratio)
			if o.Type.DType == ir.BF16 {
				most += 4e-3
			}
			require.LessOrEqual(t, array.Compare(out[o.Name], want[o.Name]).Ratio, most, "%d: %s by %s: %s", i, s, v, o.Name)
		}
	}
	require.Greater(t, seen["pool"], 3)
	require.Greater(t, seen["lockstep"], 9)
	for _, rule := range rules {
		require.Greater(t, seen[rule+" forward"], 2, rule)
		require.True(t, rule == "simple-gla" || seen[rule+" train"] > 0 && seen[rule+" backward"] > 0, rule)
	}
}
