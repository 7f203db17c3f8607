package gdn

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// DecayKind is what the state of a token is weighed by before it is updated.
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
	{"kda", "a decay a channel, delta update: not built yet", Rule{DecayChannel, UpdateDelta}},
	{"gla", "a decay a channel, additive update: not built yet", Rule{DecayChannel, UpdateAdditive}},
}

// RuleNames lists the rules that a spec may name.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// ParseRule finds a rule by name.
func ParseRule(name string) (Rule, error) {
	for _, r := range rules {
		if r.name == name {
			return r.rule, nil
		}
	}
	return Rule{}, fmt.Errorf("%q is not allowed%s (allowed: %s)", name, suggest(name, RuleNames()), strings.Join(RuleNames(), " "))
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

// decays and writes say whether the rule has a decay, and a beta.
func (r Rule) decays() bool { return r.Decay != DecayNone }
func (r Rule) writes() bool { return r.Update == UpdateDelta }

// check says why nothing is built for a rule.
func (r Rule) check() error {
	switch {
	case strings.HasPrefix(r.String(), "invalid"):
		return fmt.Errorf("%d, %d are no decay and update (allowed: %s)", r.Decay, r.Update, strings.Join(RuleNames(), " "))
	case r.Decay == DecayChannel:
		near := Rule{DecayHead, r.Update}
		return fmt.Errorf("%s has a decay for each channel of the key, which no reference and no kernel here computes yet: take %s, whose decay is one number a head", r, near)
	}
	return nil
}

// embeds says whether a rule without decay is built as the gated rule whose log decay is zero: where the builder takes the decay apart from what
// it weighs, as those of gradients and of packed sequences do that are not gathered.
func (v Variant) embeds(s Spec) bool {
	return s.Rule == Rule{DecayNone, UpdateDelta} && (s.Direction != Forward || v.Pack == PackAligned || v.Pack == PackStream)
}

// embed gives the plan the gates of the gated rule, as constants.
func (p *plan) embed() {
	own := p.args
	p.s.Rule = Rule{}
	for _, in := range p.s.gateParams() {
		if own[in.Name] != nil {
			continue
		}
		fill := 0.0
		if in.Name == "a" {
			fill = closedGate
		}
		p.args[in.Name] = p.b.Const(in.Type, fill)
	}
}

// only takes the results of a spec out of those of the plan, which may compute a rule with more gates.
func (p *plan) only(results []*ir.Value, s Spec) []*ir.Value {
	made := s
	made.Rule = p.s.Rule
	var list []*ir.Value
	wanted := s.Outputs()
	for i, o := range made.Outputs() {
		if len(list) < len(wanted) && o.Name == wanted[len(list)].Name {
			list = append(list, results[i])
		}
	}
	return list
}

// fitRule takes the choices that a rule has: what is not built for it, and what it leaves without effect.
func (v Variant) fitRule(s Spec) Variant {
	if v.embeds(s) || s.Rule == (Rule{}) {
		return v
	}
	if v.Pack == PackAligned || v.Pack == PackStream {
		v.Pack = PackGather
	}
	if !s.Rule.decays() {
		v.Fold = false
	}
	if !s.Rule.writes() {
		v.Form, v.Flow, v.Beta = FormVPrime, FlowFused, BetaRight
	} else if v.Beta == BetaExponent { // there is none: with beta in V', what is written is rounded once (bench on v6e: 1.76 by wall, 1.80 with beta=right)
		v.Beta = BetaLeft
	}
	return v
}

// gateParams are the inputs that hold gates: log decay and beta as far as the rule has them, or their raw form.
func (s Spec) gateParams() []Param {
	var p []Param
	raw := s.Gates == GatesFused
	gate := func(name string, d ir.DType) Param { return Param{name, s.tokenType(d, s.HeadsV)} }
	if s.Rule.decays() && raw {
		p = append(p, Param{"A_log", ir.T(ir.F32, s.HeadsV)}, gate("a", s.GateDType), Param{"dt_bias", ir.T(ir.F32, s.HeadsV)})
	} else if s.Rule.decays() {
		p = append(p, gate("g", ir.F32))
	}
	if s.Rule.writes() && raw {
		p = append(p, gate("b", s.GateDType))
	} else if s.Rule.writes() {
		p = append(p, gate("beta", ir.F32))
	}
	return p
}
