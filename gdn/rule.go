package gdn

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// DecayKind is the factor of the state before a token's update: none, one a head, or one a channel.
type DecayKind uint8

// The decays.
const (
	DecayHead    DecayKind = iota // exp(g), one number a head
	DecayNone                     // 1
	DecayChannel                  // exp(g) of each row of the state: one number a channel of the key
)

// Update is what a token adds to the state.
type Update uint8

// The updates.
const (
	UpdateDelta    Update = iota // k beta (v - S^T k)^T: what the state says of k is corrected
	UpdateAdditive               // k v^T
	UpdateSplit                  // k (w v - S^T (b k))^T: erase gate b of each channel of the key and write gate w of each of the value in place of beta
)

// Rule is a recurrence over a state S [K, V] with an output o [V]: each token does
//
//	S <- decay S;  S <- S + update;  o = scale S^T q
//
// The zero value is the gated delta rule.
type Rule struct {
	Decay  DecayKind
	Update Update
}

// rules names the rules, in the order of their values in a spec.
var rules = []struct {
	name, doc string
	rule      Rule
}{
	{"gdn", "gated delta rule: a decay a head, delta update (Yang et al., 2024)", Rule{DecayHead, UpdateDelta}},
	{"deltanet", "delta rule without decay (Schlag et al., 2021)", Rule{DecayNone, UpdateDelta}},
	{"simple-gla", "linear attention with a decay a head, as in Mamba-2 (Dao and Gu, 2024): no beta, nothing is inverted", Rule{DecayHead, UpdateAdditive}},
	{"linear", "linear attention (Katharopoulos et al., 2020): neither decay nor beta", Rule{DecayNone, UpdateAdditive}},
	{"kda", "delta rule with a decay a channel of the key: Kimi Delta Attention (Kimi Linear, 2025)", Rule{DecayChannel, UpdateDelta}},
	{"gla", "linear attention with a decay a channel: Gated Linear Attention (Yang et al., 2023), no beta", Rule{DecayChannel, UpdateAdditive}},
	{"gdn2", "delta rule with a decay and an erase gate a channel of the key, and a write gate a channel of the value: GDN-2 (2026)", Rule{DecayChannel, UpdateSplit}},
}

// RuleNames lists the rules that a spec may name.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// Numbers of the definition.
const (
	L2Eps         = 1e-6 // inside the root of the norm of q and k
	SoftplusLimit = 20   // beyond it softplus(x) is x, as in the field's kernels
	ClosedGate    = -1e4 // a raw gate whose decay, or beta, is exactly zero, in float64 too: padding must not decay the state
)

// ClosedDecay is a raw gate whose log decay is exactly zero. That of a bounded one is a sigmoid of its product with the rate exp(A_log), which
// may be small: it is zero for rates from e^-20 on.
func (s Spec) ClosedDecay() float64 {
	if s.Bound != 0 {
		return -1e12
	}
	return ClosedGate
}

// ParseRule finds a rule by name.
func ParseRule(name string) (Rule, error) {
	for _, r := range rules {
		if r.name == name {
			return r.rule, nil
		}
	}
	return Rule{}, fmt.Errorf("%q is not allowed%s (allowed: %s)", name, suggest.Name(name, RuleNames()), strings.Join(RuleNames(), " "))
}

// String is the name of the rule.
func (r Rule) String() string {
	for _, x := range rules {
		if x.rule == r {
			return x.name
		}
	}
	return fmt.Sprintf("invalid(%d,%d)", r.Decay, r.Update)
}

// Decays says whether the rule has a decay.
func (r Rule) Decays() bool { return r.Decay != DecayNone }

// Writes says whether the rule has a delta update: a token corrects the value that the state returns for its key.
func (r Rule) Writes() bool { return r.Update != UpdateAdditive }

// SplitGates says whether a token erases and writes by gates of channels, in place of one beta.
func (r Rule) SplitGates() bool { return r.Update == UpdateSplit }

// Channels says whether each channel of the key has a decay of its own.
func (r Rule) Channels() bool { return r.Decay == DecayChannel }

// check refuses what is no rule.
func (r Rule) check() error {
	if strings.HasPrefix(r.String(), "invalid") {
		return fmt.Errorf("%d, %d are no decay and update (allowed: %s)", r.Decay, r.Update, strings.Join(RuleNames(), " "))
	}
	return nil
}

// Embeds says whether a rule without decay is built as the gated rule with log decay zero. The builders of
// gradients and of packed sequences that are not gathered need that: they compute the decay separately from its
// operands.
func (v Variant) Embeds(s Spec) bool {
	return s.Rule == Rule{DecayNone, UpdateDelta} && (s.Direction != Forward || v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackStream)
}

// fitRule takes the choices that a rule has: what is not built for it, and what it leaves without effect.
func (v Variant) fitRule(s Spec) Variant {
	if !s.Rule.Channels() {
		v.Span = defaultSpan
	}
	if v.Embeds(s) || s.Rule == (Rule{}) {
		return v
	}
	if s.Rule.Channels() {
		v = v.fitChannels(s)
	}
	if v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackStream {
		v.Mapping.Pack = PackGather
	}
	if !s.Rule.Decays() {
		v.Fold = false
	}
	if s.Rule.SplitGates() { // K has the gate, before all products
		v.Beta = BetaRight
	} else if !s.Rule.Writes() {
		v.Form, v.Flow, v.Beta = FormVPrime, FlowFused, BetaRight
	} else if v.Beta == BetaExponent && s.Rule.Channels() { // in V' it would meet what feedback hands on to tokens behind a strong decay
		v.Beta = BetaRight
	} else if v.Beta == BetaExponent { // there is none: with beta in V', what is written is rounded once (bench on v6e: 1.76 by wall, 1.80 with beta=right)
		v.Beta = BetaLeft
	}
	return v
}

// fitChannels takes the choices that a decay a channel has: it is between the factors of products, so nothing is shared between the value
// heads of a key head, and K and Q take it before they meet the state. A span is as wide as the bound of the decay allows.
func (v Variant) fitChannels(s Spec) Variant {
	v.Share, v.Form, v.Fold, v.TailDecay, v.Training.PrecUpdate, v.RowBroadcast = false, FormVPrime, true, TailDecayK, OwnInherit, BroadcastLanes
	if v.Decay != DecayBase2 {
		v.Decay = DecayClamp
	}
	if v.Unit == UnitSums || v.Unit == UnitMatrix && v.KQ == JointJoined { // they read the state before its decay
		v.Unit = UnitVector
	}
	v.Training.Grads, v.Training.DecayBy, v.Training.DecaySums, v.Training.DecayBF16 = GradsInRows, DecayByTokens, SumProducts, min(v.Training.DecayBF16, DecayBF16Operands)
	if !s.Rule.Writes() { // there is no inverse, and U is V
		v.Training.Save = min(v.Training.Save, SaveState)
	}
	v.Numerics.DecayBF16 = min(v.Numerics.DecayBF16, DecayBF16Operands) // products have their decay, rounded into both factors, before beta
	v.Span = min(v.Span, v.Chunk)
	lowest, reach := -s.Bound, spanReach
	if v.Precision() != ir.PrecBF16x1 { // sums of large decays are less exact
		reach /= 2
	}
	if s.Bound == 0 && v.Precision() == ir.PrecBF16x1 {
		lowest = -ResetFloor
	}
	for v.Span > 1 && (lowest == 0 || lowest*float64(v.Span)/2 > reach) {
		v.Span /= 2
	}
	return v
}

// ResetFloor is the log decay below which nothing survives in float32: builders take no lower one. Sums of decays no lower keep their precision.
const ResetFloor = -40.0

// spanReach bounds the log decay between either end of a span and its boundary, half of all that it can decay by: its exponential, and that of
// its inverse, are float32, and so are products of keys with it.
const spanReach = 80.0

// GateParams are the inputs of gates: log decay and beta as far as the rule has them, or their raw form; erase and
// write gates where the rule has both.
func (s Spec) GateParams() []Param {
	var p []Param
	raw := s.Gates == GatesFused
	decay, beta := s.decayShape(), []int{s.HeadsV}
	gate := func(name string, d ir.DType, shape []int) Param { return Param{name, s.tokenType(d, shape...)} }
	if s.Rule.Decays() && raw {
		p = append(p, Param{"A_log", ir.T(ir.F32, s.HeadsV)}, gate("a", s.GateDType, decay), Param{"dt_bias", ir.T(ir.F32, decay...)})
	} else if s.Rule.Decays() {
		p = append(p, gate("g", ir.F32, decay))
	}
	switch {
	case s.Rule.SplitGates() && raw:
		p = append(p, gate("b", s.GateDType, []int{s.HeadsV, s.K}), gate("w", s.GateDType, []int{s.HeadsV, s.V}))
	case s.Rule.SplitGates():
		p = append(p, gate("erase", ir.F32, []int{s.HeadsV, s.K}), gate("write", ir.F32, []int{s.HeadsV, s.V}))
	case s.Rule.Writes() && raw:
		p = append(p, gate("b", s.GateDType, beta))
	case s.Rule.Writes():
		p = append(p, gate("beta", ir.F32, beta))
	}
	return p
}

// decayShape is the shape of the log decays of a token: [Hv], or [Hv, K] where each channel has one.
func (s Spec) decayShape() []int {
	if s.Rule.Channels() {
		return []int{s.HeadsV, s.K}
	}
	return []int{s.HeadsV}
}

// Top is the largest value of beta, or of the erase gate.
func (s Spec) Top() float64 {
	if s.NegEigval {
		return 2
	}
	return 1
}

// DecayWidth is the number of log decays of a token and value head.
func (s Spec) DecayWidth() int {
	if s.Rule.Channels() {
		return s.K
	}
	return 1
}
