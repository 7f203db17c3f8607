package build

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
)

// cachedSpecs have caches of the convolution in all that a spec may say of them.
var cachedSpecs = []string{
	"b=3,t=1,hk=1,hv=2,k=16,v=16,gates=fused,l2norm,init,conv=4,convstate,convbias",
	"b=2,t=37,hk=1,hv=2,k=16,v=8,l2norm,init,conv=4,convrows=5,convstate",
	"b=2,t=5,hk=1,k=16,l2norm,conv=9,convbias,convstate",                   // fresh, more taps than tokens
	"t=40,hk=1,hv=2,k=16,v=8,l2norm,init,conv=2,convstate,packed,every=16", // a cache after every so many tokens
	"b=5,t=1,hk=1,hv=2,k=16,gates=fused,l2norm,init,pool=7,inplace,conv=4,convrows=4,convstate,rows=qkv",
	"b=5,t=3,hk=1,hv=2,k=16,gates=fused,l2norm,init,pool=21,inplace,read,window,conv=4,convstate,convbias",
	"b=4,t=3,hk=1,k=16,gates=fused,l2norm,init,pool=15,read,window,conv=4,convrows=4,convstate,rule=kda,bound=-5,dtype=bf16,state=vk",
	"t=45,hk=1,hv=2,k=16,gates=fused,l2norm,seqs=5,packed,conv=4,convbias",
	"t=45,hk=1,hv=2,k=16,gates=fused,l2norm,seqs=5,packed,init,conv=4,convstate,empty=zero,rows=flat",
	"t=45,hk=1,hv=2,k=16,gates=fused,l2norm,seqs=5,packed,init,pool=9,inplace,read,conv=4,convrows=6,convstate,convbias",
	"t=45,hk=1,k=16,gates=fused,l2norm,seqs=5,init,pool=5,conv=3,convstate,rule=kda,bound=-5",
	"t=30,hk=1,k=16,l2norm,seqs=1,packed,init,conv=4,convstate,rule=gla",
}

// withinLimits holds outputs to the limits of a class, and caches of the convolution to the bit.
func withinLimits(t *testing.T, s gdn.Spec, v gdn.Variant, class string, inputs, got map[string]*array.Array) {
	t.Helper()
	c, err := truth.LookupClass(class)
	require.NoError(t, err)
	want := exact(t, s, inputs)
	for _, p := range s.Outputs() {
		if gdn.IsConvState(p.Name) {
			require.Equal(t, want[p.Name].Float64s(), got[p.Name].Float64s(), "%s of %s", p.Name, s)
			continue
		}
		limit, err := c.Limit(s, v.Precision().String(), p.Type.DType)
		require.NoError(t, err)
		require.LessOrEqual(t, array.Compare(got[p.Name], want[p.Name]).RelMax, limit, "%s of %s on %s", p.Name, s, class)
	}
}

// sideBySide are packed forms with heads side by side, whose packed tokens a kernel of their own convolves.
var sideBySide = []string{"tpu-packed,layout=bt_hd,chunk=16", "tpu-packed,layout=bt_hd,chunk=16,chunks=1,heads=2,phases_before=0"}

// Every legitimate variant goes on from caches of the convolution, and leaves them.
func TestConvolutionCaches(t *testing.T) { byEveryVariant(t, cachedSpecs) }

// byEveryVariant computes specs by all variants that are legal for them. Classes, seeds and the place of norms and gates take turns.
func byEveryVariant(t *testing.T, specs []string) {
	var list []gdn.Variant
	for turn, n := range gdn.Variants {
		if !n.Negative {
			v := gdntest.MustVariant(t, n.Text)
			v.Fuse = []gdn.Place{gdn.PlaceXLA, gdn.PlaceKernel}[turn%2]
			list = append(list, v)
		}
	}
	for _, text := range sideBySide {
		list = append(list, gdntest.MustVariant(t, text))
	}
	for turn, v := range list {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			for i, text := range specs {
				if s := gdntest.MustParse(t, text); v.Check(s) == nil {
					class := []string{"random", "cos.9"}[(turn+i)%2]
					inputs := drawInputs(t, class, s, uint64(i))
					withinLimits(t, s, v, class, inputs, interpret(t, s, v, inputs))
				}
			}
		})
	}
}

// NaN in slots from which no sequence starts, and in all that belongs to a sequence without a state, changes no bit of the others.
func TestCachesContain(t *testing.T) {
	for _, text := range cachedSpecs {
		s := gdntest.MustParse(t, text)
		if s.Pool == 0 {
			continue
		}
		for _, name := range append([]string{"cpu", "cpu-packed", "token", "decode", "cpu-decode", "tpu", "tpu-packed"}, sideBySide...) {
			n := gdntest.MustVariant(t, name)
			if n.Check(s) != nil {
				continue
			}
			inputs := drawInputs(t, "random", s, 1)
			want := interpret(t, s, n, inputs)
			written, from := inputs["state_indices"].Int64s(), inputs["state_indices"].Int64s()
			if s.Read {
				from = inputs["read_indices"].Int64s()
			}
			free := func(slot int) bool {
				for i, at := range from {
					if written[i] >= 0 && int(at) == slot {
						return false
					}
				}
				return true
			}
			poisoned := map[string]*array.Array{}
			for name, a := range inputs {
				poisoned[name] = a
				if name != "initial_state" && name != "initial_conv" {
					continue
				}
				x := slices.Clone(a.Float64s())
				for i := range x {
					if free(i / (len(x) / s.Pool)) {
						x[i] = math.NaN()
					}
				}
				poisoned[name] = array.FromFloat64s(a.Type, a.Shape, x)
			}
			got := interpret(t, s, n, poisoned)
			require.Equal(t, want["o"].Data, got["o"].Data, "%s by %s", s, name)
			for _, out := range []string{"final_state", "final_conv"} {
				w, g := want[out].Float64s(), got[out].Float64s()
				each := len(w) / s.Pool
				for slot := range s.Pool {
					if !slices.Contains(written, int64(slot/s.Checkpoints())) {
						continue
					}
					require.Equal(t, w[slot*each:][:each], g[slot*each:][:each], "%s of slot %d of %s by %s", out, slot, s, name)
				}
			}
		}
	}
}

// Stored cases, made by tests/fixtures/operator/make.py from what the operator means, are what the reference and all legitimate variants give.
func TestStoredCaches(t *testing.T) {
	cases, err := truth.ReadCases(storedCases + "/operator")
	require.NoError(t, err)
	require.Len(t, cases, 5)
	for _, c := range cases {
		inputs, expected, err := c.Load()
		require.NoError(t, err)
		judge := func(by, precision string, got map[string]*array.Array) {
			file, err := c.FileOutputs(got)
			require.NoError(t, err)
			verdicts, err := c.Judge(expected, file.Tensors, precision)
			require.NoError(t, err)
			require.Len(t, verdicts, 3)
			for _, d := range verdicts {
				require.True(t, d.Pass, "%s by %s: %+v", c.Name, by, d)
			}
		}
		judge("the reference", "f32", exact(t, c.Spec, inputs))
		for _, n := range gdn.Variants {
			if v := gdntest.MustVariant(t, n.Text); !n.Negative && v.Check(c.Spec) == nil {
				judge(n.Name, v.Precision().String(), interpret(t, c.Spec, v, inputs))
			}
		}
	}
}
