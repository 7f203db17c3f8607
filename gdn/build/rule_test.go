package build

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// built are the rules that reference and builders compute.
func built() (list []gdn.Rule) {
	for _, name := range gdn.RuleNames() {
		r, err := gdn.ParseRule(name)
		if err != nil {
			panic(err)
		}
		list = append(list, r)
	}
	return list
}

// The reference of each rule is that of the gated delta rule where its gates say nothing; the additive rules are sums over earlier tokens.
func TestRules(t *testing.T) {
	for _, text := range []string{"t=20,hk=1,hv=2,k=4,v=3,init", "t=20,hk=1,hv=2,k=4,v=3,seqs=3,l2norm,gates=fused,init"} {
		full := gdntest.MustParse(t, text)
		inputs := drawInputs(t, "random", full, 1)
		still := map[string]*array.Array{}
		for name, x := range inputs {
			still[name] = x
		}
		zero := func(name string, fill float64) {
			if x := inputs[name]; x != nil {
				still[name] = array.FromFloat64s(x.Type, x.Shape, fillOf(x.Size(), fill))
			}
		}
		zero("g", 0)
		zero("a", gdn.ClosedGate)
		delta := full
		delta.Rule = gdn.Rule{Decay: gdn.DecayNone, Update: gdn.UpdateDelta}
		require.Equal(t, exact(t, full, still), exact(t, delta, of(delta, inputs)), text)
	}

	s := gdntest.MustParse(t, "t=9,hk=1,hv=2,k=4,v=3,init,rule=simple-gla")
	inputs := drawInputs(t, "random", s, 1)
	out := exact(t, s, inputs)
	q, k, v, g, s0 := inputs["q"].Float64s(), inputs["k"].Float64s(), inputs["v"].Float64s(), inputs["g"].Float64s(), inputs["initial_state"].Float64s()
	for h := range s.HeadsV {
		for at := range s.Tokens {
			decay := func(after int) float64 { // of what token after wrote
				sum := 0.0
				for j := after + 1; j <= at; j++ {
					sum += g[j*s.HeadsV+h]
				}
				return math.Exp(sum)
			}
			for col := range s.V {
				want := 0.0
				for i := range s.K {
					state := decay(-1) * s0[(h*s.K+i)*s.V+col]
					for j := range at + 1 {
						state += decay(j) * k[j*s.K+i] * v[(j*s.HeadsV+h)*s.V+col]
					}
					want += s.EffectiveScale() * q[at*s.K+i] * state
				}
				require.InDelta(t, want, out["o"].Float64s()[(at*s.HeadsV+h)*s.V+col], 1e-12)
			}
		}
	}
}

func fillOf(n int, x float64) []float64 {
	l := make([]float64, n)
	for i := range l {
		l[i] = x
	}
	return l
}

// of are the inputs that a spec has.
func of(s gdn.Spec, all map[string]*array.Array) map[string]*array.Array {
	own := map[string]*array.Array{}
	for _, p := range s.Inputs() {
		own[p.Name] = all[p.Name]
	}
	return own
}

// A rule is a value of the spec: its text and JSON give it back, its gates are those it has, and one that is not built says so.
func TestRuleOfSpec(t *testing.T) {
	for text, want := range map[string]string{
		"tiny":                                 "g beta",
		"tiny,rule=deltanet":                   "beta",
		"tiny,rule=simple-gla":                 "g",
		"tiny,rule=linear":                     "",
		"tiny,rule=deltanet,gates=fused":       "b",
		"tiny,rule=simple-gla,gates=fused":     "A_log a dt_bias",
		"tiny,gates=fused,direction=train":     "A_log a dt_bias b",
		"tiny,rule=simple-gla,direction=train": "g",
		"tiny,rule=kda,bound=-5":               "g beta",
		"tiny,rule=kda,gates=fused":            "A_log a dt_bias b",
		"tiny,rule=gdn2":                       "g erase write",
		"tiny,rule=gdn2,gates=fused,bound=-5":  "A_log a dt_bias b w",
	} {
		s := gdntest.MustParse(t, text)
		var names string
		for _, p := range s.GateParams() {
			if names != "" {
				names += " "
			}
			names += p.Name
		}
		require.Equal(t, want, names, text)
		require.Equal(t, s, gdntest.MustParse(t, s.String()))
		var back gdn.Spec
		data, err := s.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalJSON(data))
		require.Equal(t, s, back)
	}
	for text, want := range map[string]string{
		"tiny,bound=-5":                "rule=gdn has one a head: leave out bound",
		"tiny,rule=kda,bound=-50":      "-19 to 0, 0 for none",
		"tiny,rule=deltnet":            `did you mean "deltanet"?`,
		"tiny,rule=linear,gates=fused": "linear has no gates: leave out gates=fused",
		"tiny,rule=simple-gla,negeig":  "simple-gla has no beta: leave out negeig",
	} {
		_, err := gdn.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := Module(gdntest.MustParse(t, "tiny,rule=simple-gla,direction=train"), gdntest.MustVariant(t, "cpu"))
	require.ErrorContains(t, err, "gradients of rule=simple-gla are computed by the reference alone")
	_, _, err = Training(gdntest.MustParse(t, "tiny,rule=deltanet"), gdntest.MustVariant(t, "cpu"))
	require.ErrorContains(t, err, "build direction=train")
	class, err := truth.LookupClass("beta0")
	require.NoError(t, err)
	require.ErrorContains(t, class.Supports(gdntest.MustParse(t, "tiny,rule=linear")), "about beta, which rule=linear has not")
}

// Gradients of DeltaNet are those of its reference; there are none of a decay.
func TestDeltaNetTrains(t *testing.T) {
	for _, text := range []string{"t=40,hk=1,hv=2,k=8,v=4,init,rule=deltanet,direction=train", "t=40,hk=1,hv=2,k=8,rule=deltanet,gates=fused,l2norm,direction=backward"} {
		s := gdntest.MustParse(t, text)
		inputs := drawInputs(t, "random", s, 1)
		got, want := interpret(t, s, gdntest.MustVariant(t, "chunk=16"), inputs), exact(t, s, inputs)
		require.NotContains(t, want, "dg")
		require.Len(t, got, len(want))
		require.LessOrEqual(t, worst(got, want), 1e-5, text)
	}
}

// Random variants of each rule agree with its reference.
func TestRandomVariantsOfRules(t *testing.T) {
	for _, rule := range built() {
		if rule == (gdn.Rule{}) {
			continue
		}
		t.Run(rule.String(), func(t *testing.T) {
			t.Parallel()
			runs := 0
			for i := range 260 {
				s, v, class := drawnProgram(i)
				s.Rule = rule
				if !rule.Writes() {
					s.NegEigval = false
				}
				if len(s.GateParams()) == 0 {
					s.Gates, s.GateDType = gdn.GatesGiven, ir.F32
				}
				if rule.Channels() && i%2 == 0 {
					s.Bound = -5
				}
				if rule.Channels() && class == "bf16x1" {
					s.K = 16 // decays are rounded into each element of a key: of four, one rounding is most of what a product has
				}
				if v.Check(s) == nil && v.Unsafe(s) == "" && (i+len(rule.String()))%3 == 0 {
					agrees(t, s, v, class, uint64(i))
					runs++
				}
			}
			require.Greater(t, runs, 30)
		})
	}
}
