package build

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// Where all channels of a head have one decay, Kimi Delta Attention is the gated delta rule, and the gradients of its decays sum up to that of the
// one.
func TestEqualChannels(t *testing.T) {
	for _, text := range []string{"t=30,hk=1,hv=2,k=4,v=3,init,direction=train", "t=20,hk=2,k=4,seqs=3,l2norm,gates=fused,init"} {
		head := gdntest.MustParse(t, text)
		channel := head
		channel.Rule = gdn.Rule{Decay: gdn.DecayChannel, Update: gdn.UpdateDelta}
		inputs := drawInputs(t, "random", head, 1)
		spread := map[string]*array.Array{}
		for _, p := range channel.Inputs() {
			x := inputs[p.Name]
			if n := p.Type.Size() / x.Size(); n > 1 {
				var wide []float64
				for _, g := range x.Float64s() {
					wide = append(wide, fillOf(n, g)...)
				}
				x = array.FromFloat64s(p.Type.DType, p.Type.Shape, wide)
			}
			spread[p.Name] = x
		}
		want, got := exact(t, head, inputs), exact(t, channel, spread)
		for name, x := range want {
			own, n := got[name].Float64s(), got[name].Size()/x.Size()
			for i, y := range x.Float64s() {
				sum := 0.0
				for _, e := range own[i*n:][:n] {
					sum += e
				}
				require.InDelta(t, y, sum, 1e-12*max(1, math.Abs(y)), "%s %s", text, name)
			}
		}
	}
}

// Where both gates of all channels are one number, GDN-2 is Kimi Delta Attention, and the gradients of its gates sum up to that of beta.
func TestEqualGates(t *testing.T) {
	for _, text := range []string{"t=30,hk=1,hv=2,k=4,v=3,init,direction=train,rule=kda", "t=20,hk=1,hv=2,k=4,seqs=3,l2norm,init,direction=backward,rule=kda,bound=-5,negeig"} {
		one := gdntest.MustParse(t, text)
		apart := one
		apart.Rule.Update = gdn.UpdateSplit
		inputs := drawInputs(t, "random", one, 1)
		spread := maps.Clone(inputs)
		delete(spread, "beta")
		for _, p := range apart.GateParams()[1:] {
			n := p.Type.Size() / inputs["beta"].Size()
			var wide []float64
			for _, x := range inputs["beta"].Float64s() {
				wide = append(wide, fillOf(n, x)...)
			}
			spread[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, wide)
		}
		want, got := exact(t, one, inputs), exact(t, apart, spread)
		for name, x := range want {
			own := [][]float64{}
			if name == "dbeta" {
				own = append(own, got["derase"].Float64s(), got["dwrite"].Float64s())
			} else {
				own = append(own, got[name].Float64s())
			}
			for i, y := range x.Float64s() {
				sum := 0.0
				for _, l := range own {
					n := len(l) / x.Size()
					for _, e := range l[i*n:][:n] {
						sum += e
					}
				}
				require.InDelta(t, y, sum, 1e-12*max(1, math.Abs(y)), "%s %s", text, name)
			}
		}
	}
}

// The future changes no bit of the past: no factor of a pair has a part in what comes after it, in any arithmetic.
func TestChannelsAreCausal(t *testing.T) {
	const from = 77 // within a chunk, and within a span
	for _, text := range []string{"t=150,hk=1,hv=2,k=16,v=8,rule=kda", "t=150,hk=1,hv=2,k=16,v=8,dtype=bf16,rule=gdn2,gates=fused,gatedtype=bf16,l2norm", "t=150,hk=2,k=16,v=8,dtype=bf16,rule=kda,bound=-5,gates=fused,gatedtype=bf16,l2norm"} {
		s := gdntest.MustParse(t, text)
		s.Final = false
		for _, variant := range []string{"cpu", "default", "tpu-long", "tpu-long,span=4", "token"} {
			past, future := drawInputs(t, "random", s, 1), drawInputs(t, "resets", s, 2)
			changed := map[string]*array.Array{}
			for _, p := range s.Inputs() {
				changed[p.Name] = past[p.Name]
				if len(p.Type.Shape) < 3 { // of a head, not of tokens
					continue
				}
				row := p.Type.Size() / s.Tokens
				x, y := past[p.Name].Float64s(), future[p.Name].Float64s()
				changed[p.Name] = array.FromFloat64s(p.Type.DType, p.Type.Shape, append(x[:from*row:from*row], y[from*row:]...))
			}
			v := gdntest.MustVariant(t, variant)
			one, other := interpret(t, s, v, past)["o"].Float64s(), interpret(t, s, v, changed)["o"].Float64s()
			rows := s.HeadsV * s.V * from
			require.Equal(t, one[:rows], other[:rows], "%s by %s", text, variant)
			require.NotEqual(t, one[rows:], other[rows:], "%s by %s", text, variant)
		}
	}
}

// Slots behind the last token leave the state as it is, also where a bounded decay is multiplied by a small rate.
func TestPaddingKeepsState(t *testing.T) {
	for _, text := range []string{"rule=kda", "rule=gdn2", "rule=kda,seqs=3", "rule=kda,direction=train"} {
		s := gdntest.MustParse(t, "t=33,hk=1,hv=2,k=16,v=8,gates=fused,bound=-5,init,"+text)
		inputs := drawInputs(t, "random", s, 1)
		inputs["A_log"] = array.FromFloat64s(ir.F32, []int{2}, []float64{-9, -12})
		want := exact(t, s, inputs)
		for _, variant := range []string{"cpu", "cpu,fuse=kernel"} {
			got := interpret(t, s, gdntest.MustVariant(t, variant), inputs)
			require.Less(t, array.Compare(got["final_state"], want["final_state"]).Ratio, 1e-6, "%s by %s", text, variant)
		}
	}
}

// Rates beyond what float32 has, exp(A_log) from 88.7 on, saturate a gate: values and gradients are those of float64, and none is NaN. One token has
// a raw gate of exactly 0, whose bounded decay is half the bound, and one a small one. Where a is as far below 0 as A_log is above, the decay is an
// ordinary one; where it is farther, there is none.
func TestSaturatedGates(t *testing.T) {
	logs := []float64{90, 200, 87}
	for _, text := range []string{"rule=kda,bound=-5", "rule=kda", "rule=gdn2,bound=-5", "rule=gdn", "rule=simple-gla"} {
		for _, direction := range []string{"", ",direction=train"} {
			s := gdntest.MustParse(t, "t=40,hk=1,hv=3,k=16,v=8,gates=fused,init,"+text+direction)
			inputs := drawInputs(t, "random", s, 1)
			inputs["A_log"] = array.FromFloat64s(ir.F32, []int{3}, logs)
			a, bias := inputs["a"].Float64s(), inputs["dt_bias"].Float64s()
			for _, x := range [][]float64{a, bias} { // sums with A_log are exact
				for i := range x {
					x[i] = math.Round(x[i]*1024) / 1024
				}
			}
			for i := range a {
				width := s.DecayWidth()
				token, head := i/(3*width), i/width%3
				switch {
				case s.Bound == 0 && token%3 == 0:
					a[i] -= logs[head] + 1
				case s.Bound == 0 && token%7 == 5:
					a[i] -= logs[head] + 120
				case s.Bound == 0:
					a[i] -= 3 // softplus is not 1 alone
				case token == 7 && direction == "":
					a[i] = -bias[i%(3*width)]
				}
			}
			inputs["a"], inputs["dt_bias"] = array.FromFloat64s(inputs["a"].Type, inputs["a"].Shape, a), array.FromFloat64s(ir.F32, inputs["dt_bias"].Shape, bias)
			want := exact(t, s, inputs)
			for _, variant := range []string{"cpu", "cpu,fuse=kernel", "cpu,fuse=kernel,decay=base2", "cpu,fuse=kernel,decay=segment", "token"} {
				v := gdntest.MustVariant(t, variant)
				if v.Check(s) != nil {
					continue
				}
				got, limit := interpret(t, s, v, inputs), 1e-5
				if !s.Rule.Channels() {
					limit = 2e-5 // as of resets: decays are sums of parts
				}
				for _, o := range s.Outputs() {
					for i, x := range got[o.Name].Float64s() {
						w := want[o.Name].Float64s()[i]
						require.InDelta(t, w, x, limit*max(1, math.Abs(w)), "%s by %s: %s[%d]", s, variant, o.Name, i)
					}
				}
			}
		}
	}
}

// A span is as wide as the bound of the decay allows: its inverse is a number, at the bound too.
func TestSpan(t *testing.T) {
	for text, want := range map[string]int{"rule=kda": 1, "rule=kda,bound=-5": 16, "rule=kda,bound=-2": 32, "rule=kda,bound=-19": 4, "rule=gdn": gdn.DefaultVariant().Span} {
		s := gdntest.MustParse(t, "tiny,"+text)
		v, err := gdntest.MustVariant(t, "chunk=128").With("span", "32")
		require.NoError(t, err)
		s.Tokens = 200
		require.Equal(t, want, v.Fit(s).Span, text)
	}
	s := gdntest.MustParse(t, "t=100,hk=2,k=16,v=8,rule=kda,bound=-5,init")
	for name, x := range map[string]float64{"g": -5, "beta": 1} {
		inputs := drawInputs(t, "random", s, 3)
		inputs[name] = array.FromFloat64s(ir.F32, inputs[name].Shape, fillOf(inputs[name].Size(), x))
		got := interpret(t, s, gdntest.MustVariant(t, "chunk=64"), inputs)
		require.LessOrEqual(t, worst(got, exact(t, s, inputs)), 1e-5, name)
	}
}
