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

// Gradients by random variants agree with the reference on random specs, and the text of their programs parses back.
func TestRandomGradientsAgree(t *testing.T) {
	seen := map[string]int{}
	for i := range 120 {
		r := rand.New(rand.NewPCG(uint64(i), 6))
		s, v := gdntest.RandomSpec(r), gdntest.RandomVariant(r)
		s.Direction = gdn.Direction(1 + r.IntN(2))
		v.Algo, v.Training.Save, v.Training.Saved = gdn.AlgoChunk, gdn.Save(r.IntN(int(gdn.SaveAll)+1)), ir.F32
		v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store = ir.PrecF32, ir.PrecF32, ir.PrecF32, ir.F32
		v.Numerics.PrecApply, v.Training.PrecGrad, v.Training.PrecUpdate = gdn.OwnInherit, gdn.OwnInherit, gdn.OwnInherit
		limit := 1e-5
		switch {
		case i%3 == 0:
			v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store, v.Training.Saved = ir.PrecBF16x1, ir.PrecBF16x1, ir.PrecBF16x1, ir.BF16, ir.BF16
			v.Inverse.Solve, v.Inverse.Merge, v.Inverse.LeafBy, v.Inverse.Leaf = gdn.SolveMerge, gdn.MergePacked, gdn.LeafSubst, 16
			v.Numerics.DecayBF16, v.Inverse.Mask = gdn.DecayBF16(r.IntN(3)), gdn.Mask(r.IntN(2))
			v.Training.DecayBy = gdn.DecayByTokens // the other needs an accurate inverse
			limit = .1
		case i%8 == 7: // the inverse, the update of the state and the gradients of q and gates in three products, all else in one
			v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Training.Saved = ir.PrecBF16x3, ir.PrecBF16x1, ir.PrecBF16x1, ir.BF16
			v.Numerics.PrecApply, v.Training.PrecGrad, v.Training.PrecUpdate, v.Numerics.Split, v.Inverse.Mask = gdn.OwnBF16x3, gdn.OwnBF16x3, gdn.OwnBF16x3, gdn.SplitDef, gdn.Mask(r.IntN(2))
			v.Inverse.Solve, v.Inverse.Merge, v.Inverse.LeafBy, v.Inverse.Leaf = gdn.SolveMerge, gdn.MergePacked, gdn.LeafSubst, 16
			limit = .1
		case i%8 == 1:
			v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState = ir.PrecBF16x3, ir.PrecBF16x3, ir.PrecBF16x3
			v.Inverse.Solve, v.Inverse.Merge, v.Inverse.LeafBy, v.Inverse.Leaf = gdn.SolveMerge, gdn.MergePacked, gdn.LeafSubst, 16
			v.Numerics.Split, v.Inverse.Mask = gdn.Split(r.IntN(2)), gdn.Mask(r.IntN(2))
			limit = 5e-4
		case v.Decay == gdn.DecayBase2:
			v.Decay = gdn.DecaySplit
		}
		v = v.Canon()
		if v.Check(s) != nil || v.Unsafe(s) != "" {
			continue
		}
		seen[s.Direction.String()]++
		seen[fmt.Sprintf("%s %s", v.Fit(s).Training.Save, v.Numerics.Store)]++
		name := fmt.Sprintf("%d: %s by %s", i, s, v)
		inputs := drawInputs(t, []string{"random", "slow", "cos.75"}[i%3], s, uint64(i))
		want := exact(t, s, inputs)
		m := build(t, s, v)
		p, err := ir.Parse(m.String())
		require.NoError(t, err, name)
		require.Equal(t, m.Hash(), p.Hash(), name)
		out := run(t, m, inputs)
		for _, o := range s.Outputs() {
			most := limit
			if o.Type.DType == ir.BF16 {
				most += 4e-3
			}
			require.LessOrEqual(t, array.Compare(out[o.Name], want[o.Name]).Ratio, most, "%s: %s", name, o.Name)
		}
	}
	for _, k := range []string{"backward", "train", "none f32", "state f32", "inverse f32", "all f32", "state bf16", "inverse bf16", "all bf16"} {
		require.Positive(t, seen[k], k)
	}
}

// Gradients of structurally different variants meet the limits of their precision on every class of inputs.
func TestGradientsOnClasses(t *testing.T) {
	for _, text := range []string{"default", "cpu,save=inverse", "bf16x3,save=all", "bf16,save=state", "tpu,save=all,saved=bf16", "tpu-x3,save=inverse"} {
		v := gdntest.MustVariant(t, text)
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			for _, c := range truth.Classes {
				if c.OfChannels() {
					continue
				}
				s := gdntest.MustParse(t, "t=192,hk=1,hv=2,k=32,direction=backward")
				s.Init = c.Name != "identical" // without it the gradient of the decay all but vanishes there
				s.NegEigval = c.Beyond
				inputs := drawInputs(t, c.Name, s, 1)
				got, want := interpret(t, s, v, inputs), exact(t, s, inputs)
				for _, p := range s.Outputs() {
					off, limit, err := c.Error(s, v.Precision().String(), p, got, want)
					require.NoError(t, err)
					require.LessOrEqual(t, off, limit, "%s: %s", c.Name, p.Name)
				}
			}
		})
	}
}

// Joined products take operands in bf16 beside those in f32, as single passes on float32 inputs have them.
func TestJoinedTypes(t *testing.T) {
	for _, text := range []string{"kq=joined,prec=bf16x1", "kq=joined,prec=bf16x1,grads=lanes", "kq=joined,precintra=bf16x1,chunk=32"} {
		s := gdntest.MustParse(t, "b=1,t=40,hk=1,hv=2,k=16,v=16,direction=train")
		v := gdntest.MustVariant(t, text)
		require.NoError(t, v.Check(s), text)
		inputs := drawInputs(t, "random", s, 1)
		require.Less(t, worst(run(t, build(t, s, v), inputs), exact(t, s, inputs)), .05, text)
	}
}

// Keys of one direction and many lengths are within the limits of their class. Rounded behind their norm they were not, by what dS across them made of
// the rounding: dbeta was off by .082 and .125 with these seeds, with a decay a channel by .082 and .121, and is by .042 and .062; .08 is allowed.
func TestOneKeyOfManyLengths(t *testing.T) {
	c, err := truth.LookupClass("identical")
	require.NoError(t, err)
	for _, row := range []struct{ rule, variant string }{{"gdn", "tpu-train,chunks=2"}, {"kda", "tpu-train,span=32"}} {
		s := gdntest.MustParse(t, "t=512,hk=1,hv=2,k=128,v=128,dtype=bf16,l2norm,init,direction=train,rule="+row.rule)
		v := gdntest.MustVariant(t, row.variant)
		for _, seed := range []uint64{1, 4} {
			inputs := drawInputs(t, c.Name, s, seed)
			got, want := interpret(t, s, v, inputs), exact(t, s, inputs)
			for _, p := range s.Outputs() {
				off, limit, err := c.Error(s, v.Precision().String(), p, got, want)
				require.NoError(t, err)
				require.LessOrEqual(t, off, limit, "%s, seed %d: %s", row.rule, seed, p.Name)
			}
		}
	}
}

// Where one key is all there is, half a unit in the last place of bf16 in the keys alone moves the gradient of the decay by several
// times the limit of flash-linear-attention, in float64: what is left of it is a remainder of what cancels. An initial state gives it a size.
func TestOneKeyWithoutState(t *testing.T) {
	for _, name := range []string{"identical", "beta2"} {
		for _, init := range []bool{false, true} {
			s := gdntest.MustParse(t, "t=256,hk=1,hv=2,k=64,v=64,direction=train")
			s.Init, s.NegEigval = init, name == "beta2"
			inputs := drawInputs(t, name, s, 1)
			want := exact(t, s, inputs)
			r, k := rand.New(rand.NewPCG(1, 1)), inputs["k"]
			moved := k.Float64s()
			for i := range moved {
				moved[i] *= 1 + (2*r.Float64()-1)/512
			}
			inputs["k"] = array.FromFloat64s(k.Type, k.Shape, moved)
			off, limit := array.Compare(exact(t, s, inputs)["dg"], want["dg"]).Ratio, truth.FieldLimit(gdn.Param{Name: "dg"})
			if init {
				require.LessOrEqual(t, off, limit, name)
			} else {
				require.Greater(t, off, 4*limit, name)
			}
		}
	}
}

// The class of three passes is within the limits of flash-linear-attention on every class of inputs, one key with beta beyond 1
// included. Of one key without an initial state nothing can be asked (TestOneKeyWithoutState).
func TestFieldLimits(t *testing.T) {
	v := gdntest.MustVariant(t, "tpu-train-x3")
	for _, c := range truth.Classes {
		if c.OfChannels() {
			continue
		}
		for _, fields := range []string{"init", "init=false"} {
			if (c.Name == "identical" || c.Beyond) && fields != "init" {
				continue
			}
			t.Run(c.Name+" "+fields, func(t *testing.T) {
				t.Parallel()
				s := gdntest.MustParse(t, "t=256,hk=1,hv=2,k=64,v=64,dtype=bf16,direction=train,"+fields)
				s.NegEigval = c.Beyond
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
}

// What a training step keeps is at most the states of all chunks of 64 in float32, as MaxText's kernel keeps them.
func TestKeptBytes(t *testing.T) {
	s := gdntest.MustParse(t, "train")
	state := int64(s.K * s.V * 4)
	most := int64(s.Batch*s.Tokens/64*s.HeadsV) * state
	for _, name := range []string{"tpu-train", "tpu-train-x3"} {
		require.LessOrEqual(t, KeptBytes(s, gdntest.MustVariant(t, name)), most, name)
	}
}

// The two programs of a training step give what the one of direction=train gives.
func TestBuildTraining(t *testing.T) {
	for _, text := range []string{"default,save=none", "default", "cpu,save=inverse", "tpu,save=all,saved=bf16", "tpu-train-x3", "tpu-train,chunks=2"} {
		v := gdntest.MustVariant(t, text)
		s := gdntest.MustParse(t, "t=150,hk=1,hv=2,k=16,v=24,seqs=4,init,gates=fused,l2norm,direction=train")
		inputs := drawInputs(t, "random", s, 1)
		want := interpret(t, s, v, inputs)
		forward, backward, err := Training(s, v)
		require.NoError(t, err)
		var bytes int64
		for _, r := range forward.Body.Yield[len(s.Results()):] {
			bytes += int64(r.Type.Bytes())
		}
		require.Equal(t, bytes, KeptBytes(s, v), text)
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
