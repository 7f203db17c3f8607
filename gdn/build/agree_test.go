package build

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// worst is the largest error over the largest magnitude, of the worse output.
func worst(got, want map[string]*array.Array) float64 {
	m := 0.0
	for name, w := range want {
		m = max(m, array.Compare(got[name], w).RelMax) // max with NaN is NaN
	}
	return m
}

// Every legitimate variant meets the limits of its precision on every class of inputs, adversarial ones included, and both
// whole-chunk power series break down on correlated keys.
func TestVariantsOnClasses(t *testing.T) {
	base := gdntest.MustParse(t, "t=192,hk=1,k=32")
	for _, n := range gdn.Variants {
		v := gdntest.MustVariant(t, n.Text)
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			broken := map[string]bool{}
			for _, c := range truth.Classes {
				if c.OfChannels() {
					continue
				}
				s := base
				s.NegEigval = c.Beyond
				inputs := drawInputs(t, c.Name, s, 1)
				got := worst(interpret(t, s, v, inputs), exact(t, s, inputs))
				limit, err := c.Limit(s, v.Precision().String(), s.Out)
				require.NoError(t, err)
				broken[c.Name] = !(got <= limit)
				if !n.Negative && v.Unsafe(s) == "" {
					require.LessOrEqual(t, got, limit, c.Name)
				}
			}
			for _, class := range []string{"u01nodecay", "cos.9", "cos.99", "identical"} {
				require.Equal(t, n.Negative, broken[class], class)
			}
			require.False(t, broken["random"])
		})
	}
}

// Storage in bf16 is of the inverse, not of what it is made of: more passes make it better.
func TestStoreKeepsPrecisionOfInverse(t *testing.T) {
	s := gdntest.MustParse(t, "t=128,hk=1,k=32")
	inputs := drawInputs(t, "cos.9", s, 1)
	want := exact(t, s, inputs)
	rms := func(text string) float64 {
		got := interpret(t, s, gdntest.MustVariant(t, text), inputs)
		return array.Compare(got["o"], want["o"]).Ratio
	}
	for _, merge := range []string{"rows", "packed"} {
		one := rms("chunk=128,solve=merge,leaf=16,merge=" + merge + ",prec=bf16x1,store=bf16")
		more := rms("chunk=128,solve=merge,leaf=16,merge=" + merge + ",prec=bf16x1,store=bf16,precinv=bf16x3")
		t.Logf("merge=%s: %.2e, with three passes for the inverse %.2e", merge, one, more)
		require.Less(t, more, .9*one)
	}
}

// Random variants agree with the reference on random specs, and the text of their programs parses back.
func TestRandomVariantsAgree(t *testing.T) {
	const runs = 250
	seen := map[string]int{}
	for i := range runs {
		s, v, class := drawnProgram(i)
		if v.Check(s) != nil || v.Unsafe(s) != "" {
			continue
		}
		for _, a := range gdn.Axes {
			seen[a.Name+"="+a.Get(&v)]++
		}
		agrees(t, s, v, class, uint64(i))
	}
	for _, a := range gdn.Axes {
		for _, value := range a.Values {
			if a.Name == "store" || len(a.Name) > 3 && a.Name[:4] == "prec" || a.Name == "solve" && (value == "neumann" || value == "newton") {
				continue
			}
			require.Positive(t, seen[a.Name+"="+value], "%s=%s was never drawn", a.Name, value)
		}
	}
}

// drawnProgram is the spec and the variant of a number, with the class of precision whose limits hold.
func drawnProgram(i int) (gdn.Spec, gdn.Variant, string) {
	r := rand.New(rand.NewPCG(uint64(i), 5))
	s := gdntest.RandomSpec(r)
	v := gdntest.RandomVariant(r)
	class := "f32"
	v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store = ir.PrecF32, ir.PrecF32, ir.PrecF32, ir.F32
	v.Numerics.PrecApply, v.Training.PrecGrad, v.Training.PrecUpdate = gdn.OwnInherit, gdn.OwnInherit, gdn.OwnInherit
	words := func(p ir.Precision, store ir.DType) { // what only products in bf16 have
		class = p.String()
		v.Numerics.PrecInv, v.Numerics.PrecIntra, v.Numerics.PrecState, v.Numerics.Store = p, p, p, store
		v.Algo, v.Inverse.Solve, v.Inverse.Merge, v.Inverse.LeafBy, v.Inverse.Leaf = gdn.AlgoChunk, gdn.SolveMerge, gdn.MergePacked, gdn.LeafSubst, 16
	}
	if i%3 == 0 {
		words(ir.PrecBF16x1, ir.BF16)
		v.Numerics.DecayBF16, v.Training.DecayBF16, v.Inverse.Mask = gdn.DecayBF16(r.IntN(int(gdn.DecayBF16All)+1)), gdn.DecayBF16(r.IntN(int(gdn.DecayBF16All)+1)), gdn.Mask(r.IntN(2))
		v.Inverse.MergePairs, v.Numerics.ErrorFeedback = []int{0, 16, 32, 64}[r.IntN(4)], []int{0, 2, 4, 8}[r.IntN(4)]
		v.Inverse.Refine = i%4 < 2
	} else if i%8 == 1 {
		words(ir.PrecBF16x3, ir.F32)
		v.Numerics.Split, v.Inverse.Mask = gdn.Split(r.IntN(2)), gdn.Mask(r.IntN(2))
	} else if v.Decay == gdn.DecayBase2 {
		v.Decay = gdn.DecaySplit
	}
	if i%2 == 0 && s.Seqs > 0 { // what aligned blocks need
		s.Pool, v.Mapping.Heads = 0, 0
		v.Algo, v.Flow, v.Form, v.Layout, v.Fold, v.Numerics.ErrorFeedback, v.Out, v.TransposeK, v.Mapping.Pack = gdn.AlgoChunk, gdn.FlowFused, gdn.FormVPrime, gdn.LayoutBTHD, false, 0, gdn.OutSeparate, gdn.TransposeValue, gdn.PackAligned
		if v.Decay = gdn.DecayClamp; class != "f32" {
			v.Decay = gdn.DecayBase2
		}
		v.Numerics.PrecState = v.Numerics.PrecIntra
		v.Forward.Prefetch = gdn.Prefetch(r.IntN(2))
	} else if s.Seqs > 0 && i%4 == 1 { // what a stream of chunks needs
		v.Mapping.Heads, v.Forward.PhasesBefore, v.Numerics.Split = 0, 0, gdn.SplitUse
		v.Algo, v.Flow, v.Form, v.Layout, v.Out, v.TransposeK, v.Mapping.Pack = gdn.AlgoChunk, gdn.FlowFused, gdn.FormVPrime, gdn.LayoutBTHD, gdn.OutSeparate, gdn.TransposeValue, gdn.PackStream
	} else if s.Seqs > 0 && i%4 == 3 {
		s.Pool, v.Algo, v.Flow, v.Mapping.Pack = 0, gdn.AlgoChunk, gdn.FlowFused, gdn.PackSegments
	}
	return s, v.Canon(), class
}

// agrees builds, parses and runs a program, and compares it with the reference.
func agrees(t *testing.T, s gdn.Spec, v gdn.Variant, class string, seed uint64) {
	name := fmt.Sprintf("%d: %s by %s", seed, s, v)
	inputs := drawInputs(t, "random", s, seed)
	want := exact(t, s, inputs)
	m := build(t, s, v)
	p, err := ir.Parse(m.String())
	require.NoError(t, err, name)
	require.Equal(t, m.Hash(), p.Hash(), name)
	out := run(t, m, inputs)
	limit, err := truth.Classes[0].Limit(s, class, s.Out)
	require.NoError(t, err)
	if v.Decay == gdn.DecayClamp && class == "f32" {
		limit = 5e-6 // one sum of clamped decays is good to 4e-6
	}
	require.LessOrEqual(t, worst(out, want), limit, name)
}
