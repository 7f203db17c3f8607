package build

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Gradients by decays of channels agree with the reference, in all forms that a variant may give them.
func TestChannelGradientsAgree(t *testing.T) {
	for _, rule := range []string{"kda", "gla", "gdn2"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for i := range 60 {
				r := rand.New(rand.NewPCG(uint64(i), 9))
				s, v := gdntest.RandomSpec(r), gdntest.RandomVariant(r)
				s.Direction = gdn.Direction(1 + r.IntN(2))
				s.Rule, _ = gdn.ParseRule(rule)
				s.NegEigval = s.NegEigval && s.Rule.Writes()
				if i%2 == 0 {
					s.Bound = -5
				}
				v.Algo, v.Training.Save, v.Training.Saved = gdn.AlgoChunk, gdn.Save(r.IntN(int(gdn.SaveAll)+1)), ir.F32
				v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store = ir.PrecF32, ir.PrecF32, ir.PrecF32, ir.F32
				v.Numerics.PrecApply, v.Training.PrecGrad, v.Training.PrecUpdate = gdn.OwnInherit, gdn.OwnInherit, gdn.OwnInherit
				if v.Decay == gdn.DecayBase2 {
					v.Decay = gdn.DecayClamp
				}
				limit := 1e-5
				if i%3 == 0 {
					v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store, v.Training.Saved = ir.PrecBF16x1, ir.PrecBF16x1, ir.PrecBF16x1, ir.BF16, ir.BF16
					v.Inverse.Solve, v.Inverse.Merge, v.Inverse.LeafBy, v.Inverse.Leaf, v.Decay = gdn.SolveMerge, gdn.MergePacked, gdn.LeafSubst, 16, gdn.DecayBase2
					v.Numerics.DecayBF16, v.Training.DecayBF16, v.Inverse.Mask = gdn.DecayBF16(r.IntN(3)), gdn.DecayBF16(r.IntN(3)), gdn.Mask(r.IntN(2))
					s.K = 16 // decays are rounded into each element of a key
					limit = .1
				}
				v = v.Canon()
				if v.Check(s) != nil || v.Unsafe(s) != "" {
					continue
				}
				seen[fmt.Sprintf("%s %s", v.Fit(s).Training.Save, v.Numerics.Store)]++
				name := fmt.Sprintf("%d: %s by %s", i, s, v)
				inputs := drawInputs(t, []string{"random", "slow", "cos.75"}[i%3], s, uint64(i))
				want, out := exact(t, s, inputs), run(t, build(t, s, v), inputs)
				for _, o := range s.Outputs() {
					most := limit
					if o.Type.DType == ir.BF16 {
						most += 4e-3
					}
					require.LessOrEqual(t, array.Compare(out[o.Name], want[o.Name]).Ratio, most, "%s: %s", name, o.Name)
				}
			}
			require.Positive(t, seen["state f32"])
			require.Positive(t, seen["state bf16"])
		})
	}
}

// They meet the limits of their precision on every class of inputs, with a bound and without one.
func TestChannelGradientsOnClasses(t *testing.T) {
	for _, text := range []string{"cpu,save=inverse", "tpu-train", "tpu-train,out=separate,transpose_k=value,save=state", exactTraining, exactTraining + ",save=state"} {
		v := gdntest.MustVariant(t, text)
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			for i, c := range truth.Classes {
				s := gdntest.MustParse(t, "t=192,hk=1,hv=2,k=32,direction=backward,init,rule="+[]string{"kda", "gdn2"}[i/2%2])
				s.NegEigval = c.Beyond
				if i%2 == 0 || c.AtBound() {
					s.Bound = -5
				}
				inputs := drawInputs(t, c.Name, s, 1)
				got, want := interpret(t, s, v, inputs), exact(t, s, inputs)
				for _, p := range s.Outputs() {
					off, limit, err := c.Error(s, v.Precision().String(), p, got, want)
					require.NoError(t, err)
					require.LessOrEqual(t, off, limit, "%s: %s", s, p.Name)
				}
			}
		})
	}
}

// The two programs of a training step give what the one of direction=train gives.
func TestChannelTraining(t *testing.T) {
	for _, rule := range []string{"kda,bound=-5", "kda", "gla", "gdn2"} {
		for _, text := range []string{"default,save=none", "cpu,save=inverse", "tpu-train", exactTraining} {
			v := gdntest.MustVariant(t, text)
			s := gdntest.MustParse(t, "t=150,hk=1,hv=2,k=16,v=24,seqs=4,init,gates=fused,l2norm,direction=train,rule="+rule)
			inputs := drawInputs(t, "random", s, 1)
			want := interpret(t, s, v, inputs)
			forward, backward, err := Training(s, v)
			require.NoError(t, err)
			plain := map[string]*array.Array{}
			for _, p := range forward.Body.Params {
				plain[p.Name] = inputs[p.Name]
			}
			got := run(t, forward, plain)
			all := maps.Clone(inputs)
			for _, p := range backward.Body.Params {
				if all[p.Name] == nil {
					all[p.Name] = got[p.Name]
				}
			}
			maps.Copy(got, run(t, backward, all))
			for _, p := range s.Outputs() {
				require.Equal(t, want[p.Name], got[p.Name], p.Name)
			}
		}
	}
}

// exactTraining is one pass with a step of Newton's iteration, in two bf16 parts what keys alike would sum.
const exactTraining = "tpu-train,refine=yes,precapply=bf16x3,precgrad=bf16x3,decay_bf16=rows,bwd.decay_bf16=rows"

// What auto takes for the class of flash-linear-attention is within its limits on every class of inputs, as for the gated delta rule: with gates given
// and raw, keys of length 1 or normalised by the kernel.
func TestChannelFieldLimits(t *testing.T) {
	for i, c := range truth.Classes {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s := gdntest.MustParse(t, "t=256,hk=1,hv=2,k=64,v=64,dtype=bf16,direction=train,init,rule=kda")
			if i%3 == 0 && !c.Beyond {
				s = gdntest.MustParse(t, "t=256,hk=1,hv=2,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,direction=train,rule=kda")
			}
			s.NegEigval = c.Beyond
			if i%2 == 0 || c.AtBound() {
				s.Bound = -5
			}
			choices, err := gdn.Choices("auto-fla", s, gdn.HostTPU, gdn.Machine{Cores: 1, MXUSize: 128 + i%2*128})
			require.NoError(t, err)
			v := choices[0].Variant
			require.Equal(t, !c.Beyond, v.Inverse.Refine)
			inputs := drawInputs(t, c.Name, s, 1)
			got, want := interpret(t, s, v, inputs), exact(t, s, inputs)
			for _, p := range s.Outputs() {
				off, limit, err := c.Error(s, v.Precision().String(), p, got, want)
				require.NoError(t, err)
				if p.Name != "o" && p.Name != "final_state" {
					limit = min(limit, truth.FieldLimit(p))
				}
				require.LessOrEqual(t, off, limit, p.Name)
			}
		})
	}
}
