package gdn

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
)

// DecayKind is the factor on the state before a token's update: none, one per head, or one per channel.
type DecayKind uint8

// The decays.
const (
	DecayHead    DecayKind = iota // exp(g), one number per head
	DecayNone                     // 1
	DecayChannel                  // exp(g) for each row of the state: one number per key channel
)

// Update is the term that a token adds to the state.
type Update uint8

// The updates.
const (
	UpdateDelta    Update = iota // k beta (v - S^T k)^T: corrects the value that the state returns for k
	UpdateAdditive               // k v^T
	UpdateSplit                  // k (w v - S^T (b k))^T: erase gate b per key channel and write gate w per value channel replace beta
)

// Rule is a recurrence over a state S [K, V] with output o [V]. Each token computes
//
//	S <- decay S;  S <- S + update;  o = scale S^T q
//
// The zero value is the gated delta rule.
type Rule struct {
	Decay  DecayKind
	Update Update
}

// rules lists the named rules, in the order of their values in a spec.
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

// RuleNames returns the names of the rules.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// Constants of the definition.
const (
	L2Eps         = 1e-6 // added to sum x^2 inside the root of the norm of q and k
	SoftplusLimit = 20   // above it softplus(x) is x, as in common kernels
	ClosedGate    = -1e4 // raw gate for padding: decay, or beta, is exactly zero even in float64
)

// ClosedDecay returns a raw gate for which the log decay is exactly zero. A bounded log decay is a sigmoid of the gate times exp(A_log), so the gate is
// -1e12 there: zero for all rates exp(A_log) from e^-20 on.
func (s Spec) ClosedDecay() float64 {
	if s.Bound != 0 {
		return -1e12
	}
	return ClosedGate
}

// ParseRule returns the rule with this name, or an error that lists the names.
func ParseRule(name string) (Rule, error) {
	for _, r := range rules {
		if r.name == name {
			return r.rule, nil
		}
	}
	return Rule{}, fmt.Errorf("%q is not allowed%s (allowed: %s)", name, suggest.Name(name, RuleNames()), strings.Join(RuleNames(), " "))
}

// String returns the name of the rule, or "invalid(decay,update)" for a combination without a name.
func (r Rule) String() string {
	for _, x := range rules {
		if x.rule == r {
			return x.name
		}
	}
	return fmt.Sprintf("invalid(%d,%d)", r.Decay, r.Update)
}

// Decays reports whether the rule has a decay.
func (r Rule) Decays() bool { return r.Decay != DecayNone }

// Writes reports whether the rule has a delta update: a token corrects the value that the state returns for its key.
func (r Rule) Writes() bool { return r.Update != UpdateAdditive }

// SplitGates reports whether tokens erase and write by per-channel gates instead of one beta.
func (r Rule) SplitGates() bool { return r.Update == UpdateSplit }

// Channels reports whether each key channel has its own decay.
func (r Rule) Channels() bool { return r.Decay == DecayChannel }

// check returns an error unless the rule has a name.
func (r Rule) check() error {
	if strings.HasPrefix(r.String(), "invalid") {
		return fmt.Errorf("%d, %d are no decay and update (allowed: %s)", r.Decay, r.Update, strings.Join(RuleNames(), " "))
	}
	return nil
}

// Embeds reports whether the delta rule without decay is built as the gated rule with log decay zero. The builders of gradients and of aligned or
// streamed packed sequences need that, since they compute the decay separately from its
// operands.
func (v Variant) Embeds(s Spec) bool {
	return s.Rule == Rule{DecayNone, UpdateDelta} && (s.Direction != Forward || v.Mapping.Pack == PackAligned || v.Mapping.Pack == PackStream)
}

// fitRule sets the axes that s.Rule does not support, or that have no effect with it, to supported values.
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
	if s.Rule.SplitGates() { // K takes the erase gate before all products
		v.Beta = BetaRight
	} else if !s.Rule.Writes() {
		v.Form, v.Flow, v.Beta = FormVPrime, FlowFused, BetaRight
	} else if v.Beta == BetaExponent && s.Rule.Channels() { // in V' beta would scale the error feedback that tokens after a strong decay receive
		v.Beta = BetaRight
	} else if v.Beta == BetaExponent { // no decay to fold beta into; with beta in V' the written value is rounded once (v6e: 1.76 in-order cycles, 1.80 with beta=right)
		v.Beta = BetaLeft
	}
	return v
}

// fitChannels sets the axes for per-channel decays. The decay lies between the factors of products, so the value heads of a key head share nothing, and
// K and Q are scaled before products with the state. The span, in tokens, is as large as the bound of the decay allows.
func (v Variant) fitChannels(s Spec) Variant {
	v.Share, v.Form, v.Fold, v.TailDecay, v.Training.PrecUpdate, v.RowBroadcast = false, FormVPrime, true, TailDecayK, OwnInherit, BroadcastLanes
	if v.Decay != DecayBase2 {
		v.Decay = DecayClamp
	}
	if v.Unit == UnitSums || v.Unit == UnitMatrix && v.KQ == JointJoined { // these read the state before its decay
		v.Unit = UnitVector
	}
	v.Training.Grads, v.Training.DecayBy, v.Training.DecaySums, v.Training.DecayBF16 = GradsInRows, DecayByTokens, SumProducts, min(v.Training.DecayBF16, DecayBF16Operands)
	if !s.Rule.Writes() { // there is no inverse, and U is V
		v.Training.Save = min(v.Training.Save, SaveState)
	}
	v.Numerics.DecayBF16 = min(v.Numerics.DecayBF16, DecayBF16Operands) // the decay is rounded into both factors of a product, before beta
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

// ResetFloor is the lowest log decay that builders use: below it nothing survives in float32, and the floor keeps sums of decays precise.
const ResetFloor = -40.0

// spanReach bounds the log decay from either end of a span to its boundary, which is half of the span's total. Then exp of it, exp of its negative, and
// products of both with keys stay within float32.
const spanReach = 80.0

// GateParams returns the gate inputs of the rule: log decay and beta as far as it has them, or their raw form; with split gates, erase and
// write instead of beta.
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

// decayShape returns the shape of the log decays of a token: [Hv], or [Hv, K] with per-channel decays.
func (s Spec) decayShape() []int {
	if s.Rule.Channels() {
		return []int{s.HeadsV, s.K}
	}
	return []int{s.HeadsV}
}

// Top returns the upper bound of beta, or of the erase gate: 2 with negative eigenvalues, else 1.
func (s Spec) Top() float64 {
	if s.NegEigval {
		return 2
	}
	return 1
}

// DecayWidth returns the number of log decays per token and value head: K with per-channel decays, else 1.
func (s Spec) DecayWidth() int {
	if s.Rule.Channels() {
		return s.K
	}
	return 1
}
